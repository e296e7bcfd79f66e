# SPDX-License-Identifier: GPL-2.0-only
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]


@pytest.fixture
def data():
    """Folder of the hand-written vector files."""
    return ROOT / "tests" / "data" / "tmix"
