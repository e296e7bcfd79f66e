# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m benchmarks [--runs N] [--full] [--json FILE]`: measure and print.

    greedy      one CUBIC flow of iperf3, 100 Mbit/s, 20 s of virtual time
    sockets     the same by plain sockets
    10 flows    the same by so many flows that share the bottleneck; 100, 500 and 1000 flows, too
    tmix        the access link at 60 %, quick version (60 s), or with --full the whole 600 s
    parallel    two tmix runs at a time against one

With `--engines A,B`, runs of the engines take turns, and ratios of the whole run to the first engine's are printed;
`--cca` says which congestion control (with ns-2 and tmix: reno).

Each run takes place in a process of its own, pinned to one CPU. Medians are printed: wall time
of the traffic phase, its ratio to real time, that of the whole run, wall time of the traffic phase per packet that
crossed the bottleneck and per packet that came to it (those that it dropped, too), CPU time of the whole run (all
processes of the guest) per packet that crossed it, and the largest resident process.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics

from benchmarks.measuring import Figures, measure
from testbed import engines
from testbed.cli._shared import reporter
from testbed.runs import run
from testbed.scenario import scenario

#: greedy flows at a time: what a packet costs must not depend on it much
_FLOWS = (10, 100, 500, 1000)
_HERE = pathlib.Path(__file__).parent
_COLUMNS = (("virtual s", "virtual_s", ".0f"), ("traffic s", "traffic_s", ".2f"), ("x real", "speed", ".1f"),
            ("whole s", "whole_s", ".2f"),
            ("us/packet", "traffic_us_per_packet", ".1f"), ("us/arrival", "traffic_us_per_arrival", ".1f"),
            ("us CPU/packet", "cpu_us_per_packet", ".1f"),
            ("memory MB", "memory_mb", ".0f"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs of each case (default 3)")
    parser.add_argument("--full", action="store_true", help="the whole access-link scenario, not its quick version")
    parser.add_argument("--engines", default=engines.DEFAULT, metavar="A,B", help="which to measure in turn")
    parser.add_argument("--cca", default="cubic", help="congestion control (default: cubic)")
    parser.add_argument("--kernel", help="guest kernel, as for `testbed run`")
    parser.add_argument("--json", type=pathlib.Path, help="also write all figures to this file")
    arguments = parser.parse_args()
    several = {name: engines.load(name, {"kernel": arguments.kernel} if arguments.kernel and name == engines.DEFAULT
                                  else {}) for name in arguments.engines.split(",")}
    for engine in several.values():
        engine.prepare(reporter())
    greedy = str(_HERE / "greedy.yaml")
    cases = {"greedy": scenario.load(greedy),
             "sockets": scenario.load(greedy, settings=["traffic.tool=sockets"]),
             **{f"{flows} flows": scenario.load(greedy, settings=["traffic.tool=sockets", f"traffic.flows={flows}"])
                for flows in _FLOWS},
             "tmix": scenario.load("access-link", quick=not arguments.full)}
    run.warm_up()           # as every command does before it forks those that carry runs out
    cpus = sorted(os.sched_getaffinity(0))
    results: dict[str, object] = {}
    print(f"{', '.join(engine.kernel_release() or engine.state() for engine in several.values())}, {os.cpu_count()} "
          f"CPUs, medians of {arguments.runs} runs")
    print("case        engine  " + "".join(f"{head:>{len(head) + 3}}" for head, _, _ in _COLUMNS) + "   ratio")
    for name, case in cases.items():
        figures: dict[str, list[Figures]] = {engine_name: [] for engine_name in several}
        for _ in range(arguments.runs):         # in turn, so that what else the machine does meets all of them
            for engine_name, engine in several.items():
                figures[engine_name].append(measure(case, engine, [cpus[0]], arguments.cca)[0])
        results[name] = figures
        first = next(iter(figures.values()))
        for engine_name, mine in figures.items():
            middle = {key: statistics.median(one[key] for one in mine) for key in mine[0]}
            ratio = statistics.median(one["whole_s"] / other["whole_s"] for one, other in zip(mine, first))
            print(f"{name:12}{engine_name:8}" + "".join(f"{middle[key]:{len(head) + 3}{form}}"
                                                        for head, key, form in _COLUMNS) + f"{ratio:8.2f}")
    if len(cpus) > 1 and len(several) == 1:
        pairs = []
        for _ in range(arguments.runs):
            one_s = measure(cases["tmix"], engine, cpus[:1], arguments.cca)[0]["whole_s"]
            two_s = max(one["whole_s"] for one in measure(cases["tmix"], engine, cpus[:2], arguments.cca))
            pairs.append(2 * one_s / two_s)
        results["parallel"] = pairs
        print(f"two runs at a time: {statistics.median(pairs):.2f} times the throughput of one")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
