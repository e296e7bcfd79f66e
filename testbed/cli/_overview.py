# SPDX-License-Identifier: GPL-2.0-only
"""The page of all experiments of a results folder."""
import pathlib
from collections.abc import Mapping

from testbed.core.run_files import KnownRun


def build(results: pathlib.Path, failed: Mapping[str, str], output: pathlib.Path | None = None) -> pathlib.Path:
    """Write the page and return its path; failed: {what could not be run: why}."""
    from analysis.pages.overview import build_overview
    from testbed.runs import index

    # an index that cannot be kept is made in memory; what is damaged is in it as such
    return build_overview(results, {run["id"]: KnownRun(run) for run in index.runs(results)}, failed, output)
