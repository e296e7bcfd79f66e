# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the formats of other programs.  Every file in this folder is found by listing it.

A file has `WHAT` (one line for people) and `export(run, folder, stem) -> list[Path]`: it writes files whose names begin
with `stem` into the folder, the same bytes each time.  AnalysisError if a run has not what the format is of.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType


def names() -> list[str]:
    """Names of the formats: those of the files."""
    return sorted({path.stem for folder in __path__ for path in Path(folder).glob("[a-z]*.py")})


def module(name: str) -> ModuleType:
    """The file of a format."""
    return importlib.import_module(f"{__name__}.{name}")
