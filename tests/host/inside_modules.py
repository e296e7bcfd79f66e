# SPDX-License-Identifier: GPL-2.0-only
"""A machine builds a module for its own kernel, loads it for a run, and has no trace of it afterwards."""
import os
import pathlib
import signal
import sys

from tests.host import inside

SCENARIO = "/run/checkout/tests/host/small.yaml"
_BROKEN = '#include <linux/module.h>\nMODULE_LICENSE("GPL");\n'


def main(out_dir):
    # the headers of this kernel are the tree that it was built in, which wants to be told the architecture
    headers = pathlib.Path("/tmp/headers")
    headers.mkdir()
    source, build = sys.argv[2:4]
    (headers / "Makefile").write_text(f"modules:\n\t$(MAKE) -C {source} O={build} ARCH=um M=$(M) modules\n")
    os.environ["KDIR"] = str(headers)
    pathlib.Path("/tmp/tcp_idle.c").write_text(_BROKEN)
    before = inside.look()
    run = inside.command(inside.TESTBED, "run", SCENARIO, "--engine", "host", "--cca", "libra", "--no-report")
    after = inside.look()
    process = inside.start_run(SCENARIO, "--engine", "host", "--cca", "libra", "--set", "timing.test=60 s",
                               "--set", "topology.central.right_to_left.rate=40 Mbit/s")
    for pid in inside.session_of(process):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    killed = inside.look()["lsmod"]
    inside.command(inside.TESTBED, "doctor", "--engine", "host", "--repair")
    repaired = inside.look()["lsmod"]
    idle = inside.command(inside.TESTBED, "run", SCENARIO, "--engine", "host", "--cca", "/tmp/tcp_idle.c")
    os.environ["KDIR"] = "/tmp/nowhere"
    nowhere = inside.command(inside.TESTBED, "run", SCENARIO, "--engine", "host", "--cca", "/tmp/tcp_idle.c")
    inside.keep(out_dir, run=run, killed=killed, repaired=repaired, idle=idle, nowhere=nowhere,
                difference=inside.difference(before, after))
