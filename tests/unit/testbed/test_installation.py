# SPDX-License-Identifier: GPL-2.0-only
"""`make install` and `pip install -e .`: all that is needed is there, outside the clone too."""
import os
import pathlib
import subprocess
import tomllib

import pytest

from testbed import PROJECT_DIR, __version__

#: packages that only a clone needs
_OF_A_CLONE = {"benchmarks", "tests"}
_KINDS = ("scenarios", "ccas", "engines", "topologies", "traffic", "probes", "knobs", "suites")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["make", "-s", "-C", PROJECT_DIR, "install", f"PREFIX={prefix}"], check=True)
    return prefix


def said_by(program: pathlib.Path, folder: pathlib.Path, *words: str) -> str:
    without = {name: value for name, value in os.environ.items() if not name.startswith(("TESTBED_", "PYTHON"))}
    return subprocess.run([program, *words], cwd=folder, env={**without, "HOME": str(folder), "COLUMNS": "200"},
                          capture_output=True, text=True, check=True).stdout


def test_a_notebook_outside_the_clone_has_the_labs_and_the_package(prefix, tmp_path):
    there = prefix / "lib/tcp-testbed"
    assert {path.name for path in (there / "docs/labs").iterdir()} == {
        path.name for path in (PROJECT_DIR / "docs/labs").iterdir() if path.is_file()}
    lines = "import testbed; print(testbed.__file__); print(testbed.open.__name__); testbed.open('nothing')"
    done = subprocess.run(["/usr/bin/python3", "-c", lines], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(there)})
    assert done.stdout.splitlines() == [str(there / "testbed/__init__.py"), "open_experiment"]
    assert done.stderr.splitlines()[-1].startswith("testbed.core.errors.UsageError: no experiment 'nothing'")


def test_it_runs_outside_the_clone_and_lists_the_same(prefix, tmp_path):
    program = prefix / "bin/testbed"
    assert said_by(program, tmp_path, "--version") == f"testbed {__version__}\n"
    here = said_by(PROJECT_DIR / "bin/testbed", tmp_path, "list", "--json", *_KINDS)
    assert said_by(program, tmp_path, "list", "--json", *_KINDS) == here
    assert str(PROJECT_DIR) not in said_by(program, tmp_path, "doctor")


def test_another_installation_replaces_the_first(tmp_path):
    gone = tmp_path / "a prefix/lib/tcp-testbed/scenarios/gone.yaml"
    gone.parent.mkdir(parents=True)
    gone.touch()
    subprocess.run(["make", "-s", "-C", PROJECT_DIR, "install", f"PREFIX={tmp_path / 'a prefix'}"], check=True)
    assert (gone.parent / "access-link.yaml").exists() and not gone.exists()
    assert [path.name for path in (tmp_path / "a prefix/lib").iterdir()] == ["tcp-testbed"]


def test_an_empty_prefix_is_refused(tmp_path):
    done = subprocess.run(["make", "-s", "-C", PROJECT_DIR, "install", "PREFIX=", f"DESTDIR={tmp_path}"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "PREFIX is empty" in done.stderr and not list(tmp_path.iterdir())


def test_all_sources_of_a_kernel_are_installed(prefix):
    for folder in ("kernel", "kernel-modules", "simulation"):
        mine = {str(path.relative_to(PROJECT_DIR)) for path in (PROJECT_DIR / folder).rglob("*") if path.is_file()}
        there = prefix / "lib/tcp-testbed"
        found = {str(path.relative_to(there)) for path in (there / folder).rglob("*") if path.is_file()}
        assert found >= {name for name in mine if "__pycache__" not in name}


def test_pip_is_told_all_packages():
    listed = tomllib.loads((PROJECT_DIR / "pyproject.toml").read_text())
    packages = {path.parent.name for path in PROJECT_DIR.glob("*/__init__.py")} - _OF_A_CLONE
    assert {*listed["tool"]["setuptools"]["packages"]} == packages
    assert listed["project"]["scripts"] == {"testbed": "testbed.cli:main"}
