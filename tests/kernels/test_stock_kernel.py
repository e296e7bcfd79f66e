# SPDX-License-Identifier: GPL-2.0-only
"""The default kernel with and without kernel/patches/speed: the patches change no result by more than seeds do.

Virtual time makes each run the same whenever it is repeated, so that this does not rest on chance.
"""
import csv
import json
import os
import pathlib
import statistics
import subprocess
from typing import NamedTuple

import pytest

PROJECT = pathlib.Path(__file__).parents[2]
#: where seeds hardly differ, this share of their mean is no difference
CLOSE = 0.002


class Case(NamedTuple):
    """Short runs of a scenario, and where its bottleneck is. BBR draws random numbers, so it has more seeds."""

    scenario: str
    cca: str
    words: str = ""
    seeds: int = 5
    link: str = "right_to_left"


CASES = [
    Case("access-link", "cubic", "--smoke"),
    Case("long-flows", "bbr", "--quick", seeds=10),
    Case("h-shape-1", "newreno", "--quick --sweep traffic.cross.rate=8Mbit/s", link="left_to_right"),
    Case("tcp-on-off", "cubic", "--quick"),
    Case("quic-meets-tcp", "cubic", "--set timing.warmup=2s --set timing.test=5s"),
    Case("parking-lot", "reno", "--set timing.warmup=2s --set timing.test=5s", link="r1_to_r2"),
]
METRICS = ("throughput_mean", "queueing_delay_mean", "drop_rate")


def command(results, *words):
    done = subprocess.run([PROJECT / "bin/testbed", *words], capture_output=True, text=True, timeout=3600, check=False,
                          env={**os.environ, "TESTBED_RESULTS": str(results)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def carried_out(results, case, cca, *words):
    """The experiment's folder."""
    before = set(results.glob("*/experiment.json"))
    command(results, "run", case.scenario, "--cca", cca, "--seeds", str(case.seeds), *case.words.split(), "--jobs", "2",
            *words)
    new, = set(results.glob("*/experiment.json")) - before
    return new.parent


def runs(folder):
    return [folder / "runs" / listed["name"] for listed in json.loads((folder / "experiment.json").read_text())["runs"]]


def values(folder, link):
    """{metric: a value for each seed}"""
    found = {name: [] for name in METRICS}
    for run in runs(folder):
        with (run / "metrics.csv").open() as file:
            for row in csv.DictReader(file):
                if row["scope"] == link and row["metric"] in found:
                    found[row["metric"]].append(float(row["value"]))
    return found


def apart(reference, others):
    """Metrics whose mean of the others is outside what seeds of the reference have: {metric: (mean, least, most)}"""
    found = {}
    for name, seen in reference.items():
        mean, close = statistics.fmean(others[name]), CLOSE * statistics.fmean(seen)
        if not min(seen) - close <= mean <= max(seen) + close:
            found[name] = mean, min(seen), max(seen)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.scenario}-{case.cca}")
def test_results_are_within_the_spread_of_seeds(case, tmp_path):
    fast, stock = (carried_out(tmp_path, case, case.cca, *words) for words in ((), ("--kernel-option", "stock")))
    assert [json.loads((run / "environment.json").read_text())["kernel_options"] for run in runs(fast) + runs(stock)] \
        == [[]] * case.seeds + [["stock"]] * case.seeds
    reference, others = values(fast, case.link), values(stock, case.link)
    assert all(len(seen) == case.seeds for found in (reference, others) for seen in found.values())
    print("\n", case.scenario, case.cca, json.dumps({"fast": reference, "stock": others}))
    assert not apart(reference, others)
    assert "kernel, options: – -> stock" in command(tmp_path, "compare", fast.name, stock.name)


def test_another_congestion_control_is_outside_of_it(tmp_path):
    """So the comparison above can fail."""
    case = Case("long-flows", "reno", "--quick")
    assert apart(*(values(carried_out(tmp_path / cca, case, cca), case.link) for cca in ("reno", "vegas")))
