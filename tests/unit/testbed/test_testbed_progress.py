# SPDX-License-Identifier: GPL-2.0-only
"""Progress as it is shown."""
import pytest

from testbed.core import progress


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(progress, "time", made)
    return made


def test_plain_progress_is_one_line_per_phase_and_now_and_then(clock, capsys):
    with progress.open_display(2, 600) as display:
        display.start("reno-seed1")
        display.update("reno-seed1", "start", 0)
        display.update("reno-seed1", "start", 0)
        for _ in range(30):
            display.update("reno-seed1", "traffic", int((clock.now - 1000) * 5e6))
            clock.now += 1
        display.update("reno-seed1", "collect", 0)
        display.end("reno-seed1", "finished, valid")
    assert capsys.readouterr().err.splitlines() == [
        "reno-seed1: start", "reno-seed1: traffic 0 of 600 s",
        "reno-seed1: traffic 50 of 600 s, 5.0x real time, 1:50 left",
        "reno-seed1: traffic 100 of 600 s, 5.0x real time, 1:40 left",
        "reno-seed1: collect", "reno-seed1: finished, valid (30.0 s of wall time; run 1 of 2, about 30.0 s left)"]


@pytest.mark.parametrize("term, kind", [("dumb", progress._Plain), ("xterm", progress._Live)])
def test_a_terminal_whose_lines_cannot_change_gets_plain_ones(clock, monkeypatch, term, kind):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert type(progress.open_display(1, 1)) is kind


def test_plain_lines_are_neither_wrapped_nor_interpreted(clock, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with progress.open_display(1, 1) as display:
        display.note("[bold]what[/bold] :smile: " + "x" * 100)
    assert capsys.readouterr().err == "[bold]what[/bold] :smile: " + "x" * 100 + "\n"


def test_speed_is_that_of_each_run(clock):
    display = progress._Plain(2, 100)
    display._began = {"a": 1000, "b": 1000}
    assert display.describe("a", "collect", 5) == "collect"
    assert display.describe("a", "traffic", 0) == "traffic 0 of 100 s"
    clock.now += 10
    assert display.describe("b", "traffic", 0) == "traffic 0 of 100 s"
    clock.now += 10
    assert display.describe("a", "traffic", 40_000_000) == "traffic 40 of 100 s, 2.0x real time, 30.0 s left"
    assert display.describe("b", "traffic", 40_000_000) == "traffic 40 of 100 s, 4.0x real time, 15.0 s left"
    assert display.describe("b", "traffic", 101_000_000).endswith(" 0.0 s left")


def test_errors_are_one_line_on_standard_error(capsys):
    progress.print_error("no such thing")
    assert capsys.readouterr() == ("", "testbed: no such thing\n")
