# SPDX-License-Identifier: GPL-2.0-only
"""Runs over the air. They need the guest kernel with the option `wireless`: `make test-wireless` builds it; in
`make test` they are skipped as long as it is not there."""
import pytest

from testbed import engines
from tests.kernel.conftest import run_scenario, run_with  # noqa: F401


@pytest.fixture(scope="session")
def engine():
    """The uml engine with radios in its kernel."""
    ready = engines.load("uml")
    ready.require(["wireless"])
    if not ready.find():
        pytest.skip("the guest kernel with the option wireless is not built: make test-wireless")
    ready.prepare(print)
    return ready
