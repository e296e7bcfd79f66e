# SPDX-License-Identifier: GPL-2.0-only
"""Evidence of a good run, and what a check finds in it."""
import pytest

from tests.unit.testbed import evidence_files


@pytest.fixture
def files():
    return evidence_files.good_files()


@pytest.fixture
def findings(tmp_path):
    """findings(check, files) -> [(level, message)], the worst first."""
    def found(check, files, **evidence):
        return evidence_files.findings(tmp_path, check, files, **evidence)
    return found
