# SPDX-License-Identifier: GPL-2.0-only
"""A machine that is asked for a network that it is too slow for."""
from tests.host import inside

FAST = ("--set", "topology.central.rate=2 Gbit/s", "--set", "topology.edge.rate=10 Gbit/s", "--set",
        "topology.central.queue.limit=2000")


def main(out_dir):
    run = inside.command(inside.TESTBED, "run", "/run/checkout/tests/host/small.yaml", "--engine", "host", "--cca",
                         "reno", "--no-report", *FAST)
    inside.keep(out_dir, run=run)
