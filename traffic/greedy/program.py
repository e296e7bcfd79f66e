# SPDX-License-Identifier: GPL-2.0-only
"""What the programs of greedy flows have in common: orders, the word to start, congestion controls."""
import json
import os
import signal
import sys
import time

from traffic.clock import now_ns

_CCAS = "TESTBED_FLOW_CCAS"


def read_job():
    """The job file named on the command line. SIGTERM ends the program from here on, cleaning up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(sys.argv[1]) as f:
        return json.load(f)


def wait_for_start():
    """Say that everything is ready; returns when the experiment begins, in ns of CLOCK_MONOTONIC."""
    print("ready", flush=True)
    word, t0_ns = sys.stdin.readline().split()
    if word != "start":
        sys.exit(f"expected start, got {word!r}")
    return int(t0_ns)


def done(account):
    """The last word: what was sent and received."""
    print("done", json.dumps(account), flush=True)


def sleep_until(deadline_ns):
    """Sleep until an instant of CLOCK_MONOTONIC, if it is yet to come."""
    time.sleep(max(0, deadline_ns - now_ns()) / 1e9)


def cca_of(flow):
    """Congestion control of a flow (counted from 1): None for the host's default.

    TESTBED_FLOW_CCAS=libra,bic gives odd flows libra and even ones bic.
    """
    names = [name for name in os.environ.get(_CCAS, "").split(",") if name]
    return names[(flow - 1) % len(names)] if names else None
