# SPDX-License-Identifier: GPL-2.0-only
"""A machine looks at itself, runs a scenario on its own kernel, looks again."""
from tests.host import inside

SCENARIO = "/run/checkout/tests/host/small.yaml"


def main(out_dir):
    doctor = inside.command(inside.TESTBED, "doctor", "--engine", "host")
    before = inside.look()
    run = inside.command(inside.TESTBED, "run", SCENARIO, "--engine", "host", "--cca", "reno", "--no-report")
    after = inside.look()
    run_dir, = inside.RESULTS.glob("runs/*/run.json")
    verify = inside.command(inside.TESTBED, "verify", run_dir.parent)
    inside.keep(out_dir, doctor=doctor, run=run, verify=verify, difference=inside.difference(before, after),
                looked_at={what: len(lines) for what, lines in before.items()})
