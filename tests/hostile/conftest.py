# SPDX-License-Identifier: GPL-2.0-only
from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from tests.hostile import runner
from tests.hostile.case import SMALL


def pytest_configure() -> None:
    runner.adopt_orphans()
    # what most commands import, once: cases run in copies of this process
    import kernel  # noqa: F401
    from testbed import checks, cli, engines  # noqa: F401
    from testbed.cli import list, report, run, runs, suite, tmix, verify  # noqa: F401
    from testbed.runs import campaign  # noqa: F401
    from traffic.tmix import tools  # noqa: F401
    cli._parser("run")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A results folder with an experiment of two runs."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.yaml").write_text(SMALL)
    done = subprocess.run([runner.PROJECT / "bin/testbed", "run", folder / "small.yaml", "--cca", "reno,cubic"],
                          env={**os.environ,
                               "TESTBED_RESULTS": str(folder / "results")}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "results"
