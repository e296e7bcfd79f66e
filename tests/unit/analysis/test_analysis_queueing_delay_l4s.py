# SPDX-License-Identifier: GPL-2.0-only
"""Queueing delay of L4S packets and of others: which packets are of which kind, and their percentiles."""
import json

import pandas as pd
import pytest

from analysis.metrics import queueing_delay_l4s
from analysis.read.runs import Run
from tests.unit.analysis import fixture

LINK = "right_to_left"
#: (codepoint, low_us, high_us, packets)
ROWS = [("ect1", 100, 200, 100), ("not_ect", 10_000, 20_000, 50), ("ect0", 20_000, 30_000, 50), ("ce", 500, 600, 100)]


def found(folder, kind="codel", rows=ROWS, **options):
    fixture.write_run(folder)
    path = folder / "raw/network.json"
    network = json.loads(path.read_text())
    for link in network["links"]:
        link["queue"], link["queue_options"] = kind, {"limit": 850, **options}
    path.write_text(json.dumps(network))
    if rows is not None:
        table = pd.DataFrame(rows, columns=["codepoint", "low_us", "high_us", "packets"])
        table.insert(0, "link", LINK)
        fixture.save(folder / "raw/sojourn_codepoints.csv.gz", table)
    return {(metric.metric.removeprefix("queueing_delay_"), metric.scope): metric.value
            for metric in queueing_delay_l4s.compute(Run(folder))}


def test_percentiles_of_either_kind(tmp_path):
    """Marked packets are of neither kind behind a queue that does not know L4S."""
    assert found(tmp_path / "run", ecn=True) == {
        ("l4s_p50", LINK): pytest.approx(0.15), ("l4s_p95", LINK): pytest.approx(0.195),
        ("l4s_p99", LINK): pytest.approx(0.199), ("classic_p50", LINK): pytest.approx(20),
        ("classic_p95", LINK): pytest.approx(29), ("classic_p99", LINK): pytest.approx(29.8)}


@pytest.mark.parametrize("options, l4s_p99, classic_p50", [
    ({}, 0.598, 20), ({"classify": "any_ect"}, 29.0, 15), ({"drop_at": "enqueue"}, 0.199, 20)])
def test_dualpi2_says_which_packets_its_queue_takes(tmp_path, options, l4s_p99, classic_p50):
    metrics = found(tmp_path / "run", "dualpi2", **options)
    assert metrics["l4s_p99", LINK] == pytest.approx(l4s_p99, rel=0.02)
    assert metrics["classic_p50", LINK] == pytest.approx(classic_p50)


def test_nothing_without_l4s_packets_or_without_the_table(tmp_path):
    assert found(tmp_path / "none", rows=None) == {}
    classic = [row for row in ROWS if row[0] in ("ect0", "not_ect")]
    assert found(tmp_path / "classic", rows=classic) == {}
    assert found(tmp_path / "overload", "dualpi2", rows=classic)["classic_p50", LINK] == pytest.approx(20)
    assert {kind for kind, _ in found(tmp_path / "alone", rows=ROWS[:1])} == {"l4s_p50", "l4s_p95", "l4s_p99"}
