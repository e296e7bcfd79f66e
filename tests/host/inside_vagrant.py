# SPDX-License-Identifier: GPL-2.0-only
"""A machine asks itself, as engine `vagrant` asks a virtual machine: both halves, and engine `host` behind them."""
import os
import pathlib
import shutil
import sys

from tests.host import inside

SCENARIO = "/run/checkout/tests/host/small.yaml"
#: of the three programs only ssh does something: it starts the inner half here
PROGRAMS = {
    "vagrant": 'case $1 in ssh-config) echo "Host default" ;; esac',
    "rsync": ":",
    "ssh": "exec /usr/bin/python3 -P -s /run/checkout/testbed/engines/vagrant/inside.py",
}


def main(out_dir):
    folder = pathlib.Path("/tmp/programs")
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    machine = pathlib.Path("/tmp/dot/machines/default/libvirt/id")
    machine.parent.mkdir(parents=True)
    machine.write_text("1")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "VAGRANT_DOTFILE_PATH": "/tmp/dot"}
    headers = pathlib.Path("/tmp/headers")      # as in inside_modules.py
    headers.mkdir()
    source, build = sys.argv[2:4]
    (headers / "Makefile").write_text(f"modules:\n\t$(MAKE) -C {source} O={build} ARCH=um M=$(M) modules\n")
    environment["KDIR"] = str(headers)
    shutil.copy("/run/checkout/docs/examples/tcp_mine.c", "/tmp/tcp_mine.c")
    before = inside.look()
    run = inside.command(inside.TESTBED, "run", SCENARIO, "--engine", "vagrant", "--cca", "reno", "--no-report",
                         env=environment)
    after = inside.look()
    module = inside.command(inside.TESTBED, "run", SCENARIO, "--engine", "vagrant", "--cca", "/tmp/tcp_mine.c",
                            "--no-report", "--set", "topology.central.right_to_left.rate=40 Mbit/s", "--set",
                            "timing.test=1 s", env={**environment, "TESTBED_RESULTS": "/tmp/results-module"})
    flows = [path.read_text() for path in pathlib.Path("/tmp/results-module/runs").glob("*/raw/workload.json")]
    inside.keep(out_dir, run=run, module=module, flows=flows, difference=inside.difference(before, after),
                left=os.listdir("/var/tmp/tcp-testbed"))
