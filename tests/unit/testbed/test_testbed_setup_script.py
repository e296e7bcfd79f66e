# SPDX-License-Identifier: GPL-2.0-only
"""setup.sh with package tools that only note what they are asked."""
import os
import shutil
import subprocess

import pytest

from testbed import PROJECT_DIR

_NEEDED = ("sh", "sed", "grep", "dirname", "env", "cat")


class Machine:
    """A PATH with the few real programs that setup.sh needs, and fakes of the others."""

    def __init__(self, folder):
        self.bin, self.log = folder / "bin", folder / "log"
        self.bin.mkdir()
        for name in _NEEDED:
            (self.bin / name).symlink_to(shutil.which(name))
        self.installed = {
            line.split()[1]
            for line in (PROJECT_DIR / "packages.txt").read_text().splitlines()
            if line and not line.startswith("#")
        }
        self.user, self.candidate = 0, "6.12.9-1"
        self.absent: set[str] = set()           # what the distribution does not have
        self.locked = 0                         # how often apt finds its lock taken
        self.programs = {"dpkg-query", "apt-get", "apt-cache", "id", "sudo", "sleep"}

    def _fake(self, name, script):
        (self.bin / name).unlink(missing_ok=True)
        if name in self.programs:
            (self.bin / name).write_text(f"#!{self.bin}/sh\n{script}\n")
            (self.bin / name).chmod(0o755)

    def setup(self, *purposes):
        """CompletedProcess of setup.sh, with the noted commands as .commands."""
        states = "".join(f"{name}) printf installed ;;\n" for name in sorted(self.installed))
        self._fake(
            "dpkg-query",
            f'for package; do :; done\ncase "$package" in\n{states}*) echo "no package $package" >&2; exit 1 ;;\nesac',
        )
        lock = self.bin.parent / "locked"
        lock.write_text("x" * self.locked)
        self._fake("apt-get", f'''echo "apt-get $*" >> {self.log}
case "$(cat {lock})" in
x*) sed -i s/x// {lock}
    echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1" >&2
    exit 100 ;;
esac''')
        none = "".join(f"{name}) echo '  Candidate: (none)' ;;\n" for name in sorted(self.absent))
        self._fake("apt-cache", f'case "$2" in\n{none}*) echo "  Candidate: {self.candidate}" ;;\nesac')
        self._fake("sleep", f'echo "sleep $*" >> {self.log}')
        self._fake("id", f"echo {self.user}")
        self._fake("sudo", f'echo "sudo" >> {self.log}\nexec "$@"')
        self.log.write_text("")
        done = subprocess.run(
            [PROJECT_DIR / "setup.sh", *purposes],
            env={"PATH": str(self.bin)},
            cwd="/",
            capture_output=True,
            text=True,
        )
        done.commands = self.log.read_text().splitlines()
        return done


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_syntax():
    for script in ("setup.sh", "bin/testbed", ".ci/run"):
        assert subprocess.run(["sh", "-n", PROJECT_DIR / script]).returncode == 0
        assert os.access(PROJECT_DIR / script, os.X_OK)


def test_nothing_to_do(machine):
    done = machine.setup()
    assert (done.returncode, done.commands, done.stdout, done.stderr) == (0, [], "", "")


def test_only_what_is_missing_is_installed(machine):
    machine.installed -= {"mininet", "bison"}
    done = machine.setup()
    assert done.returncode == 0 and done.stderr == "setup: installing mininet bison\n"
    assert done.commands == ["apt-get -q update", "apt-get -q install -y --no-install-recommends mininet bison"]


@pytest.mark.parametrize(
    "purposes, wanted",
    [
        (["run"], "mininet"),
        (["kernel"], "bison"),
        (["unit"], "python3-pytest"),
        (["run", "kernel"], "mininet bison"),
        (["kernel", "unit"], "bison python3-pytest"),
    ],
)
def test_purposes(machine, purposes, wanted):
    machine.installed -= {"mininet", "bison", "python3-pytest"}
    assert machine.setup(*purposes).commands[-1] == f"apt-get -q install -y --no-install-recommends {wanted}"


