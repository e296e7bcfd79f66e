# SPDX-License-Identifier: GPL-2.0-only
"""A valid run of BBR against CUBIC whose raw files are edited: on their content alone each edit is found."""
import pytest

from testbed import checks
from tests.kernel import edited_files
from tests.kernel.small_runs import small_scenario

SCENARIO = {
    "name": "edits",
    "topology": {
        "kind": "dumbbell", "central": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": {"kind": "pfifo", "limit": 40}},
        "edge": {"rate": "1 Gbit/s", "queue": {"kind": "pfifo", "limit": 10000}},
        "left_delays": ["0 ms"], "right_delays": ["0 ms", "5 ms"]},
    "traffic": {"kind": "greedy", "tool": "sockets", "paths": ["n2->n1", "n3->n1"]},
    "timing": {"prefill": "0 s", "warmup": "2 s", "test": "8 s"},
    "probes": {"queue": {"interval": "10 ms", "edge_interval": "100 ms"}, "sojourn": {"interval": "10 ms"},
               "tcp_info": {"interval": "100 ms"}},
}


@pytest.fixture(scope="module")
def stored(run_scenario):
    return run_scenario(SCENARIO, "bbr+cubic")


def test_unedited_it_is_valid(stored):
    files, verdict = checks.judge_edited(stored.folder)
    assert not files and not verdict["errors"]
    assert verdict["verdict"] == "valid", verdict["reasons"]


@pytest.mark.parametrize("edit", edited_files.FOUND_BY, ids=lambda edit: edit.__name__)
def test_an_edit_is_found(stored, tmp_path, edit):
    raw = edited_files.Raw(stored.folder, tmp_path / "copy")
    edit(raw)
    raw.save()
    files, verdict = checks.judge_edited(raw.folder)
    assert files and not verdict["errors"]
    assert verdict["verdict"] != "valid"
    assert edited_files.FOUND_BY[edit] in {reason["check"] for reason in verdict["reasons"]}, verdict["reasons"]


@pytest.fixture(scope="module")
def mixed(run_scenario):
    return run_scenario(small_scenario(traffic=[
        {"name": "tmix", "kind": "tmix", "target": "right_to_left", "load": "20 %"},
        {"name": "probes", "kind": "cbr", "paths": ["n4->n1"], "rate": "1 Mbit/s", "packet": "200 B"}]))


@pytest.mark.parametrize("edit", edited_files.FOUND_IN_MIXED, ids=lambda edit: edit.__name__)
def test_an_edit_of_datagrams_and_connections_is_found(mixed, tmp_path, edit):
    def found_by(folder):
        return {reason["check"] for reason in checks.judge_edited(folder)[1]["reasons"]}
    raw = edited_files.Raw(mixed.folder, tmp_path / "copy")
    edit(raw)
    raw.save()
    check = edited_files.FOUND_IN_MIXED[edit]
    assert check in found_by(raw.folder) and check not in found_by(mixed.folder)
