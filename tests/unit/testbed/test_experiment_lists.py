# SPDX-License-Identifier: GPL-2.0-only
"""Runs that are taken off an experiment's list, and names of experiments that say what was set."""
import json

import pytest

from analysis.pages.report import build_report
from testbed import cli
from testbed.core.errors import UsageError
from testbed.core.run_files import Labels
from testbed.runs import experiment
from tests.unit.analysis import fixture


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    return fixture.write_experiment(tmp_path / "demo", seeds=[1, 2], failed={"reno-seed2": "no space left"})


def test_dropped_runs_leave_the_list_and_stay_on_disk(folder, capsys):
    assert cli.main(["runs", "drop", "demo", "--failed", "--why", "the disk <was> full"]) == 0
    assert capsys.readouterr().out == "reno-seed2\n"
    described = json.loads((folder / "experiment.json").read_text())
    assert [run["name"] for run in described["runs"]] == ["reno-seed1", "cubic-seed1", "cubic-seed2"]
    gone, = described["dropped"]
    assert (gone["name"], gone["why"]) == ("reno-seed2", "the disk <was> full")
    assert (folder.parent / "runs" / gone["id"]).is_dir() and not (folder / "runs" / "reno-seed2").is_symlink()
    page = build_report(folder).path.read_text()
    assert "1 run was dropped from this experiment: reno-seed2 (the disk &lt;was&gt; full)." in page


def test_what_is_not_listed_cannot_be_dropped(folder):
    with pytest.raises(UsageError, match="lists no run 'reno-seed3'"):
        experiment.drop(folder, ["reno-seed3"], "why")
    with pytest.raises(UsageError, match="no run would be left"):
        experiment.drop(folder, [f"{name}-seed{seed}" for name in ("reno", "cubic") for seed in (1, 2)], "why")
    assert "dropped" not in json.loads((folder / "experiment.json").read_text())


@pytest.mark.parametrize("settings, name", [
    ({"topology.central.queue.limit": "20"}, "demo-limit20"),
    ({"topology.central.rate": "20 Mbit/s", "traffic.rate": "5 Mbit/s"},
     "demo-central.rate20_Mbit_s-traffic.rate5_Mbit_s"),
    ({f"timing.some_long_name_{n}": "1 s" for n in range(4)}, "demo-set")])
def test_names_say_what_was_set(settings, name):
    described = experiment.Description(
        labels=Labels({"name": "demo", "title": "", "source": "", "description": "", "parameters": {"set": settings}}),
        base=None, engine="uml", kernel_spec=None, hz=None, kernel_key="", command=[], axes={})
    found = described.folder_name
    assert found == name if name != "demo-set" else len(found) == len("demo-set") + 8 and found.startswith(name)
