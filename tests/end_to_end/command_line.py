# SPDX-License-Identifier: GPL-2.0-only
"""The command line as a user runs it: in a process of its own, results in a temporary folder."""
import os
import pathlib
import subprocess
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]

SMALL = """\
name: small
topology:
  kind: dumbbell
  central: {rate: 20 Mbit/s, delay: 2 ms, queue: {kind: pfifo, limit: 50}}
  edge: {rate: 100 Mbit/s}
  left_delays: [0 ms, 5 ms]
  right_delays: [2 ms]
traffic: {kind: greedy, tool: sockets}
timing: {prefill: 0 s, warmup: 1 s, test: TEST}
probes: {queue: {interval: 10 ms}, tcp_info: {interval: 100 ms}}
"""


class CommandLine:
    """Runs bin/testbed with results in `folder`."""

    def __init__(self, folder, timeout_s=900):
        self.folder, self._timeout_s = folder, timeout_s
        self.environment = {**os.environ, "TESTBED_RESULTS": str(folder / "results")}

    def scenario(self, test="2 s", change=lambda text: text):
        """Write the small scenario and return its path."""
        path = self.folder / "small.yaml"
        path.write_text(change(SMALL.replace("TEST", test)))
        return str(path)

    def __call__(self, *arguments, **environment):
        """CompletedProcess of a command."""
        return subprocess.run([PROJECT / "bin/testbed", *arguments], capture_output=True, text=True,
                              env={**self.environment, **environment}, timeout=self._timeout_s)

    def with_limit(self, module, name, value, *arguments):
        """CompletedProcess of a command in which a limit, that a test would wait for, is another."""
        program = ("import sys; sys.path.insert(0, sys.argv.pop(1)); from testbed.cli import main; "
                   f"from {module} import {name}; sys.modules['{module}'].{name} = {value!r}; sys.exit(main())")
        return subprocess.run(["/usr/bin/python3", "-P", "-s", "-c", program, PROJECT, *arguments],
                              capture_output=True, text=True, env=self.environment, timeout=self._timeout_s)

    def start(self, *arguments):
        """Popen of a command; its standard error goes to a file."""
        with open(self.folder / "stderr", "w") as log:
            return subprocess.Popen([PROJECT / "bin/testbed", *arguments], env=self.environment,
                                    stdout=subprocess.DEVNULL,
                                    stderr=log, start_new_session=True)

    def stderr(self):
        return (self.folder / "stderr").read_text()

    def wait_for(self, words, process, timeout_s=120):
        """Until `words` appear on standard error of a started command."""
        end = time.monotonic() + timeout_s
        while words not in self.stderr():
            assert process.poll() is None, self.stderr()
            assert time.monotonic() < end, self.stderr()
            time.sleep(0.05)

    def processes(self):
        """[(pid, executable)] of the processes that work in the results folder."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "cwd").startswith(str(self.folder)):
                    found.append((int(entry.name), os.readlink(entry / "exe")))
            except OSError:
                continue
        return found

    def assert_nothing_left(self):
        """No process, no partial run, no scratch folder."""
        end = time.monotonic() + 10
        while self.processes() and time.monotonic() < end:
            time.sleep(0.1)
        assert self.processes() == []
        left = [p.name for p in (self.folder / "results").glob("*/.*")]
        assert left == []
