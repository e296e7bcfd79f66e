# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m benchmarks [--runs N] [--full] [--json FILE]`: measure and print.

    greedy      one CUBIC flow of iperf3, 100 Mbit/s, 20 s of virtual time
    sockets     the same by plain sockets
    tmix        the access link at 60 %, quick version (60 s), or with --full the whole 600 s
    parallel    two tmix runs at a time against one

Each run takes place in a process of its own, pinned to one CPU. Medians are printed: wall time
of the traffic phase, its ratio to real time, CPU time per packet that crossed the
bottleneck (whole run, all processes of the guest), and the largest resident process.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import resource
import shutil
import statistics
import sys
import tempfile
import time

from testbed import ccas, engines, run, scenario

_HERE = pathlib.Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs of each case (default 3)")
    parser.add_argument("--full", action="store_true", help="the whole access-link scenario instead of its quick version")
    parser.add_argument("--kernel", help="guest kernel, as for `testbed run`")
    parser.add_argument("--json", type=pathlib.Path, help="also write all figures to this file")
    arguments = parser.parse_args()
    engine = engines.load("uml")({"kernel": arguments.kernel})
    engine.prepare(lambda text: print(text, file=sys.stderr))
    greedy = str(_HERE / "greedy.yaml")
    cases = {"greedy": scenario.load(greedy), "sockets": scenario.load(greedy, settings=["traffic.tool=sockets"]),
             "tmix": scenario.load("access-link", quick=not arguments.full)}
    cpus = sorted(os.sched_getaffinity(0))
    results = {}
    print(f"{engine.environment()['kernel_release']}, {os.cpu_count()} CPUs, medians of {arguments.runs} runs")
    print(f"{'case':10}{'virtual s':>10}{'traffic s':>11}{'x real':>8}{'whole s':>9}{'us CPU/packet':>15}{'memory MB':>11}")
    for name, case in cases.items():
        figures = [_measure(case, engine, [cpus[0]])[0] for _ in range(arguments.runs)]
        results[name] = figures
        middle = {key: statistics.median(f[key] for f in figures) for key in figures[0]}
        print(f"{name:10}{middle['virtual_s']:10.0f}{middle['traffic_s']:11.2f}{middle['speed']:8.1f}{middle['whole_s']:9.2f}"
              f"{middle['cpu_us_per_packet']:15.1f}{middle['memory_mb']:11.0f}")
    if len(cpus) > 1:
        pairs = []
        for _ in range(arguments.runs):
            one = _measure(cases["tmix"], engine, cpus[:1])[0]["whole_s"]
            two = max(f["whole_s"] for f in _measure(cases["tmix"], engine, cpus[:2]))
            pairs.append(2 * one / two)
        results["parallel"] = pairs
        print(f"two runs at a time: {statistics.median(pairs):.2f} times the throughput of one")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def _measure(case, engine, cpus):
    """Figures of one run on each of `cpus`, at the same time."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="testbed-bench-"))
    try:
        run.prepare_workload(case, 1, engine.guest_dir(folder), folder / "workload")
        with multiprocessing.get_context("fork").Pool(len(cpus), maxtasksperchild=1) as pool:
            return pool.starmap(_one, [(case, engine, folder, cpu) for cpu in cpus], chunksize=1)
    finally:
        shutil.rmtree(folder)


def _one(case, engine, folder, cpu):
    run_dir = folder / f"cpu{cpu}" / "cubic-seed1"
    os.sched_setaffinity(0, {cpu})
    started = time.monotonic()
    run.carry_out(run.RunSpec(case, ccas.parse("cubic")[0], 1), engine, folder / "workload", run_dir, cpu, lambda *_: None)
    whole_s = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    traffic_s = json.loads((run_dir / "run.json").read_text())["phases_wall_s"]["traffic"]
    links = json.loads((run_dir / "raw/counters.json").read_text())["drained"]
    packets = links["left_to_right"]["sent_packets"] + links["right_to_left"]["sent_packets"]
    virtual_s = case.timing.duration_us / 1e6
    own_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"virtual_s": virtual_s, "traffic_s": traffic_s, "speed": virtual_s / traffic_s, "whole_s": whole_s,
            "cpu_us_per_packet": (used.ru_utime + used.ru_stime) * 1e6 / packets,
            "memory_mb": max(used.ru_maxrss / 1024, own_mb)}


if __name__ == "__main__":
    main()
