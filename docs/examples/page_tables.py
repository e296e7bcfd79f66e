#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tables of a results page, in Markdown, from what `testbed query --csv` wrote of runs.

  bin/testbed query "experiment=access-link-load110 verdict=valid" --csv \\
      --metric throughput_mean:right_to_left,queueing_delay_mean:right_to_left > runs.csv
  PYTHONPATH=. docs/examples/page_tables.py runs.csv --reference cubic

The first table has the mean over seeds of each congestion control with half the width of its 95 % interval; the
second compares each with the reference, seed by seed (paired t), and says in words what holds after Holm's
adjustment over all comparisons of that table (docs/statistics.md). Congestion controls come in the file's order.
"""
import argparse
import sys

import numpy as np
import pandas as pd

from analysis import stats


def main() -> int:
    asked = _arguments()
    try:
        runs = pd.read_csv(asked.runs)
        print(_tables(runs, asked.metric or _metrics(runs), asked.reference, set(asked.ratio), asked.margin / 100))
    except OSError as problem:
        print(f"{asked.runs}: {problem.strerror}", file=sys.stderr)
        return 2
    except KeyError as problem:
        print(f"{asked.runs}: no column {problem}", file=sys.stderr)
        return 2
    except ValueError as problem:
        print(f"{asked.runs}: {problem}", file=sys.stderr)
        return 2
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", help="CSV of `testbed query`: columns cca, seed and metrics")
    parser.add_argument("--reference", help="the congestion control that others are compared with (default: the first)")
    parser.add_argument("--metric", action="append", help="columns (default: all that have a scope beside them)")
    parser.add_argument("--ratio", action="append", default=[], help="a column whose values are ratios")
    parser.add_argument("--margin", type=float, default=100 * stats.MARGIN, help="%% for `equal` (%(default)g)")
    return parser.parse_args()


def _metrics(runs: pd.DataFrame) -> list[str]:
    return [name for name in runs.columns if f"{name}_scope" in runs.columns]


def _tables(runs: pd.DataFrame, names: list[str], reference: str | None, ratios: set[str], margin: float) -> str:
    """Both tables. KeyError or ValueError if a column or the reference is not there, or a seed is there twice."""
    controls = list(dict.fromkeys(runs["cca"]))
    if not controls:
        raise ValueError("no runs")
    reference = reference or controls[0]
    if reference not in controls:
        raise ValueError(f"no run of {reference}, but of {', '.join(controls)}")
    if len(twice := runs[runs.duplicated(["cca", "seed"])]):
        first = twice.iloc[0]
        raise ValueError(f"two runs of {first['cca']} with seed {first['seed']}: choose by conditions of the query")
    samples = {name: {cca: part.set_index("seed")[name].dropna() for cca, part in runs.groupby("cca", sort=False)}
               for name in names}
    head = [f"| | n | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    means = [f"| {cca} | {min(len(samples[name][cca]) for name in names)} | "
             + " | ".join(_mean(samples[name][cca], name in ratios) for name in names) + " |" for cca in controls]
    cells = [(cca, name) for cca in controls if cca != reference for name in names]
    found = {}
    for cca, name in cells:
        pairs = pd.concat([samples[name][reference], samples[name][cca]], axis=1, join="inner").to_numpy()
        if len(pairs) and np.isfinite(pairs).all():     # a percentile that was not reached is compared with nothing
            found[cca, name] = stats.compare_paired(pairs[:, 0], pairs[:, 1], name in ratios, margin)
    words = dict(zip(found, stats.decide(list(found.values()))))
    rows = [f"| {cca} | {min((found[cca, name].n for name in names if (cca, name) in found), default=0)} | "
            + " | ".join(f"{_difference(found[cca, name])}, {words[cca, name].words}" if (cca, name) in found
                         else "not compared" for name in names) + " |" for cca in controls if cca != reference]
    return "\n".join([*head, *means, "", f"Against {reference}, a family of {len(found)}:", "", *head, *rows])


def _mean(values: "pd.Series[float]", ratio: bool) -> str:
    if values.empty or not np.isfinite(values).all():
        return "not reached in every run" if len(values) else ""
    found = stats.summarise(list(values), ratio)
    if ratio and found.low is not None and found.high is not None:
        return f"{found.mean:.4g} ({found.low:.4g} to {found.high:.4g})"
    return f"{found.mean:.4g}" + ("" if found.half_width is None else f" ± {found.half_width:.2g}")


def _difference(found: stats.Comparison) -> str:
    sign = "" if found.ratio else "+"
    text = f"{found.difference:{sign}.3g}"
    return text if found.low is None else f"{text} ({found.low:.3g} to {found.high:.3g})"


if __name__ == "__main__":
    sys.exit(main())
