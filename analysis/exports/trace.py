# SPDX-License-Identifier: GPL-2.0-only
"""The events of the kernel that a run recorded (probe trace), a CSV file for each of them with a column for each value.

The kernel's text of an event is words such as `snd_cwnd=10`; a word without a = belongs to what is before it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from analysis.read.runs import AnalysisError, Run

WHAT = "events of the kernel (--trace), a CSV file for each event with a column for each of its values"
_VALUE = re.compile(r"([A-Za-z_]\w*)=(.*?)(?=,? [A-Za-z_]\w*=|$)")


def export(run: Run, folder: Path, stem: str) -> list[Path]:
    """STEM-EVENT.csv"""
    path = run.path / "raw/trace.csv.gz"
    if not path.exists():
        raise AnalysisError(f"{run.path}: no events in raw/; they come with --trace EVENT")
    try:
        table = pd.read_csv(path, keep_default_na=False)
        events = list(table.groupby("event", sort=True))
    except (OSError, EOFError, ValueError, KeyError) as problem:
        raise AnalysisError(f"{path}: no table of events: {problem}") from None
    written = []
    for event, rows in events:
        target = folder / f"{stem}-{event}.csv"
        values(rows).to_csv(target, index=False)
        written.append(target)
    if not written:
        raise AnalysisError(f"{path}: no event in it")
    return written


def values(rows: pd.DataFrame) -> pd.DataFrame:
    """Columns t_us and what the texts of events of one kind name; `text` is what names nothing."""
    named = [dict(_VALUE.findall(text)) for text in rows["text"]]
    found = pd.DataFrame(named, index=rows.index)
    if rest := [text if not one else "" for text, one in zip(rows["text"], named)]:
        if any(rest):
            found["text"] = rest
    found.insert(0, "t_us", rows["t_us"])
    return found
