# SPDX-License-Identifier: GPL-2.0-only
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Time limits of single examples only say how busy the machine is.
settings.register_profile("tmix", deadline=None, max_examples=60,
                          suppress_health_check=[HealthCheck.too_slow,
                                                 HealthCheck.function_scoped_fixture])
settings.load_profile("tmix")

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def data():
    """Folder of the hand-written vector files."""
    return ROOT / "tests" / "data" / "tmix"
