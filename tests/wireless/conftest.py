# SPDX-License-Identifier: GPL-2.0-only
"""Runs over the air. They need the guest kernel with the option `wireless`: `make test-wireless` builds it; in
`make test` they are skipped as long as it is not there."""
import importlib.util
import pathlib
import sys

import pytest

from testbed import engines

# what the tests of the default kernel have, with the one that has radios
_OTHERS = pathlib.Path(__file__).parents[1] / "kernel"
sys.path.append(str(_OTHERS))
_description = importlib.util.spec_from_file_location("default_kernel_conftest", _OTHERS / "conftest.py")
_default = importlib.util.module_from_spec(_description)
_description.loader.exec_module(_default)
run_scenario = _default.run_scenario
run_with = _default.run_with


@pytest.fixture(scope="session")
def engine():
    """The uml engine with radios in its kernel."""
    ready = engines.load("uml")
    ready.require(["wireless"])
    if not ready.find():
        pytest.skip("the guest kernel with the option wireless is not built: make test-wireless")
    ready.prepare(print)
    return ready
