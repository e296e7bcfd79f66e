# SPDX-License-Identifier: GPL-2.0-only
"""The library that is preloaded into the guest's Python, with a file for a clock that stands still."""
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

import testbed

SOURCE = pathlib.Path(testbed.__file__).parent / "guest" / "preload.c"
#: far in the future of any machine's CLOCK_MONOTONIC
CLOCK_NS = 10**18


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    """preloaded(code) -> what Python says with the library; the clock's file says how late it is."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    folder = tmp_path_factory.mktemp("preload")
    clock, library = folder / "clock", folder / "preload.so"
    clock.write_bytes(CLOCK_NS.to_bytes(8, "little") + bytes(4088))
    subprocess.run(["gcc", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", f'-DVIRTUAL_CLOCK="{clock}"', "-o", library,
                    SOURCE], check=True)

    def run(code):
        return subprocess.run([sys.executable, "-c", f"import time\nclock = {str(clock)!r}\n{code}"], check=True,
                              env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, text=True,
                              timeout=60).stdout.split()
    return run


def test_the_clock_is_read_from_memory(preloaded):
    """It begins with what the system says, and moves as the device does."""
    began = time.monotonic_ns()
    first, second, third = map(int, preloaded(f"""
first, second = time.monotonic_ns(), time.monotonic_ns()
with open(clock, "r+b") as file:
    file.write(({CLOCK_NS} + 256_000_001).to_bytes(8, "little"))
print(first, second, time.monotonic_ns())"""))
    assert began <= first <= time.monotonic_ns()
    assert first == second and third == first + 256_000_001


def test_who_waits_by_asking_again_and_again_gets_on(preloaded):
    """As Python's subprocess does, which goes on until the time is past its limit."""
    asked, = map(int, preloaded("""
asked, limit = 0, time.monotonic_ns()
while time.monotonic_ns() <= limit:
    asked += 1
print(asked)"""))
    assert 500 < asked < 5000


def test_other_clocks_are_the_systems(preloaded):
    before = time.time()
    there, boot = map(float, preloaded("print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))"))
    assert before <= there <= time.time() and 0 < boot < 10**8


def test_what_it_starts_does_without(preloaded):
    assert preloaded("import os; print(os.environ.get('LD_PRELOAD', 'none'))") == ["none"]
