# SPDX-License-Identifier: GPL-2.0-only
"""Completion of command lines, as bash asks for it."""
import os
import pathlib
import subprocess

import pytest

from testbed import PROJECT_DIR, cli
from tests.unit.analysis import fixture


def completed(line: str, results: pathlib.Path, **environment: str) -> list[str]:
    """What bash is told at the end of a line: argcomplete writes to descriptor 8."""
    asked = {**os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line,
             "COMP_POINT": str(len(line)), "COMP_TYPE": "9", "TESTBED_RESULTS": str(results), **environment}
    words = ["sh", "-c", f"{PROJECT_DIR}/bin/testbed 8>&1 9>/dev/null >/dev/null"]
    return subprocess.run(words, env=asked, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("line, expected", [
    ("testbed rep", ["report"]), ("testbed run acc", ["access-link"]), ("bin/testbed run two", ["two-hosts"]),
    ("testbed run access-link --cca reno,hyb", ["reno,hybla"]), ("testbed suite run stu", ["studies"]),
    ("testbed run access-link --swe", ["--sweep"]), ("testbed runs unp", ["unpin"]),
    ("testbed report dem", ["demo"]), ("testbed runs judge dem", ["demo"])])
def test_names_and_options(tmp_path, line, expected):
    if "dem" in line:
        fixture.write_experiment(tmp_path / "results/demo", ccas=["reno"], seeds=[1], shapes={})
    assert completed(line, tmp_path / "results") == expected


def test_a_variable_of_argcomplete_alone_asks_for_nothing(monkeypatch, capsys):
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.delenv("COMP_LINE", raising=False)
    with pytest.raises(SystemExit) as ended:
        cli.main(["runs", "lst"])
    assert ended.value.code == 2
    assert "did you mean list?" in capsys.readouterr().err


def test_without_argcomplete_there_is_no_answer_and_no_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "argcomplete", None)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setenv("COMP_LINE", "testbed run acc")
    assert cli.main([]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
