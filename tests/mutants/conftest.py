# SPDX-License-Identifier: GPL-2.0-only
"""Kernels with one fault each: `make test-mutants`, for the night. Each mutant is a build of some seconds.

No part of `make test`: these files are collected only if this folder is named.
"""
import pathlib
import shutil

import pytest

from kernel import source

HERE = pathlib.Path(__file__).parent
VERSION = "6.12"


def pytest_ignore_collect(collection_path, config):
    named = any(HERE.name in pathlib.Path(argument.split("::")[0]).parts for argument in config.args)
    return None if named else True


@pytest.fixture(scope="session")
def linux():
    """A tree to change; it is kept in the cache, with the build that each mutant begins from."""
    folder = source.cache_dir() / "mutants" / source.identify(VERSION)[1]
    if not folder.is_dir():
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.parent.mkdir(parents=True)
        source.fetch(VERSION, folder, print)
    return folder
