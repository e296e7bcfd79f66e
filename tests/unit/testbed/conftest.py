# SPDX-License-Identifier: GPL-2.0-only
"""Evidence of a good run, and what a check finds in it."""
import pytest

from tests.unit.testbed import evidence_files
from traffic.quic import programs


@pytest.fixture
def files():
    return evidence_files.good_files()


@pytest.fixture
def findings(tmp_path):
    """findings(check, files) -> [(level, message)], the worst first."""
    def found(check, files, **evidence):
        return evidence_files.findings(tmp_path, check, files, **evidence)
    return found


@pytest.fixture
def quic_programs(monkeypatch):
    """As if what makes the programs of QUIC stacks were there."""
    monkeypatch.setattr(programs, "missing", lambda name, versions=True: "")
