# SPDX-License-Identifier: GPL-2.0-only
"""The testbed on other kernels than its own: `make test-kernels`, some minutes for each.

No part of `make test`: these files are collected only if this folder is named. Which kernels:
TESTBED_KERNELS=6.1,newest
"""
import os
import pathlib

import pytest

import kernel
from testbed import engines
# what the tests of the default kernel have, with another kernel
from tests.kernel.conftest import greedy_run, run_scenario, run_with  # noqa: F401

HERE = pathlib.Path(__file__).parent
KERNELS = os.environ.get("TESTBED_KERNELS", "6.1,newest").split(",")


def pytest_ignore_collect(collection_path, config):
    named = any(HERE.name in pathlib.Path(argument.split("::")[0]).parts for argument in config.args)
    return None if named else True


@pytest.fixture(scope="session", params=KERNELS)
def version(request):
    """What --kernel is given."""
    return request.param


@pytest.fixture(scope="session")
def built(version):
    """The kernel, built."""
    return kernel.ensure(version)


@pytest.fixture(scope="session")
def engine(version, built):
    """The uml engine with this kernel."""
    ready = engines.load("uml", {"kernel": version})
    ready.prepare(print)
    return ready
