# SPDX-License-Identifier: GPL-2.0-only
"""What tests/in_debian.sh asks of the machine, and of mmdebstrap, which only notes what it is asked."""
import shutil
import subprocess

import pytest

from testbed import PROJECT_DIR

_NEEDED = ("sh", "dirname", "env")


@pytest.fixture
def call(tmp_path):
    """call(*arguments, user=0, mirror="", mmdebstrap=True) -> CompletedProcess"""
    def called(*arguments, user=0, mirror="", mmdebstrap=True):
        shutil.rmtree(tmp_path / "bin", ignore_errors=True)
        (tmp_path / "bin").mkdir()
        for name in _NEEDED:
            (tmp_path / "bin" / name).symlink_to(shutil.which(name))
        fakes = {"id": f"echo {user}", "unshare": 'while [ "$1" != mmdebstrap ]; do shift; done; exec "$@"',
                 "mmdebstrap": 'printf "%s\\n" "$TESTBED_CHECKOUT|$TESTBED_TARGETS|$TMPDIR" "$@"'}
        for name, script in fakes.items():
            if name != "mmdebstrap" or mmdebstrap:
                (tmp_path / "bin" / name).write_text(f"#!{tmp_path}/bin/sh\n{script}\n")
                (tmp_path / "bin" / name).chmod(0o755)
        return subprocess.run([PROJECT_DIR / "tests/in_debian.sh", *arguments], cwd="/", capture_output=True, text=True,
                              env={"PATH": str(tmp_path / "bin"), "TESTBED_MIRROR": mirror})
    return called


def test_a_clone_is_tested_in_another_release(call):
    first, *words = call("bookworm").stdout.splitlines()
    assert first == f"{PROJECT_DIR}|test|/var/tmp" and words[-2:] == ["bookworm", "/dev/null"]
    first, *words = call("trixie", "unit", "fuzz", mirror="http://mirror.example/debian").stdout.splitlines()
    assert first == f"{PROJECT_DIR}|unit fuzz|/var/tmp"
    assert words[-3:] == ["trixie", "/dev/null", "http://mirror.example/debian"]


@pytest.mark.parametrize("changes", [{"user": 1000}, {"mmdebstrap": False}])
def test_what_is_missing_is_said_in_a_line(call, changes):
    done = call("trixie", **changes)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "in_debian: run as root, with mmdebstrap installed (./setup.sh debian)\n"


def test_a_release_is_needed(call):
    assert call().returncode == 2
