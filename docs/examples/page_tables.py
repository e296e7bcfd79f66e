#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tables of a results page, in Markdown, from what `testbed runs query --csv` wrote of runs.

  bin/testbed runs query "experiment=access-link-load110 verdict=valid" --csv \\
      --metric throughput_mean:right_to_left,queueing_delay_mean:right_to_left > runs.csv
  PYTHONPATH=. docs/examples/page_tables.py runs.csv --reference cubic

The first table has the mean over seeds of each congestion control with half the width of its 95 % interval; the
second compares each with the reference, seed by seed (paired t), and says in words what holds after Holm's
adjustment over all comparisons of that table (docs/explanation/statistics.md).
Congestion controls come in the file's order.
"""
import argparse
import csv
import sys

import numpy as np
import pandas as pd

from analysis import metrics as margins, stats


def main() -> int:
    asked = _arguments()
    if not 0 < asked.margin < 100:
        print(f"--margin {asked.margin:g}: a percentage above 0 and below 100 expected", file=sys.stderr)
        return 2
    try:
        runs, metrics = read_runs(asked.runs, asked.metric)
        if others := set(asked.ratio) - set(metrics):
            raise ValueError(f"--ratio {min(others)}: there are {', '.join(metrics)}")
        print(_tables(runs, metrics, asked.reference, set(asked.ratio), asked.margin / 100))
    except OSError as problem:
        print(f"{asked.runs}: {problem.strerror}", file=sys.stderr)
        return 2
    except ValueError as problem:
        print(f"{asked.runs}: {problem}", file=sys.stderr)
        return 2
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", help="CSV of `testbed runs query`: columns cca, seed and metrics")
    parser.add_argument("--reference", help="the congestion control that others are compared with (default: the first)")
    parser.add_argument("--metric", action="append", help="columns (default: all that have a scope beside them)")
    parser.add_argument("--ratio", action="append", default=[], help="a column whose values are ratios")
    parser.add_argument("--margin", type=float, default=100 * stats.MARGIN, help="%% for `equal` (%(default)g)")
    return parser.parse_args()


def read_runs(path: str, metrics: list[str] | None) -> tuple[pd.DataFrame, list[str]]:
    """The runs of a file, and the columns that are meant: `metrics`, or all that have a scope beside them.

    OSError or ValueError if each run is not of one seed and congestion control, with numbers that can be compared.
    """
    with open(path, newline="", encoding="utf-8") as file:        # a URL is no file of runs
        header = next(csv.reader(file), [])
    if doubled := sorted({name for name in header if header.count(name) > 1}):
        raise ValueError(f"two columns {doubled[0]!r}")
    runs = pd.read_csv(path, dtype={"cca": str}, keep_default_na=False, na_values=[""])
    metrics = metrics or [name for name in runs.columns if f"{name}_scope" in runs.columns]
    if not metrics:
        raise ValueError("no column has a scope beside it; name one")
    if keys := {"cca", "seed"} & set(metrics):
        raise ValueError(f"{min(keys)} is no metric; there are: "
                         + ", ".join(name for name in header if f"{name}_scope" in header))
    for name in ["cca", "seed", *metrics]:
        if name not in runs:
            raise ValueError(f"no column {name!r}")
        for line, value in runs[name].items():
            if pd.isna(value):
                wrong = name not in metrics
            else:
                wrong = (name != "cca" or name in metrics) and str(value).lower() != "nan" and \
                    pd.isna(pd.to_numeric(value, errors="coerce"))
            fraction = name == "seed" and not wrong and not float(value).is_integer()
            if wrong or fraction:
                what = "is empty" if pd.isna(value) else f"{value!r} is no {'whole ' * fraction}number"
                raise ValueError(f"row {line + 1}, {name}: {what}")
    if runs.empty:
        raise ValueError("no runs")
    if len(twice := runs[runs.duplicated(["cca", "seed"])]):
        first = twice.iloc[0]
        raise ValueError(f"two runs of {first['cca']} with seed {first['seed']}: choose by conditions of the query")
    for name in metrics:
        runs[name] = pd.to_numeric(runs[name], errors="coerce")
        scopes = sorted(set(runs[f"{name}_scope"].dropna())) if f"{name}_scope" in runs else []
        if len(scopes) > 1:
            raise ValueError(f"{name}: of several scopes ({', '.join(map(str, scopes))}); name one in the query")
    return runs, metrics


def _tables(runs: pd.DataFrame, names: list[str], reference: str | None, ratios: set[str], margin: float) -> str:
    """Both tables. ValueError if there is no run of the reference."""
    controls = list(dict.fromkeys(runs["cca"]))
    reference = controls[0] if reference is None else reference
    if reference not in controls:
        raise ValueError(f"no run of {reference!r}, but of {', '.join(controls)}")
    samples = {name: {cca: part.set_index("seed")[name].dropna() for cca, part in runs.groupby("cca", sort=False)}
               for name in names}
    head = [f"| | n | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    means = [f"| {_shown(cca)} | {min(len(samples[name][cca]) for name in names)} | "
             + " | ".join(_mean(samples[name][cca], name in ratios) for name in names) + " |" for cca in controls]
    cells = [(cca, name) for cca in controls if cca != reference for name in names]
    found = {}
    for cca, name in cells:
        pairs = pd.concat([samples[name][reference], samples[name][cca]], axis=1, join="inner").to_numpy()
        if len(pairs) and np.isfinite(pairs).all():     # a percentile that was not reached is compared with nothing
            least = margins.margin(name, margin)
            found[cca, name] = stats.compare_paired(pairs[:, 0], pairs[:, 1], name in ratios, *least)
    words = dict(zip(found, stats.decide(list(found.values()))))
    rows = [f"| {_shown(cca)} | {min((found[cca, name].n for name in names if (cca, name) in found), default=0)} | "
            + " | ".join(f"{_difference(found[cca, name])}, {words[cca, name].words}" if (cca, name) in found
                         else "not compared" for name in names) + " |" for cca in controls if cca != reference]
    return "\n".join([*head, *means, "", f"Against {reference}, a family of {len(found)}:", "", *head, *rows])


def _shown(name: str) -> str:
    return name.replace("|", "\\|")


def _mean(values: "pd.Series[float]", ratio: bool) -> str:
    if values.empty or not np.isfinite(values).all():
        return "not reached in every run" if len(values) else ""
    found = stats.summarise(list(values), ratio)
    if found.half_width is not None:
        return f"{found.mean:.4g} ± {found.half_width:.2g}"
    return f"{found.mean:.4g}" + ("" if found.low is None else f" ({found.low:.4g} to {found.high:.4g})")


def _difference(found: stats.Comparison) -> str:
    sign = "" if found.ratio else "+"
    text = f"{found.difference:{sign}.3g}"
    return text if found.low is None else f"{text} ({found.low:.3g} to {found.high:.3g})"


if __name__ == "__main__":
    sys.exit(main())
