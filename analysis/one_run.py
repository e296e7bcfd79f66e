# SPDX-License-Identifier: GPL-2.0-only
"""Seeds that are one run: where nothing in a scenario is random, every seed gives the same numbers.

They count as one run. What they spread by, nothing, would make an interval of width 0 and a verdict of anything.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.stats import ONE_VALUE

#: what a user can do about it
REMEDY = "let flows start at random (start_within of greedy traffic) or give hosts some jitter (hosts.jitter)"


def groups(values: pd.DataFrame) -> list[list[str]]:
    """Names of runs by what they measured, in the order of the table: runs with the same values of all metrics.

    values: the metrics (metric, scope, value) of several runs (run), which differ in their seeds only.
    """
    table = values.pivot_table("value", ["metric", "scope"], "run", aggfunc="first", sort=False, dropna=False)
    found: list[list[str]] = []
    for name in table:
        same = next((group for group in found if np.isclose(
            table[name], table[group[0]], rtol=ONE_VALUE, atol=0, equal_nan=True).all()), None)
        if same is None:
            found.append([str(name)])
        else:
            same.append(str(name))
    return found
