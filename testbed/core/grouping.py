# SPDX-License-Identifier: GPL-2.0-only
"""Rows of a table that belong together, as numbers. For short tables pandas' groupby takes longer to set up than to
group."""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

#: numbers of pairs beyond this might not fit into 64 bits
_MOST = 2**62


def numbered(columns: Iterable[pd.Series]) -> np.ndarray:
    """A number for each row, the same where all columns are: 0 for the first row, and so on, by first appearance. What
    is missing is the same as what is missing."""
    import numpy as np
    import pandas as pd
    found, many = np.zeros(0, np.int64), 0
    for column in columns:
        codes, different = _codes(column)
        if many * (different + 1) > _MOST:
            found, uniques = pd.factorize(found)
            many = len(uniques)
        found = found * (different + 1) + codes + 1 if many else codes + 1
        many = max(many, 1) * (different + 1)
    return pd.factorize(found)[0]


def first_rows(numbers: np.ndarray) -> np.ndarray:
    """Where each of the numbers that `numbered` gives appears first."""
    import numpy as np
    return np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))


def rows_of(column: pd.Series) -> dict[Any, np.ndarray]:
    """{value: places of the rows that have it, in their order}; of what is missing there are none."""
    import numpy as np
    import pandas as pd
    codes, values = pd.factorize(column)
    # numpy sorts short numbers by radix
    order = np.argsort(codes.astype(np.int16) if len(values) < 2**15 else codes, kind="stable")
    ends = np.cumsum(np.bincount(codes + 1, minlength=len(values) + 1))
    return {value: order[begin:end] for value, begin, end in zip(values, ends, ends[1:])}


def _codes(column: pd.Series) -> tuple[np.ndarray, int]:
    """(a number for each value, -1 for one that is missing; how many there may be)"""
    import numpy as np
    import pandas as pd
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64), len(column.cat.categories)
    codes, values = pd.factorize(np.asarray(column))
    return codes.astype(np.int64), len(values)
