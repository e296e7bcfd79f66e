# SPDX-License-Identifier: GPL-2.0-only
"""A machine on which the testbed is killed in the middle of a run: at once, politely, and only a part of it."""
import os
import signal

from tests.host import inside

RUN = ("/run/checkout/tests/host/small.yaml", "--engine", "host", "--cca", "reno", "--no-report", "--set",
       "timing.test=60 s", "--set", "topology.central.right_to_left.rate=40 Mbit/s")


def main(out_dir):
    before = inside.look()
    findings = {}
    process = inside.start_run(*RUN)
    during = inside.look()
    for pid in [*inside.session_of(process), *inside.processes("enter.py")]:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    inside.wait_for(lambda: not inside.processes("enter.py"))
    killed = inside.look()
    findings["doctor"] = inside.command(inside.TESTBED, "doctor", "--engine", "host")
    findings["repair"] = inside.command(inside.TESTBED, "doctor", "--engine", "host", "--repair")
    findings["repaired"] = inside.difference(before, inside.look())
    findings["again"] = inside.command(inside.TESTBED, "doctor", "--engine", "host", "--repair")
    findings["during"], findings["killed"] = inside.difference(before, during), inside.difference(before, killed)

    process = inside.start_run(*RUN)
    for pid in inside.session_of(process):
        os.kill(pid, signal.SIGKILL)                    # what it started notices
    process.wait()
    inside.wait_for(lambda: not inside.processes("enter.py"))
    findings["alone"] = inside.difference(before, inside.look())
    inside.command(inside.TESTBED, "doctor", "--engine", "host", "--repair")
    findings["alone_repaired"] = inside.difference(before, inside.look())

    process = inside.start_run(*RUN)
    os.killpg(process.pid, signal.SIGINT)               # as Ctrl-C does
    findings["interrupted"] = {"code": process.wait(), "difference": inside.difference(before, inside.look())}

    process = inside.start_run(*RUN)
    process.terminate()
    findings["terminated"] = {"code": process.wait(), "difference": inside.difference(before, inside.look())}

    process = inside.start_run(*RUN)
    worker, = set(inside.session_of(process)) - {process.pid}
    os.kill(worker, signal.SIGKILL)                     # the command itself goes on, and cleans up
    findings["worker"] = {"code": process.wait(), "difference": inside.difference(before, inside.look())}
    inside.keep(out_dir, **findings)
