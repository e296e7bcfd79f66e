# SPDX-License-Identifier: GPL-2.0-only
"""`testbed runs list`, `query`, `pin` and `rm` with conditions, names and folders that make no sense."""
from __future__ import annotations

import pathlib

from tests.hostile.case import Case

_RUNS = 2


def _all_there(work: pathlib.Path) -> None:
    runs = [run for run in (work / "results/runs").iterdir() if not run.name.startswith(".")]
    assert len(runs) == _RUNS and (work / "results/small-load60/experiment.json").exists()


def _no_experiment(work: pathlib.Path) -> None:
    assert not (work / "results/small-load60").exists() and not [*(work / "results/runs").glob(".old-*")]


def _nothing_exported(work: pathlib.Path) -> None:
    assert not (work / "x").exists()


def _protected_index(work: pathlib.Path) -> None:
    """A folder cannot be replaced by a file."""
    (work / "results/index.sqlite").unlink()
    (work / "results/index.sqlite/in").mkdir(parents=True)


def _case(name: str, command: list[str], code: int, says: str, **more: object) -> Case:
    return Case(f"lookup-{name}", command, code, says, with_results=True,
                **{"after": _all_there, **more})  # type: ignore[arg-type]


CASES = [
    *[_case(f"query-{name}", ["runs", "query", text], 2, says) for name, text, says in (
        ("word", "cubic", "'cubic': a condition expected"), ("field", "colour=red", "no run has a field colour; there"),
        ("verdict", "verdict=vaild", "verdict=valid or verdict=suspect"), ("nan", "seed>nan", "'nan' is neither"),
        ("kernel", "scenario=none kernel>new", "a release expected"), ("yes", "listed=true", "listed=yes or listed=no"),
        ("quote", "cca='", "No closing quotation"), ("injection", "cca=a';drop", "No closing quotation"))],
    _case("query-metric", ["runs", "query", "--metric", "througput"], 2,
          "metric througput: .*close to it are throughput"),
    _case("query-scope", ["runs", "query", "--metric", "throughput:moon"], 2, "has no scope moon; there are: "),
    _case("verify-no-pack", ["verify", "results/index.sqlite.tar.xz"], 2, "no such file"),
    _case("pack-nowhere", ["pack", "small-load60", "--output", "none/x.tar.xz"], 2, "none/x.tar.xz: no such folder"),
    _case("pack-name", ["pack", "small-load60", "--output", "x.zip"], 2, "a name that ends in .tar.xz expected"),
    _case("pack-nothing", ["pack", "moon"], 2, "no experiment 'moon'"),
    _case("export-comma", ["export", "small-load60", "--format", "flent,", "--output", "x"], 2,
          "formats separated by commas"),
    _case("export-into-a-file", ["export", "small-load60", "--format", "flent", "--output", "results/index.sqlite"], 2,
          "a file; a folder expected"),
    _case("export-without-captures", ["export", "small-load60", "--format", "pcapng", "--output", "x"], 1,
          "no captures in raw/", after=_nothing_exported),
    _case("watch-a-file", ["watch", "--once"], 2, "index.sqlite is not a folder; --results FOLDER names one",
          environment={"TESTBED_RESULTS": "results/index.sqlite"}),
    _case("query-no-results", ["runs", "query"], 0, "0 runs", environment={"TESTBED_RESULTS": "nowhere"}),
    _case("runs-no-condition", ["runs", "pin", "--why", "x"], 2, "required: CONDITION"),
    _case("runs-none", ["runs", "pin", "cca=moon", "--why", "x"], 2, "no run with cca=moon"),
    _case("runs-rebuild-nowhere", ["runs", "list", "--rebuild"], 2, "there are no runs",
          environment={"TESTBED_RESULTS": "no"}),
    _case("runs-rebuild-in-vain", ["runs", "list", "--rebuild"], 3, r"index\.sqlite: cannot be written: ",
          prepare=_protected_index),
    *[_case(f"rm-{name}", ["runs", "rm", what], 2, says) for name, what, says in (
        ("nothing", "moon", "neither a run nor an experiment"), ("parent", "..", "neither a run nor an experiment"),
        ("results", "results", "neither a run nor an experiment"), ("runs", "results/runs", "neither a run nor"),
        ("etc", "/etc", "neither a run nor an experiment"), ("field", "colour=red", "no run has a field colour"),
        ("half", "cca=", "'cca=': a condition expected"))],
    _case("rm-one-of-two", ["runs", "rm", "small-load60", "moon"], 2, "moon: neither a run nor an experiment"),
    _case("rm-listed", ["runs", "rm", "cca=reno,cubic"], 0, "0 runs, .* 2 stay that are listed"),
    _case("rm-experiment", ["runs", "rm", "small-load60"], 0, "small-load60", after=_no_experiment),
]
