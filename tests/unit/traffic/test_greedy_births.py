# SPDX-License-Identifier: GPL-2.0-only
"""iperf3's sockets have the congestion control of their flow from the first."""
import os
import subprocess
import sys

import pytest

from traffic.greedy import iperf3, scenario


def test_children_are_told_it(tmp_path, monkeypatch):
    path = tmp_path / "iperf3"
    path.write_text("""#!/bin/sh\necho '{"end": {"sum_sent": {"bytes": "'$TESTBED_CCA'"}}}'\n""")
    path.chmod(0o755)
    monkeypatch.setattr(iperf3, "PROGRAM", str(path))
    running = iperf3.Children(str(tmp_path), None)
    for flow, cca in ((1, "bic"), (2, None)):
        running.start(flow, "client", [], cca)
        running.watch()
    assert running.transferred("client", "sum_sent") == {1: "bic", 2: ""}


BIRTHS = """import os, socket
there = socket.socket(); there.bind(("127.0.0.1", 0)); there.listen()
ours = socket.socket(); ours.connect(there.getsockname()); accepted, _ = there.accept()
name = lambda of: of.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).partition(b"\\0")[0].decode()
print(*map(name, (there, accepted, ours)), socket.socket(type=socket.SOCK_DGRAM).fileno() > 0)"""


@pytest.mark.parametrize("cca, status", [("reno", 0), ("nonesuch", 1)])
def test_with_the_preload_every_socket_has_its_congestion_control_from_the_first(tmp_path, cca, status):
    library = tmp_path / scenario._compile(str(tmp_path))
    done = subprocess.run([sys.executable, "-c", BIRTHS], capture_output=True, text=True, env={
        **os.environ, "LD_PRELOAD": str(library), "TESTBED_CCA": cca, "TESTBED_PAYLOAD": str(tmp_path / "found")})
    assert done.returncode == status, done.stderr
    if status:
        assert done.stderr == "congestion control nonesuch: No such file or directory\n"
    else:
        assert done.stdout == "reno reno reno True\n"
        # it asked the last one only, as iperf3 does
        assert (tmp_path / "found").read_text() == "0 0 0 reno\n"
