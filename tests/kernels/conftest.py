# SPDX-License-Identifier: GPL-2.0-only
"""The testbed on other kernels than its own: `make test-kernels`, some minutes for each.

No part of `make test`: these files are collected only if this folder is named. Which kernels:
TESTBED_KERNELS=6.1,newest
"""
import importlib.util
import os
import pathlib
import sys

import pytest

import kernel
from testbed import engines

HERE = pathlib.Path(__file__).parent
KERNELS = os.environ.get("TESTBED_KERNELS", "6.1,newest").split(",")

# what the tests of the default kernel have, with another kernel
sys.path.append(str(HERE.parent / "kernel"))
_description = importlib.util.spec_from_file_location("default_kernel_conftest", HERE.parent / "kernel" / "conftest.py")
_default = importlib.util.module_from_spec(_description)
_description.loader.exec_module(_default)
run_scenario = _default.run_scenario
run_with = _default.run_with
greedy_run = _default.greedy_run


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
