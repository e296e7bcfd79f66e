# SPDX-License-Identifier: GPL-2.0-only
"""The scenario of docs/howto/wireless.md: samples of radios and packets agree with counters and airtimes."""

import pytest

from analysis.metrics import compute_metrics
from analysis.read.runs import Run
from testbed.probes.air import COUNTED
from tests.kernel import documented
from topologies import standards
from topologies.links.records import Cell


@pytest.fixture(scope="module")
def cell(run_scenario):
    return run_scenario(documented.scenario("howto/wireless.md"))


@pytest.fixture(scope="module")
def found(cell):
    metrics, errors = compute_metrics(Run(cell.folder))
    assert not errors, errors[0]["traceback"]
    return {(metric.metric, metric.scope): metric.value for metric in metrics}


def test_it_is_valid(cell):
    verdict = cell.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert any("every frame accounted for on the air" in one["message"] for one in verdict["checks"])


def test_the_last_sample_is_what_counters_say_at_the_end(cell):
    table, counters = cell.table("air"), cell.json("raw/counters.json")
    last = table[table["t_us"] == 5_000_000].set_index("node")
    assert set(last.index) == {"r2", "n2", "n3"}
    for node, row in last.iterrows():
        for name in COUNTED[:-1]:
            assert row[name] == counters["air_at_end"][node][name], (node, name)
        assert row["airtime_us"] == pytest.approx(counters["air_at_end"][node]["airtime_ns"] / 1000)
    assert cell.table("air_busy")["busy_us"].iloc[-1] == pytest.approx(counters["air_busy_ns"]["at_end"] / 1000)


def test_two_uploads_fill_the_cell_and_no_more(cell, found):
    """Large packets one way, acknowledgements the other: less than one station with large packets only."""
    described, = cell.json("raw/network.json")["cells"]
    most_mbps = standards.of(Cell(described)).saturated_bps(1500) / 1e6
    assert 0.6 * most_mbps < found["arrived_rate_l3", "all"] < most_mbps
    assert 85 < found["air_busy", "air"] <= 100 and found["garbled_share", "all"] > 0
    assert found["retry_share", "n2"] > 0 and found["frames_without_access", "all"] == 0


def test_packets_take_their_airtime_at_least(cell, found):
    """A station's frame, then a wire of 2 ms and one without delay."""
    described, = cell.json("raw/network.json")["cells"]
    table = cell.table("journeys")
    standard = standards.of(Cell(described))
    least_us = standard.frame_us(standard.data_bytes(1500)) + 2000
    assert table["min_us"].min() > least_us
    assert found["end_to_end_delay_mean", "all"] > least_us / 1000
    assert found["delivery_ratio", "all"] > 95
