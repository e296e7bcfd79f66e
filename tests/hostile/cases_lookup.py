# SPDX-License-Identifier: GPL-2.0-only
"""`testbed query`, `runs` and `rm` with conditions, names and folders that make no sense."""
from __future__ import annotations

import pathlib

from case import Case

_RUNS = 2


def _all_there(work: pathlib.Path) -> None:
    runs = [run for run in (work / "results/runs").iterdir() if not run.name.startswith(".")]
    assert len(runs) == _RUNS and (work / "results/small-load60/experiment.json").exists()


def _no_experiment(work: pathlib.Path) -> None:
    assert not (work / "results/small-load60").exists() and not [*(work / "results/runs").glob(".old-*")]


def _protected_index(work: pathlib.Path) -> None:
    """A folder cannot be replaced by a file."""
    (work / "results/index.sqlite").unlink()
    (work / "results/index.sqlite/in").mkdir(parents=True)


def _case(name: str, command: list[str], code: int, says: str, **more: object) -> Case:
    return Case(f"lookup-{name}", command, code, says, with_results=True,
                **{"after": _all_there, **more})  # type: ignore[arg-type]


CASES = [
    *[_case(f"query-{name}", ["query", text], 2, says) for name, text, says in (
        ("word", "cubic", "'cubic': a condition expected"), ("field", "colour=red", "no run has a field colour; there"),
        ("verdict", "verdict=vaild", "verdict=valid or verdict=suspect"), ("nan", "seed>nan", "'nan' is neither"),
        ("kernel", "scenario=none kernel>new", "a release expected"), ("yes", "listed=true", "listed=yes or listed=no"),
        ("quote", "cca='", "No closing quotation"), ("injection", "cca=a';drop", "No closing quotation"))],
    _case("query-metric", ["query", "--metric", "througput"], 2, "metric througput: .*close to it are throughput"),
    _case("query-scope", ["query", "--metric", "throughput:moon"], 2, "has no scope moon; there are: "),
    _case("verify-no-such-pack", ["verify", "none.tar.xz"], 2, "none.tar.xz: no such file"),
    _case("query-no-results", ["query"], 0, "0 runs", environment={"TESTBED_RESULTS": "nowhere"}),
    _case("runs-no-condition", ["runs", "--pin", "x"], 2, "which runs"),
    _case("runs-none", ["runs", "cca=moon", "--pin", "x"], 2, "no run with cca=moon"),
    _case("runs-rebuild-nowhere", ["runs", "--rebuild"], 2, "there are no runs", environment={"TESTBED_RESULTS": "no"}),
    _case("runs-rebuild-in-vain", ["runs", "--rebuild"], 1, r"index\.sqlite: cannot be written: ",
          prepare=_protected_index),
    *[_case(f"rm-{name}", ["rm", what], 2, says) for name, what, says in (
        ("nothing", "moon", "neither a run nor an experiment"), ("parent", "..", "neither a run nor an experiment"),
        ("results", "results", "neither a run nor an experiment"), ("runs", "results/runs", "neither a run nor"),
        ("etc", "/etc", "neither a run nor an experiment"), ("field", "colour=red", "no run has a field colour"),
        ("half", "cca=", "'cca=': a condition expected"))],
    _case("rm-one-of-two", ["rm", "small-load60", "moon"], 2, "moon: neither a run nor an experiment"),
    _case("rm-listed", ["rm", "cca=reno,cubic"], 0, "0 runs, .* 2 stay that are listed"),
    _case("rm-experiment", ["rm", "small-load60"], 0, "small-load60", after=_no_experiment),
]
