# SPDX-License-Identifier: GPL-2.0-only
"""A machine that is asked for a network that it is too slow for."""
from tests.host import inside

FAST = ("topology.edge.rate=10 Gbit/s", *(f"topology.central.{direction}.{field}"
                                          for direction in ("left_to_right", "right_to_left")
                                          for field in ("rate=2 Gbit/s", "queue.limit=2000")))


def main(out_dir):
    run = inside.command(inside.TESTBED, "run", "/run/checkout/tests/host/small.yaml", "--engine", "host", "--cca",
                         "reno", "--no-report", *(word for field in FAST for word in ("--set", field)))
    inside.keep(out_dir, run=run)
