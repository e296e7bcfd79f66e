# SPDX-License-Identifier: GPL-2.0-only
"""`testbed run --gdb`: how the command ends where the run does not."""
import types

import pytest

from kernel import Stop
from testbed.cli import _debug
from testbed.core.errors import RunFailed
from testbed.runs.run import Outcome
from tests.unit.arguments import parsed


def test_a_run_that_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    monkeypatch.setattr(_debug.run, "execute", lambda *_: Outcome("0" * 16, error="why"))
    asked = types.SimpleNamespace(
        points=[1], subjects=[1], seeds=[1], arguments=parsed("run", "small"),
        first=types.SimpleNamespace(timing=types.SimpleNamespace(duration_us=5_000_000)),
        plans=lambda levels: [types.SimpleNamespace(id="0" * 16)])
    level = types.SimpleNamespace(engine=types.SimpleNamespace(debug=lambda stop: None))
    with pytest.raises(RunFailed, match="^why; its log is in "):
        _debug.main(asked, [level], Stop(at_ns=10**9, place="", commands=None, functions=()))
