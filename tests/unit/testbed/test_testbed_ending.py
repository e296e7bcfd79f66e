# SPDX-License-Identifier: GPL-2.0-only
"""A signal that ends a process in the middle of a check or a metric is no finding about the run."""
import os
import signal
import types

import pytest

from analysis import metrics
from testbed import checks
from testbed.core import ending
from testbed.executors import _processes
from tests.unit.testbed import evidence_files


def swallows_what_comes(*_):
    """As C code does that makes an error of its own of whatever a callback raises."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException:
        pass
    raise TypeError("an integer is required")


@pytest.fixture
def worker():
    """This process as one that carries runs out."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # parents of workers end them; that of the tests goes on
    ctypes, _processes.ctypes = _processes.ctypes, types.SimpleNamespace(
        CDLL=lambda _: types.SimpleNamespace(prctl=lambda *_: 0))
    _processes.die_with_parent()
    yield
    _processes.ctypes = ctypes
    for number, handler in before.items():
        signal.signal(number, handler)
    ending.forget()


def test_a_check_that_is_interrupted(worker, monkeypatch, tmp_path):
    monkeypatch.setattr("testbed.checks.windows.check", swallows_what_comes)
    with pytest.raises(SystemExit) as ended:
        checks.judge(evidence_files.write(tmp_path, evidence_files.good_files()))
    assert ended.value.code == 143


def test_a_check_that_fails_by_itself(monkeypatch, tmp_path):
    def fails(_evidence):
        raise TypeError("an integer is required")
    monkeypatch.setattr("testbed.checks.windows.check", fails)
    verdict = checks.judge(evidence_files.write(tmp_path, evidence_files.good_files()))
    assert [(one["level"], one["message"]) for one in verdict["checks"] if one["check"] == "windows"] == [
        ("suspect", "the check itself failed: TypeError: an integer is required")]


def test_a_metric_that_is_interrupted(worker, monkeypatch):
    monkeypatch.setattr(metrics, "module", lambda _name: types.SimpleNamespace(compute=swallows_what_comes))
    with pytest.raises(SystemExit):
        metrics.compute_metrics(None)
