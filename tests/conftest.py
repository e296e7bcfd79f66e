# SPDX-License-Identifier: GPL-2.0-only
"""How tests share the machine, and how long properties are tested: as each test says in `make test`, many times that
in `make fuzz`."""
from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# time limits of single examples only say how busy the machine is
_TIMES = "TESTBED_FUZZ"
# `make test` draws the same examples everywhere; `make fuzz` draws others each time
settings.register_profile("testbed", deadline=None, derandomize=_TIMES not in os.environ, suppress_health_check=[
    HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.load_profile("testbed")


def pytest_configure() -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    cpus = sorted(os.sched_getaffinity(0))
    if worker and int(os.environ["PYTEST_XDIST_WORKER_COUNT"]) <= len(cpus):
        # each on a CPU of its own: runs take the first that is allowed, which would be the same for all
        os.sched_setaffinity(0, {cpus[int(worker.removeprefix("gw"))]})


def _shares_a_fixture(item: pytest.Item) -> bool:
    """Whether a fixture that is made once for the tests of a file is used, often a run of some seconds."""
    about = getattr(item, "_fixtureinfo", None)
    return about is not None and any(definitions[-1].scope == "module" for definitions in
                                     about.name2fixturedefs.values())


@pytest.hookimpl(tryfirst=True)         # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.path.name))
    times = int(os.environ.get(_TIMES, "1"))
    if times == 1:
        return
    for item in items:
        function = getattr(item, "obj", None)
        function = getattr(function, "__func__", function)
        if getattr(function, "is_hypothesis_test", False):
            name = "_hypothesis_internal_use_settings"
            now = getattr(function, name)
            setattr(function, name, settings(now, max_examples=now.max_examples * times))
