# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of the virtual machine have in common: the machine, and how long each phase took."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
_BOX = "tcp-testbed/bookworm64"
_PHASES: list[tuple[str, float]] = []


@contextlib.contextmanager
def phase(name):
    """Notes how long something took."""
    since = time.monotonic()
    try:
        yield
    finally:
        _PHASES.append((name, time.monotonic() - since))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.section("wall time of each phase")
    for name, seconds in _PHASES:
        terminalreporter.write_line(f"{seconds:7.0f} s  {name}")


class VirtualMachine:
    """`vagrant`, and commands inside."""

    def __init__(self, environment):
        self.environment = environment

    def vagrant(self, *words):
        return subprocess.run(["vagrant", *words], cwd=PROJECT, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace")

    def inside(self, command):
        """What a command in the machine's shell prints."""
        done = self.vagrant("ssh", "--command", command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def testbed(self, *words):
        return subprocess.run(words, cwd=PROJECT, env=self.environment, capture_output=True, text=True)


@pytest.fixture(scope="session")
def virtual_machine(tmp_path_factory):
    """A machine of our own, created and provisioned; gone afterwards, with its box. The checkout's own stays."""
    # not below /tmp, which may be a tmpfs: disks of machines are large
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tcp-testbed-vagrant-",
                                           dir=os.environ.get("TESTBED_VM_FOLDER") or "/var/tmp"))
    folder.chmod(0o755)
    environment = {**os.environ, "VAGRANT_DOTFILE_PATH": str(folder / "dot"), "VAGRANT_CHECKPOINT_DISABLE": "1",
                   "VAGRANT_NO_COLOR": "1", "TESTBED_RESULTS": str(tmp_path_factory.mktemp("vagrant") / "results")}
    machine = VirtualMachine(environment)
    try:
        if "TESTBED_VM_BOX" not in environment and not _public_box_can_be_had():
            environment.update(VAGRANT_HOME=str(folder / "home"), TESTBED_VM_BOX=_BOX)
            box = folder / "own.box"
            with phase("a box of Debian packages (provision/box.sh)"):
                subprocess.run([PROJECT / "provision/box.sh", box], check=True)
            with phase("vagrant box add"):
                added = machine.vagrant("box", "add", "--name", _BOX, "--provider", "libvirt", str(box))
            assert added.returncode == 0, added.stdout + added.stderr
            box.unlink()
        with phase("vagrant up, without provisioning"):
            up = machine.vagrant("up", "--no-provision")
        assert up.returncode == 0, up.stdout + up.stderr
        with phase("vagrant provision"):
            provisioned = machine.vagrant("provision")
        assert provisioned.returncode == 0, provisioned.stdout + provisioned.stderr
        yield machine
    finally:
        with phase("vagrant destroy"):
            machine.vagrant("destroy", "--force")
        # in a libvirt that is not ours alone, the image of the box stays otherwise
        for line in _virsh("vol-list", "default").splitlines():
            if line.split()[:1] and line.split()[0].startswith("tcp-testbed-VAGRANTSLASH-"):
                _virsh("vol-delete", "--pool", "default", line.split()[0])
        shutil.rmtree(folder, ignore_errors=True)


def _virsh(*words):
    return subprocess.run(["virsh", "-c", "qemu:///system", *words], capture_output=True, text=True).stdout


def _public_box_can_be_had():
    """Whether Vagrant's catalogue answers."""
    done = subprocess.run(["curl", "--silent", "--fail", "--max-time", "20", "--location", "--output", "/dev/null",
                           "https://vagrantcloud.com/debian/bookworm64"])
    return done.returncode == 0
