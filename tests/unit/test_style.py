# SPDX-License-Identifier: GPL-2.0-only
"""What the tools say of the code: style, order of imports, types, shell scripts."""
import pathlib
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
_NOT_OURS = {".git", "results", "__pycache__", ".mypy_cache", ".hypothesis"}
_MOST_LINES = 800


def files(suffix: str = "") -> list[pathlib.Path]:
    """The files of the project whose names end in `suffix`."""
    found = (p for p in PROJECT.rglob(f"*{suffix}") if p.is_file() and not p.is_symlink())
    return sorted(p for p in found if not _NOT_OURS & set(p.relative_to(PROJECT).parts))


def shell_scripts() -> list[pathlib.Path]:
    """Shell scripts by their first line or their name."""
    return [p for p in files() if p.suffix == ".sh" or p.read_bytes()[:9] in (b"#!/bin/sh", b"#!/bin/ba")]


def complaints(*command: str | pathlib.Path) -> str:
    """What a tool says, '' if it is content."""
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("command", [
    ["flake8"], ["isort", "--check-only", "--quiet", "."],
    # before test_contributing.py, by the same worker: that one finds its cache
    pytest.param(["mypy", "--no-error-summary"], marks=pytest.mark.xdist_group("test_contributing.py")),
], ids=lambda command: command[0])
def test_python(command: list[str]) -> None:
    said = complaints(*command)
    assert not said, said


def test_shell_scripts() -> None:
    scripts = shell_scripts()
    assert {"setup.sh", "testbed", "run"} <= {p.name for p in scripts}
    said = complaints("shellcheck", *scripts)
    assert not said, said


def test_files_are_short_and_licensed() -> None:
    python = [*files(".py"), *shell_scripts()]
    assert [str(p) for p in python if "SPDX-License-Identifier: GPL-2.0-only" not in p.read_text()[:200]] == []
    assert [str(p) for p in python if p.read_text().count("\n") > _MOST_LINES] == []
