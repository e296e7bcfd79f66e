# SPDX-License-Identifier: GPL-2.0-only
"""Engine `host` needs a kernel whose root one may be: a User-Mode-Linux guest, here on the wall clock.

What depends on time is not asserted: the machine that the tests share may be slow, and the guest with it.
"""
import json
import pathlib
import subprocess

import pytest

import kernel
from kernel import guest
from testbed.runs import code_bundle

PROJECT = pathlib.Path(__file__).parents[2]
_MEMORY_MB = 1024
#: nothing here takes a tenth of it on a machine that does nothing else
_LONGEST_S = 900


class Visit:
    """What a script left that ran in a guest: its findings, the results folder, and what was said."""

    def __init__(self, out, log):
        self.log, self.results = log, out / "results"
        path = out / "findings.json"
        assert path.exists(), log
        self.findings = json.loads(path.read_text())

    def run_json(self, name):
        """A JSON file of the only run."""
        (folder,) = [path.parent for path in self.results.glob("runs/*/run.json")]
        return json.loads((folder / name).read_text())


@pytest.fixture(scope="session")
def visit(tmp_path_factory):
    """visit(script) -> Visit: boot a guest that is a machine of its own, and let its root run tests/host/<script>.
    makes_code: the machine has to make the code that runs inside, too, which takes it ten seconds."""
    built = kernel.ensure(None, print)

    def boot(script, makes_code=False):
        out = tmp_path_factory.mktemp("machine")
        memory = guest.memory_dir(_MEMORY_MB)
        init = ["tests/host/guest_init.py", script, str(built.source_dir), str(built.build_dir),
                "-" if makes_code else str(code_bundle.ensure(print).parent)]
        command = guest.command(built.program, PROJECT, init, out, memory, memory_mb=_MEMORY_MB, confine=False,
                                virtual_time=False)
        with open(out / "log", "w+b") as log:
            process = subprocess.Popen(command, cwd=out, env=guest.environment(memory), stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                process.wait(timeout=_LONGEST_S)
            finally:
                guest.kill_session(process)
        return Visit(out, (out / "log").read_text(errors="replace"))
    return boot
