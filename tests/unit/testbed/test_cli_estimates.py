# SPDX-License-Identifier: GPL-2.0-only
"""What runs say before they begin, and when a sweep asks."""
import io
import sys
import types

import pytest

from testbed.cli import _estimates, _series
from testbed.core.errors import TestbedError
from testbed.core.run_files import RunRecord
from testbed.core.timing import Timing
from tests.unit.arguments import parsed


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def plans(count, duration_s):
    return [types.SimpleNamespace(id=f"{number:016x}", engine="uml", timing=Timing(test_us=duration_s * 1_000_000))
            for number in range(count)]


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))


def arguments(*more):
    return parsed("run", "small", "--jobs", 2, *more)


def answer(monkeypatch, text):
    monkeypatch.setattr("sys.stdin", _Terminal(text))
    monkeypatch.setattr("sys.stderr", _Terminal())


def announce(found, of, is_sweep=True):
    _estimates.announce(found, of, is_sweep)


def test_a_short_sweep_says_how_long_and_does_not_ask(monkeypatch, capsys):
    announce(plans(4, 59), arguments())
    assert capsys.readouterr().err == "4 of 4 runs, about 2:00, at the pace of real time; runs are often faster\n"
    answer(monkeypatch, "")
    announce(plans(4, 59), arguments())


@pytest.mark.parametrize("text, begins", [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)])
def test_a_long_sweep_asks_on_a_terminal(monkeypatch, text, begins):
    answer(monkeypatch, text)
    if begins:
        announce(plans(100, 59), arguments())
    else:
        with pytest.raises(TestbedError, match="nothing was run"):
            announce(plans(100, 59), arguments())


def test_what_is_no_sweep_says_how_long_and_does_not_ask(monkeypatch):
    answer(monkeypatch, "")
    announce(plans(100, 59), arguments(), is_sweep=False)
    assert sys.stderr.getvalue() == "100 of 100 runs, about 50:00, at the pace of real time; runs are often faster\n"


def test_yes_and_no_terminal_are_not_asked(monkeypatch, capsys):
    announce(plans(100, 59), arguments())
    assert "100 of 100 runs, about 50:00" in capsys.readouterr().err
    answer(monkeypatch, "")
    announce(plans(100, 59), arguments("--yes"))
    assert _series.parsed(["run", "access-link"]).yes      # nor is a part of a suite


def test_runs_that_are_there_say_how_fast_the_others_go(monkeypatch, capsys):
    done = {f"{number:016x}": RunRecord({"wall_s": 5.8}) for number in range(2)}
    monkeypatch.setattr(_estimates.Store, "finished", lambda self, run_id: done.get(run_id))
    announce(plans(4, 59), arguments())
    assert capsys.readouterr().err == "2 of 4 runs, about 5.8 s\n"
    announce(plans(4, 59), arguments("--again"))
    assert "4 of 4 runs" in capsys.readouterr().err
