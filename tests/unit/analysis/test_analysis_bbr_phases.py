# SPDX-License-Identifier: GPL-2.0-only
"""When BBR probes, read from the gains of its socket."""
import numpy as np
import pandas as pd
import pytest

from analysis.metrics import bbr_phases
from analysis.read.runs import Run
from tests.unit.analysis import fixture

EACH_US, RTT_US = 10_000, 100_000
STARTUP, DRAIN, UP, DOWN, CRUISE, PROBE_RTT = (2.89, 2.89), (0.35, 2.89), (1.25, 2), (0.75, 2), (1, 2), (1, 1)
CYCLE = [(UP, 10), (DOWN, 10), (CRUISE, 60)]


@pytest.fixture
def found(tmp_path):
    """found([(gains, samples), ...]) -> {metric: value} of flow 1, from 2 s on, a sample each 10 ms."""
    def make(phases, window=lambda gains: 4 if gains == PROBE_RTT else 80):
        path = fixture.write_run(tmp_path / "bbr-seed1", shape=fixture.Shape(tcp_info_rows=2400), tmix=False,
                                 flows=[fixture.flow(1, 10_000, "bbr")])
        gains = [one for one, count in phases for _ in range(count)]
        table = pd.read_csv(path / "raw" / "tcp_info.csv.gz")
        ours = (table["node"] == "n4") & (table["sport"] == 10_000)
        rows = table[ours].iloc[[0] * len(gains)].assign(t_us=2_000_000 + EACH_US * np.arange(len(gains)))
        rows["cwnd"] = [window(one) for one in gains]
        fixture.save(path / "raw" / "tcp_info.csv.gz", rows)
        socket = rows[["t_us", "node", "src", "sport", "dst", "dport"]]
        fixture.save(path / "raw" / "bbr_info.csv.gz", socket.assign(
            bw_bps=10_000_000, model_min_rtt_us=RTT_US, pacing_gain=[one[0] for one in gains],
            cwnd_gain=[one[1] for one in gains]))
        return {one.metric: one.value for one in bbr_phases.compute(Run(path)) if one.scope == "flow_1"}
    return make


def test_phases_of_version_one(found):
    """Cycles of eight round trips; ProbeRTT of 300 ms begins every 2.7 s, and its window needs a moment."""
    probe = [(PROBE_RTT, 30)]
    assert found([(STARTUP, 50), (DRAIN, 10), *CYCLE * 3, *probe, *CYCLE * 3, *probe, *CYCLE]) == pytest.approx({
        "bbr_bandwidth_probe_interval": 8, "bbr_probe_rtt_interval": 2.7, "bbr_probe_rtt_time": 300,
        "bbr_probe_rtt_window": 4})


def test_a_cycle_that_probe_rtt_interrupts_does_not_count(found):
    assert found([*CYCLE * 2, (PROBE_RTT, 30), (CRUISE, 20), *CYCLE * 2])["bbr_bandwidth_probe_interval"] == 8


def test_a_probe_rtt_at_either_end_has_no_length(found):
    values = found([(PROBE_RTT, 30), *CYCLE * 2, (PROBE_RTT, 5)])
    assert values == pytest.approx({"bbr_bandwidth_probe_interval": 8, "bbr_probe_rtt_interval": 1.9})


def test_a_startup_alone_has_nothing(found):
    assert found([(STARTUP, 100), (DRAIN, 10)]) == {}
