# SPDX-License-Identifier: GPL-2.0-only
"""Curves of flows of programs, from what links carried and how long their queues were."""
import pathlib
import types

import numpy as np
import pandas as pd
import pytest

from analysis.flows import program_curves
from analysis.read import series
from analysis.read.runs import Interval
from traffic.workload.records import Flow


def flow(number, link, transport="program", **changes):
    return Flow({"flow": number, "component": "quic", "transport": transport, "hops": ["n3_to_r", "middle", link],
                 "hops_back": ["back"], "start_us": 1_000_000, "stop_us": None, "base_rtt_us": 40_000, **changes})


def a_run(*flows):
    """Of 3 s, whose link r_to_n1 carries 2 Mbit/s from 1 s on."""
    t_us = np.arange(0, 3_000_001, 100_000)
    table = pd.DataFrame({"t_us": t_us, "link": "r_to_n1", "sent_bytes": np.maximum(t_us - 1_000_000, 0) // 4,
                          "sent_packets": t_us // 1000, "drops": 0})
    return types.SimpleNamespace(path=pathlib.Path("run"), interval=Interval(0, 3_000_000), flows=list(flows),
                                 bottlenecks={"middle": {}, "back": {}}, frame=lambda name: table)


def test_the_rate_is_that_of_the_last_link():
    found = program_curves.rates(a_run(flow(1, "r_to_n1")), flow(1, "r_to_n1"), 100_000)
    assert found.t_us[0] == 1_100_000 and found.t_us[-1] == 3_000_000 and found.mbps == pytest.approx(2)


def test_nothing_is_known_of_a_link_that_flows_share():
    one, other = flow(1, "r_to_n1"), flow(2, "r_to_n1", "tcp")
    assert program_curves.flows(a_run(one, other)) == [one]
    assert program_curves.rates(a_run(one, other), one, 100_000) is None


def test_the_round_trip_waits_in_all_bottlenecks(monkeypatch):
    waits = {"middle": [5.0, 10.0, float("nan")], "back": [1.0, 1.0, 1.0]}
    monkeypatch.setattr(series, "queueing_delay_ms", lambda run, link, edges: np.array(waits[link]))
    at_us = np.array([100_000.0, 200_000, 300_000])
    assert program_curves.rtt_ms(a_run(), flow(1, "r_to_n1"), at_us).tolist() == [46, 51, 41]
    assert program_curves.rtt_ms(a_run(), flow(1, "r_to_n1", base_rtt_us=None), at_us) is None
