#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs as a pandas table, cell by cell: open it in an editor that knows `# %%`, or run it as it is.

  TESTBED_RESULTS=results PYTHONPATH=. /usr/bin/python3 docs/examples/query_runs.py "scenario=access-link"
"""
# %% every run that meets the conditions, with two metrics
import sys

import testbed

CONDITIONS = sys.argv[1] if len(sys.argv) > 1 else ""
runs = testbed.query(CONDITIONS, "throughput", "p95_delay")
print(runs[["cca", "seed", "engine", "kernel", "verdict", "throughput_mean", "queueing_delay_p95"]].to_string())

# %% only what can be trusted; simulators have no kernel
trusted = runs[runs["verdict"] == "valid"].fillna({"kernel": ""})

# %% what belongs together: of one scenario, engine and kernel, with the same settings
setup = [name for name in runs.attrs["setup"]
         if trusted[name].nunique() > 1 or name in ("scenario", "engine", "kernel")]
trusted = trusted.astype({name: "string" for name in setup}).fillna({name: "" for name in setup})
twice = trusted.duplicated([*setup, "cca", "seed"], keep="last")
if twice.any():
    print(f"{twice.sum()} runs are like others but for their code or inputs, and left out; experiment=NAME chooses")
trusted = trusted[~twice]

# %% means over seeds, never over scenarios, engines and kernels: those are other experiments
means = trusted.groupby([*setup, "cca"])["throughput_mean"].agg(["mean", "std", "count"])
print(means.round(3).to_string())

# %% seeds are paired: each run minus the one of the first congestion control with the same seed
wide = trusted.pivot(index=[*setup, "seed"], columns="cca", values="throughput_mean")
print(wide.sub(wide[wide.columns[0]], axis=0).round(3).to_string())

# %% the same of kernels: each run minus the one of the first kernel
if trusted["kernel"].nunique() > 1:
    others = [name for name in setup if name != "kernel"]
    wide = trusted.pivot(index=[*others, "cca", "seed"], columns="kernel", values="throughput_mean")
    print(wide.sub(wide[wide.columns[0]], axis=0).round(3).to_string())
