# SPDX-License-Identifier: GPL-2.0-only
"""How long properties are tested: as each test says in `make test`, many times that in `make fuzz`."""
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
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
