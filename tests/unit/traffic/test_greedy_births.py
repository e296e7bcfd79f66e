# SPDX-License-Identifier: GPL-2.0-only
"""What the preload of iperf3 sets and keeps from being set at its sockets, such as the congestion control, from the
first."""
import os
import subprocess
import sys

import pytest

from traffic.greedy import iperf3, scenario


def test_children_are_told_it(tmp_path, monkeypatch):
    path = tmp_path / "iperf3"
    path.write_text("""#!/bin/sh
echo '{"end": {"sum_sent": {"bytes": "'"$TESTBED_CCA $TESTBED_WINDOW $TESTBED_NAGLE"'"}}}'\n""")
    path.chmod(0o755)
    monkeypatch.setattr(iperf3, "PROGRAM", str(path))
    for nagle in (False, True):
        running = iperf3.Children(str(tmp_path), None, nagle)
        for flow, cca, window_bytes in ((1, "bic", None), (2, None, 28_960)):
            running.start(flow, "client", [], cca, window_bytes)
            running.watch()
        end = "yes" if nagle else ""
        assert running.transferred("client", "sum_sent") == {1: f"bic  {end}", 2: f" 28960 {end}"}


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


OPTIONS = """import socket
of = socket.socket()
of.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(of.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
      of.getsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP),
      of.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))"""


@pytest.mark.parametrize("told, found", [
    ({}, None), ({"TESTBED_NAGLE": "yes"}, (0, None, None)), ({"TESTBED_WINDOW": "20000"}, (1, 20_000, 160_000))])
def test_with_the_preload_a_window_is_limited_and_nagle_stays(tmp_path, told, found):
    """What is None is as without the preload. The kernel doubles the size of a buffer that is set."""
    library = tmp_path / scenario._compile(str(tmp_path))

    def numbers(more):
        return [int(word) for word in subprocess.run(
            [sys.executable, "-c", OPTIONS], capture_output=True, text=True, check=True,
            env={**os.environ, **more}).stdout.split()]
    usual = numbers({})
    assert usual[0] == 1
    wanted = [one if one is not None else without for one, without in zip(found or (None,) * 3, usual)]
    assert numbers({"LD_PRELOAD": str(library), **told}) == wanted
