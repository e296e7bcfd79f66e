# SPDX-License-Identifier: GPL-2.0-only
"""The examples of CONTRIBUTING.md, all together in a copy of the checkout."""
from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(".git", "results", "__pycache__", ".mypy_cache", ".hypothesis", "tests")
_PAGE = (PROJECT / "CONTRIBUTING.md").read_text()


def examples() -> dict[str, str]:
    """{path of a file: its content}: in each section the first file that is named, and the block."""
    found = {}
    for section in _PAGE.split("\n### ")[1:]:
        block = re.search(r"```(?:python|yaml)\n(.*?)```", section, re.DOTALL)
        if block:
            name = re.search(r"`([\w/.-]+\.(?:py|yaml))`", section)
            assert name, section
            found[name.group(1)] = block.group(1)
    return found


_PYTHON = [name for name in examples() if name.endswith(".py")]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A checkout with the examples in it."""
    folder = tmp_path_factory.mktemp("contributing") / "checkout"
    shutil.copytree(PROJECT, folder, ignore=_LEFT_OUT)
    for name, text in examples().items():
        assert not (folder / name).exists(), f"{name} is there already"
        (folder / name).write_text(text)
    return folder


def _run(copy: pathlib.Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, shell=True, cwd=copy, capture_output=True, text=True,
                          env={**os.environ, "TESTBED_RESULTS": str(copy / "results")})


def test_every_block_is_an_example() -> None:
    assert len(examples()) == len(re.findall(r"^```(?:python|yaml)$", _PAGE, re.MULTILINE)) == 16


def test_the_commands(copy: pathlib.Path) -> None:
    commands = re.findall(r"^bin/testbed .*$", _PAGE, re.MULTILINE)
    assert len(commands) == 6
    said = []
    for command in commands:
        done = _run(copy, command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        said.append(done.stdout)
    for word in ("slow-line", "line ", "hidden ", "burst ", "ping-pong ", "load_average ", "pipe "):
        assert word in said[0]
    assert said[3] == "3\n"
    assert "all: 11 of 12 runs" in said[4]          # one of them was just made
    assert _leaves_what_it_should(copy / "results/slow-line-bufferlong/runs/patient-seed1") == "valid"
    assert _leaves_what_it_should(copy / "results/slow-line-bufferlong/runs/cubic-seed1") == "valid"
    report = copy / "results/slow-line-bufferlong/report"
    assert (report / "figures/queue_length.svg").exists()
    assert "<th>largest window<br>" in (report / "index.html").read_text()
    queued = copy / "results/slow-line-bufferlong-kindsfb/runs/cubic-seed1"
    assert json.loads((queued / "plan.json").read_text())["scenario"]["topology"]["central"]["left_to_right"][
        "queue"]["kind"] == "sfb"
    assert _leaves_what_it_should(queued) == "valid"
    simulated = copy / "results/slow-line-buffershort-pipe/runs/reno-seed1"
    assert json.loads((simulated / "run.json").read_text())["status"] == "finished"
    assert "utilisation,r1_to_r2,%,90\n" in (simulated / "metrics.csv").read_text()
    assert "--fill PERCENT" in _run(copy, "bin/testbed run --help").stdout
    refused = _run(copy, "bin/testbed run slow-line --engine pipe --fill 0")
    assert refused.returncode == 2 and "argument --fill: '0': a number from 1 to 100 expected" in refused.stderr


def _leaves_what_it_should(run: pathlib.Path) -> str:
    """The verdict of a run that has what the new probe, check, metric and traffic leave."""
    verdict = json.loads((run / "verdict.json").read_text())
    assert [c for c in verdict["checks"] if "bytes were sent" in c["message"]]
    assert "largest_window,all,segments" in (run / "metrics.csv").read_text()
    assert (run / "raw/load_average.txt").read_text().count("\n") >= 5
    components = json.loads((run / "raw/workload.json").read_text())["components"]
    assert {component["kind"] for component in components} == {"greedy", "burst", "ping-pong"}
    assert verdict["verdict"] == "valid", verdict["reasons"]
    return str(verdict["verdict"])


@pytest.mark.parametrize("command", [
    ["flake8", *_PYTHON], ["isort", "--check-only", *_PYTHON],
    # knows the other files from tests/unit/test_style.py
    ["mypy", "--cache-dir", str(PROJECT / ".mypy_cache"), *_PYTHON]], ids=lambda command: command[0])
def test_the_examples_have_style(copy: pathlib.Path, command: list[str]) -> None:
    """Nothing that the tools do not also say without the examples, which tests/unit/test_style.py asserts."""
    done = _run(copy, shlex.join(command))
    assert done.returncode in (0, 1) and not done.stderr, done.stderr
    said = [line for line in done.stdout.splitlines() if any(name in line for name in examples())]
    assert said == []
