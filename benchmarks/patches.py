# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m benchmarks.patches [--pairs N] [--only 0004,0011+0013]`: what each speed patch is worth alone.

Each patch of kernel/patches/speed that the default kernel gets is left out of a kernel of its own, which is built from
the default one. Runs with all patches and without this one take turns on one CPU. The ratio of their CPU time per
packet is printed: 1.03 means that runs take 3 % more without the patch. Patches that do not fit without it are left
out, too, and the build names them.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shutil
import statistics
import tempfile
from collections.abc import Iterator

from benchmarks.measuring import measure
from kernel import patching, source
from testbed import engines
from testbed.cli._shared import reporter
from testbed.runs import run
from testbed.runs.engine import EngineBase
from testbed.scenario import scenario

_GREEDY = str(pathlib.Path(__file__).parent / "greedy.yaml")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.patches", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs of each case (default 5)")
    parser.add_argument("--only", metavar="A,B+C", help="patches by their numbers, B and C together (default: each)")
    arguments = parser.parse_args()
    cases = {"tmix": scenario.load("access-link", quick=True),
             "1 flow": scenario.load(_GREEDY, settings=["traffic.tool=sockets"]),
             "100 flows": scenario.load(_GREEDY, settings=["traffic.tool=sockets", "traffic.flows=100"])}
    version = source.version_of(None)
    patches = {patch.path.name[:4]: patch for patch in patching.series()
               if patch.for_speed and patch.concerns(version)}
    try:
        groups = [[patches[number] for number in group.split("+")]
                  for group in (arguments.only.split(",") if arguments.only else patches)]
    except KeyError as error:
        parser.error(f"--only: no patch {error} for {version}, which has {', '.join(patches)}")
    whole = _engine(None)
    run.warm_up()
    cpu = sorted(os.sched_getaffinity(0))[0]
    with _pristine() as tree:
        print("CPU time per packet without a patch, as a ratio to that with all: median (least to most)", flush=True)
        for group in groups:
            with _without(group):
                engine = _engine(str(tree))
            said = []
            for name, case in cases.items():
                ratios = []
                for _ in range(arguments.pairs):
                    with_it, without = (measure(case, one, [cpu], "cubic")[0]["cpu_us_per_packet"]
                                        for one in (whole, engine))
                    ratios.append(without / with_it)
                said.append(f"{name} {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
            print(f"{' and '.join(patch.path.stem for patch in group)}: {', '.join(said)}", flush=True)


def _engine(spec: str | None) -> EngineBase:
    engine = engines.load(engines.DEFAULT, {"kernel": spec} if spec else {})
    engine.prepare(reporter())
    return engine


@contextlib.contextmanager
def _pristine() -> Iterator[pathlib.Path]:
    """The default kernel's source, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="testbed-patches-") as name:
        source.fetch(None, pathlib.Path(name) / "linux", print)
        yield pathlib.Path(name) / "linux"


@contextlib.contextmanager
def _without(group: list[patching.Patch]) -> Iterator[None]:
    """Kernels that are built meanwhile lack these patches."""
    before = patching.FOLDER
    names = {patch.path.name for patch in group}
    with tempfile.TemporaryDirectory(prefix="testbed-patches-") as name:
        patching.FOLDER = pathlib.Path(name) / "patches"
        shutil.copytree(before, patching.FOLDER)
        lines = (before / "series").read_text(encoding="utf-8").splitlines()
        (patching.FOLDER / "series").write_text("".join(
            f"{line}\n" for line in lines if line.split("#")[0].rstrip().rpartition("/")[2] not in names),
            encoding="utf-8")
        try:
            yield
        finally:
            patching.FOLDER = before


if __name__ == "__main__":
    main()
