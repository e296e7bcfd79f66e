# SPDX-License-Identifier: GPL-2.0-only
"""Histories of a kernel tree are bisected: `make test-bisect`, for the night. Each revision is a build.

No part of `make test`: these files are collected only if this folder is named.
"""
import pathlib

import pytest

from tests.bisect import history
from tests.end_to_end.command_line import CommandLine

HERE = pathlib.Path(__file__).parent


def pytest_ignore_collect(collection_path, config):
    named = any(HERE.name in pathlib.Path(argument.split("::")[0]).parts for argument in config.args)
    return None if named else True


@pytest.fixture(scope="session")
def linux():
    """The tree with the history."""
    return history.tree()


@pytest.fixture(scope="session")
def testbed(tmp_path_factory):
    """bin/testbed with results of its own."""
    return CommandLine(tmp_path_factory.mktemp("bisect"), timeout_s=4 * 3600)
