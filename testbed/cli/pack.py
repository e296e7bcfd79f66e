# SPDX-License-Identifier: GPL-2.0-only
"""Pack an experiment into one file, from which others can repeat it.

  testbed pack access-link-load60-quick
  testbed verify access-link-load60-quick.pack.tar.xz     on another machine

The file has plans, hashes of raw data, metrics, report, kernel configuration
and patches, sources of modules, traffic files and hashes of the testbed's code
(docs/explanation/reproducibility.md).
"""
from __future__ import annotations

import argparse
import os
import pathlib
import tempfile

from testbed.core.errors import UsageError
from testbed.runs import experiment, pack

HELP = "pack an experiment for others to verify"
GROUP = "Look at results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="folder or name, such as access-link-load60-quick")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path, help=f"(default: EXPERIMENT{pack.SUFFIX})")
    parser.add_argument("--raw", action="store_true", help="with the raw data of all runs, not only its hashes")


def main(arguments: argparse.Namespace) -> int:
    folder = experiment.find(arguments.experiment)
    target = arguments.output or pathlib.Path(folder.name + pack.SUFFIX)
    if not target.name.endswith(".tar.xz"):
        raise UsageError(f"--output {target}: a name that ends in .tar.xz expected")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"--output {target}: no such folder")
    with tempfile.TemporaryDirectory(prefix="pack-") as scratch:
        about = pack.make(folder, target.absolute(), arguments.raw, pathlib.Path(scratch))
    runs = sum(name.endswith("/plan.json") for name in about["files"])
    print(f"{target}: {runs} run{'s'[:runs != 1]}, {os.path.getsize(target) / 1e6:.2g} MB")
    return 0
