# SPDX-License-Identifier: GPL-2.0-only
"""A run whose hosts have a tcpdump each."""
from tests.host import inside

SCENARIO = "/run/checkout/tests/host/captured.yaml"


def main(out_dir):
    run = inside.command(inside.TESTBED, "run", SCENARIO, "--engine", "host", "--cca", "reno", "--no-report")
    inside.keep(out_dir, run=run)
