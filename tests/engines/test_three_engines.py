# SPDX-License-Identifier: GPL-2.0-only
"""The same connections in the kernel and in two simulators."""
import numpy as np
import pandas as pd
import pytest

from conftest import small_scenario

KEYS = ["source", "conn"]
ASKED = ["init_bytes_asked", "acc_bytes_asked", "adus_asked", "scheduled_us", "iport", "aport"]
DELIVERED = ["init_bytes_delivered", "acc_bytes_delivered", "adus_delivered"]
TMIX = {"kind": "tmix", "target": "right_to_left", "load": "50 %"}


def compared(runs):
    """The connections of all runs side by side: the same ones, asked for the same bytes at the same times."""
    tables = {name: finished.table("connections").set_index(KEYS).sort_index() for name, finished in runs.items()}
    first, *others = tables.values()
    for other in others:
        pd.testing.assert_frame_equal(first[ASKED], other[ASKED])
    finished = np.logical_and.reduce([table["status"] == "finished" for table in tables.values()])
    assert finished.mean() > 0.7
    for other in others:
        pd.testing.assert_frame_equal(first.loc[finished, DELIVERED], other.loc[finished, DELIVERED], check_dtype=False)
    adus = [run.table("adus")[["source", "conn", "side", "index", "bytes"]] for run in runs.values()]
    for other in adus[1:]:
        pd.testing.assert_frame_equal(adus[0], other)
    assert {name: run.json("verdict.json")["verdict"] for name, run in runs.items()} == dict.fromkeys(runs, "valid")
    return tables, finished


@pytest.fixture(scope="module")
def small(run_in):
    tree = small_scenario(traffic=TMIX, **{"timing.warmup": "5 s", "timing.test": "20 s",
                                           "topology.left_delays": ["0 ms", "20 ms"]})
    return {name: run_in(name, tree, "reno") for name in ("uml", "ns3", "ns2")}


def test_the_same_connections_in_three_engines(small):
    """Some hundred connections over 10 Mbit/s: the median of an exchange is that of the kernel within 5 %."""
    compared(small)
    medians = {}
    for name, finished in small.items():
        adus = finished.table("adus").set_index(["source", "conn", "side", "index"])
        medians[name] = adus["delivered_us"] - adus["sent_us"]
    both = pd.DataFrame(medians).dropna()
    assert len(both) > 300
    for name in ("ns3", "ns2"):
        assert (both[name] / both["uml"]).median() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("cca", ["reno", "cubic"])
def test_the_quick_access_link_in_the_kernel_and_in_ns3(run_in, cca):
    """12,000 connections: throughput within 2 %, median completion of Reno's connections by size within 3 %."""
    runs = {name: run_in(name, "access-link", cca) for name in ("uml", "ns3")}
    tables, finished = compared(runs)
    rates = {name: run.metrics()["throughput_mean", "right_to_left"] for name, run in runs.items()}
    assert rates["ns3"] == pytest.approx(rates["uml"], rel=0.02)
    if cca == "reno":
        bytes_ = tables["uml"].loc[finished, ["init_bytes_asked", "acc_bytes_asked"]].sum(axis=1)
        classes = pd.cut(bytes_, [0, 10_000, 100_000, 1_000_000, np.inf])
        medians = {name: (table["end_us"] - table["start_us"])[finished].groupby(classes, observed=True).median()
                   for name, table in tables.items()}
        assert (medians["ns3"] / medians["uml"]).between(0.97, 1.03).all()


def test_slow_start_is_the_kernels_segment_by_segment(run_in):
    """After every acknowledgement, until one tells of a loss, the window is 10 segments more than were acknowledged."""
    windows = {}
    for name in ("uml", "ns3"):
        finished = run_in(name, small_scenario(**{"probes": {"queue": {}, "tcp_probe": {}}}))
        flow, = finished.json("raw/workload.json")["flows"]
        table = finished.table("tcp_probe")
        mine = table[table["src"].str.startswith(flow["src"] + ":") & (table["snd_una"] > 0)]
        acked = (mine["snd_una"] - mine["snd_una"].iloc[0]) // 1448
        growing = (mine["t_us"] < mine.loc[acked.diff() == 0, "t_us"].min())
        # the last of them may already carry a block of SACK
        windows[name] = dict(zip(acked[growing].iloc[:-1], mine.loc[growing, "snd_cwnd"].iloc[:-1]))
    both = windows["uml"].keys() & windows["ns3"].keys()
    assert len(both) > 30 and all(windows["uml"][n] == windows["ns3"][n] == 10 + n for n in both)
    # they also lose their first segment at the same window
    assert max(windows["uml"]) == pytest.approx(max(windows["ns3"]), abs=2)
