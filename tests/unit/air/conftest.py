# SPDX-License-Identifier: GPL-2.0-only
"""The computed radio channel (kernel-modules/air) in a program of its own."""
import pathlib
import subprocess
from typing import NamedTuple

import pytest

from testbed import PROJECT_DIR

HERE, AIR = pathlib.Path(__file__).parent, PROJECT_DIR / "kernel-modules" / "air"
CELL = 100_000                  # mm: range of a cell in which all hear each other
NAMES = ("frames", "attempts", "acknowledged", "given_up", "no_access", "received", "garbled", "chance", "delivered",
         "duplicates", "lost")


class Signal(NamedTuple):
    """On the air from begin to end (ns); kind: data or ack."""
    kind: str
    station: int
    begin: int
    end: int


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    built = tmp_path_factory.mktemp("air") / "stations"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{AIR}", "-o", built, HERE / "stations.c",
                    *(AIR / name for name in ("air.c", "dcf.c", "csma.c"))], check=True)
    return built


@pytest.fixture(scope="session")
def course(program):
    """course(method, senders, ...) -> (a dict for each station, share of time on the air, all signals if asked for)"""
    def run(method, words, ms=60_000, seed=1, attempts=7, reach=CELL, sense=CELL, loss=0.0, trace=True):
        settings = (reach, sense, ms, seed, attempts, int(loss * 2**32), int(trace))
        lines = subprocess.run([program, method, *map(str, settings), *words], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        signals = [line.split() for line in lines if line[0] in "da"]
        rows = [dict(zip(NAMES, map(int, line.split()))) for line in lines[len(signals):-1]]
        return rows, int(lines[-1]) / 1e6, [Signal(kind, *map(int, rest)) for kind, *rest in signals]
    return run


@pytest.fixture(scope="session")
def stations(course):
    """The same without signals."""
    return lambda *words, **settings: course(*words, **settings, trace=False)[:2]
