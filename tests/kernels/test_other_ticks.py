# SPDX-License-Identifier: GPL-2.0-only
"""The default kernel with 250 timer ticks per second instead of 1000."""
import pytest

from testbed import engines
from tests.kernel.small_runs import small_scenario


@pytest.fixture(scope="session")
def run_scenario(run_with, engine):
    """One of this file's own: the others' has their engine."""
    return run_with(engine)


@pytest.fixture(scope="session")
def engine():
    """The uml engine with that kernel."""
    ready = engines.load("uml", {"hz": 250})
    ready.prepare(print)
    return ready


def retransmission_timeouts_us(run):
    """Of the sender, once it has measured the round-trip time."""
    samples = run.table("tcp_info")
    return samples.loc[(samples["dport"] == 6000) & (samples["t_us"] > 500_000), "rto_us"]


def test_timers_come_in_steps_of_four_milliseconds(engine, run_scenario):
    run = run_scenario(small_scenario(**{"traffic.tool": "sockets", "timing.test": "1 s"}))
    assert run.json("environment.json")["kernel_hz"] == 250
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    timeouts_us = retransmission_timeouts_us(run)
    assert len(timeouts_us) and (timeouts_us % 4000 == 0).all() and (timeouts_us >= 200_000).all()


def test_it_is_a_kernel_of_its_own(engine):
    usual = engines.load("uml")
    usual.prepare(print)
    assert usual.kernel_key() != engine.kernel_key() and usual.kernel_release() == engine.kernel_release()
