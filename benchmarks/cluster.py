# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m benchmarks.cluster [--runs 64] [--rounds 1] [--json FILE]`: what a Dask cluster costs on one machine.

The same sweep (two flows of rtt-fairness, eight seconds of virtual time, one seed for each run) by the local executor
and by `--cluster local:N`, N workers for as many CPUs, in turn. Printed is the wall time of the whole commands,
with starting and ending workers, and its ratio to the local executor's; the bytes of all runs have to be the same.
Wants a machine that does nothing else.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

_PROJECT = pathlib.Path(__file__).resolve().parents[1]
_SCENARIO = ("rtt-fairness", "--cca", "reno", "--no-report", "--set", "timing.warmup=2 s", "--set", "timing.test=6 s",
             "--set", "traffic.start_within=500 ms")


class _Took(NamedTuple):
    wall_s: float
    hashes: dict[int, str]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=64, help="seeds of the sweep (default 64)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured (default 1)")
    parser.add_argument("--json", type=pathlib.Path, help="also write all figures to this file")
    arguments = parser.parse_args()
    workers = len(os.sched_getaffinity(0))
    ways: dict[str, list[str]] = {"local": [], f"local:{workers}": ["--cluster", f"local:{workers}"]}
    took: dict[str, list[_Took]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(prefix="testbed-bench-") as folder:
        _sweep(pathlib.Path(folder) / "first", 1, [])           # kernel and code are in the cache
        for number in range(arguments.rounds):
            for name, words in ways.items():
                took[name].append(_sweep(pathlib.Path(folder) / f"{name}-{number}", arguments.runs, words))
    first = took["local"][0]
    print(f"{arguments.runs} runs, {workers} CPUs, medians of {arguments.rounds}\nexecutor    wall s   ratio")
    for name, mine in took.items():
        ratio = statistics.median(one.wall_s / other.wall_s for one, other in zip(mine, took["local"]))
        print(f"{name:10}{statistics.median(one.wall_s for one in mine):8.1f} {ratio:7.3f}")
        if any(one.hashes != first.hashes for one in mine):
            sys.exit(f"{name}: not the bytes of the local executor")
    print(f"the same {len(first.hashes)} hashes everywhere")
    if arguments.json:
        arguments.json.write_text(json.dumps({name: [one._asdict() for one in mine] for name, mine in took.items()},
                                             indent=1) + "\n")


def _sweep(results: pathlib.Path, runs: int, words: list[str]) -> _Took:
    began = time.monotonic()
    subprocess.run([_PROJECT / "bin/testbed", "run", *_SCENARIO, "--seeds", str(runs), *words], check=True,
                   env={**os.environ, "TESTBED_RESULTS": str(results)}, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    wall_s = time.monotonic() - began
    hashes: dict[int, str] = {}
    for path in results.glob("runs/[!.]*/run.json"):
        hashes[json.loads((path.parent / "plan.json").read_text())["seed"]] = json.loads(path.read_text())["raw_sha256"]
    if len(hashes) != runs:
        sys.exit(f"{len(hashes)} of {runs} runs")
    return _Took(wall_s, dict(sorted(hashes.items())))


if __name__ == "__main__":
    main()