def test_sudo_unless_root(machine):
    machine.user = 1000
    machine.installed.remove("mininet")
    assert machine.setup().commands == [
        "sudo",
        "apt-get -q update",
        "sudo",
        "apt-get -q install -y --no-install-recommends mininet",
    ]


def test_without_root_and_sudo(machine):
    machine.user = 1000
    machine.programs.remove("sudo")
    assert machine.setup().returncode == 0
    machine.installed -= {"mininet", "bison"}
    done = machine.setup()
    assert (done.returncode, done.commands) == (
        3,
        [],
    ) and done.stderr == "setup: run as root, or install sudo: apt-get install mininet bison\n"


def test_package_lists_without_the_kernel_source_are_updated(machine):
    machine.candidate = "(none)"
    assert machine.setup().commands == ["apt-get -q update"]
    assert machine.setup("kernel").commands == ["apt-get -q update"]
    assert machine.setup("run", "test").commands == [], "the kernel's source is not needed for that"


@pytest.mark.parametrize("program", ["dpkg-query", "apt-get"])
def test_other_systems(machine, program):
    machine.programs.remove(program)
    done = machine.setup()
    assert done.returncode == 3 and "not a Debian or Ubuntu system" in done.stderr and done.commands == []


def test_a_failed_installation_is_a_failure(machine):
    machine.installed.remove("mininet")
    machine.setup()
    machine.programs.discard("apt-get")
    (machine.bin / "apt-get").write_text(f"#!{machine.bin}/sh\nexit 100\n")
    (machine.bin / "apt-get").chmod(0o755)
    machine._fake = lambda name, script: None
    assert machine.setup().returncode == 100


def test_every_package_has_a_known_purpose():
    lines = [line.split("#")[0].split() for line in (PROJECT_DIR / "packages.txt").read_text().splitlines()]
    assert {words[0] for words in lines if words} == {
        "run", "kernel", "quic", "unit", "test", "vm", "vagrant", "programs", "cluster", "completion", "container",
        "debian", "docs", "notebook"}
    assert all(len(words) in (0, 2) or words[2:] == ["optional"] for words in lines)


@pytest.mark.parametrize("purpose", ["nosuch", "RUN", "--help", "optional"])
def test_a_purpose_that_there_is_not(machine, purpose):
    done = machine.setup("run", purpose)
    assert done.returncode == 2 and done.stderr.startswith(f"setup: no purpose {purpose}; there are: run kernel ")
    assert done.commands == []


def test_a_taken_lock_is_waited_for(machine):
    machine.installed.remove("mininet")
    machine.locked = 3
    done = machine.setup()
    assert done.returncode == 0 and done.commands.count("sleep 5") == 3
    assert done.commands[-1] == "apt-get -q install -y --no-install-recommends mininet"
    assert done.stderr.count("waiting until it is done") == 1


def test_nobody_waits_for_ever(machine):
    machine.installed.remove("mininet")
    machine.locked = 1000
    done = machine.setup()
    assert done.returncode == 100 and done.commands.count("sleep 5") == 360
    assert done.stderr.endswith("still holds the package manager's lock after 1800 s\n")


def test_what_a_distribution_lacks_is_named_if_it_is_optional(machine):
    machine.installed -= {"mininet", "tcptrace", "ns2"}
    machine.absent = {"tcptrace"}
    done = machine.setup()
    assert done.returncode == 0 and "no tcptrace;" in done.stderr
    assert done.commands[-1] == "apt-get -q install -y --no-install-recommends mininet ns2"
    machine.absent = {"mininet"}
    assert machine.setup().commands[-1].endswith(" mininet tcptrace ns2"), "apt is to say that it has none"
