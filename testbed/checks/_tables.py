# SPDX-License-Identifier: GPL-2.0-only
"""Raw tables of a run for many checks: each is read once and kept in little memory."""
from __future__ import annotations

import abc
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


#: rows read at once: what is worked on stays in the processor's caches
_AT_ONCE = 1 << 17
#: rows of a table that is kept: a quarter of a gigabyte of a table of many columns
_MOST_ROWS = 3_000_000
#: shorter ones are kept as they are: there is nothing to save, and to make tables of columns takes longer than to copy
_SHORT = 1 << 14
#: in place of a missing number, in a column that is kept as integers
_MISSING = -2**31


class KeptTable(abc.ABC):
    """A CSV file in memory; tables of some of its columns."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    @abc.abstractmethod
    def table(self, names: list[str]) -> pd.DataFrame:
        """These columns, in the file's order, as pandas.read_csv gives them: a table of one's own."""

    @abc.abstractmethod
    def names(self) -> list[str]:
        """All columns."""


class _Short(KeptTable):
    """What pandas makes of a file."""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__(len(frame))
        self._frame = frame

    def table(self, names: list[str]) -> pd.DataFrame:
        wanted = [place for place, name in enumerate(self._frame) if name in names]
        return self._frame.take(wanted, axis=1).copy()

    def names(self) -> list[str]:
        return list(self._frame)


class _Long(KeptTable):
    """About a third of what pandas makes of it."""

    def __init__(self, columns: dict[str, _Column], rows: int) -> None:
        super().__init__(rows)
        self._columns = columns

    def table(self, names: list[str]) -> pd.DataFrame:
        import pandas as pd
        wanted = set(names)
        return pd.DataFrame({name: column.values() for name, column in self._columns.items() if name in wanted},
                            index=pd.RangeIndex(self.rows))

    def names(self) -> list[str]:
        return list(self._columns)


def keep(path: pathlib.Path) -> KeptTable | None:
    """A CSV file; None for one that has too many rows, or a column of which pandas must see all to know what it is."""
    import pandas as pd
    columns: dict[str, _Column] = {}
    rows = 0
    with pd.read_csv(path, chunksize=_AT_ONCE, low_memory=False) as pieces:
        for piece in pieces:
            if not rows and len(piece) < min(_SHORT, _AT_ONCE):         # then it is all
                return _Short(piece)
            rows += len(piece)
            if rows > _MOST_ROWS:
                return None
            for name in piece:
                if not columns.setdefault(name, _Column()).add(piece[name]):
                    return None
    return _Long(columns, rows)


class _Column:
    """A column, piece by piece: texts as numbers of texts, numbers in the smallest type that holds them."""

    def __init__(self) -> None:
        self._pieces: list[tuple[np.ndarray, bool]] = []       # and whether _MISSING stands for missing numbers
        self._kinds: set[str] = set()                   # of numbers: i (integers), f (some are missing, or fractions)
        self._texts: dict[str, int] = {}

    def add(self, piece: pd.Series) -> bool:
        """False if what the column is depends on more than this piece."""
        if piece.dtype == object:
            if self._kinds or not all(isinstance(text, str) for text in piece.dropna().unique()):
                return False
            self._pieces.append((self._coded(piece), False))
            return True
        if self._texts or piece.dtype.kind not in "if":
            return False
        self._kinds.add(piece.dtype.kind)
        self._pieces.append(_whole(piece.to_numpy()) if piece.dtype.kind == "f" else (_small(piece.to_numpy()), False))
        return True

    def _coded(self, texts: pd.Series) -> np.ndarray:
        import numpy as np
        import pandas as pd
        codes, found = pd.factorize(texts)
        numbers = np.array([self._texts.setdefault(text, len(self._texts)) for text in found] + [-1], np.int32)
        return _small(numbers[codes])

    def values(self) -> np.ndarray:
        """All of it, as one array."""
        import numpy as np
        if not self._kinds:
            texts = np.array([*self._texts, np.nan], object)
            return np.concatenate([np.empty(0, object), *(texts[piece] for piece, _ in self._pieces)])
        if "f" not in self._kinds:
            return np.concatenate([piece.astype(np.int64) for piece, _ in self._pieces])
        numbers = [piece.astype(np.float64) for piece, _ in self._pieces]
        for values, (_, some_missing) in zip(numbers, self._pieces):
            if some_missing:
                values[values == _MISSING] = np.nan
        return np.concatenate(numbers)


def _whole(values: np.ndarray) -> tuple[np.ndarray, bool]:
    """Numbers of which some are missing as integers, if the others are such; True if so."""
    import numpy as np
    missing = np.isnan(values)
    rest = np.where(missing, 0, values)
    if np.signbit(rest).any() or (rest > 2**31 - 1).any() or (rest != np.rint(rest)).any():
        return values, False
    return _small(np.where(missing, _MISSING, rest).astype(np.int64)), True


def _small(values: np.ndarray) -> np.ndarray:
    """The same integers in the smallest type for them."""
    import numpy as np
    if not values.size:
        return values
    kind = np.promote_types(np.min_scalar_type(values.min()), np.min_scalar_type(values.max()))
    return values.astype(kind) if kind.kind in "iu" else values
