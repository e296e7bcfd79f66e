# SPDX-License-Identifier: GPL-2.0-only
"""Nodes without a shell: a thread that keeps a namespace."""
import os
import pathlib
import socket
import time

import pytest

from topologies.linux import namespace
from topologies.linux.network import _QuietNode


def namespace_of(tid):
    try:
        return os.readlink(f"/proc/{tid}/ns/net")
    except FileNotFoundError:
        return None


def test_a_node_lasts_until_it_is_told_to_end(monkeypatch):
    if os.geteuid():
        monkeypatch.setattr(namespace, "_libc", Libc(0))    # one without a namespace of its own
    node = _QuietNode("n1")
    assert node.shell is None and pathlib.Path(f"/proc/self/task/{node.pid}").exists()
    if not os.geteuid():
        assert namespace_of(node.pid) != namespace_of(os.getpid())
        with namespace.netns_of(node.pid):
            assert namespace_of(node.pid) == os.readlink("/proc/thread-self/ns/net")
            assert [name for _, name in socket.if_nameindex()] == ["lo"]
    node.terminate()
    while namespace_of(node.pid):               # its thread is about to end
        time.sleep(0.001)
    node.terminate()                            # once more does nothing


def test_no_program_is_looked_for_when_nodes_are_made(monkeypatch):
    """Mininet would ask `which` for mnexec and ifconfig."""
    def refused(*words, **_more):
        raise AssertionError(f"{words} was started")
    monkeypatch.setattr(namespace, "_libc", Libc(0))
    monkeypatch.setattr("subprocess.Popen.__init__", refused)
    monkeypatch.setattr(_QuietNode, "isSetup", False)
    _QuietNode("n1").terminate()


def test_namespaces_are_opened_once_and_left_for_where_one_came_from(monkeypatch, tmp_path):
    entered = []
    monkeypatch.setattr(namespace, "enter", lambda fd: entered.append(os.readlink(f"/proc/self/fd/{fd}")))
    for pid in (1, 2):
        (tmp_path / str(pid)).write_text("")
    opened = []
    monkeypatch.setattr(namespace, "open_namespace", lambda pid: (
        opened.append(pid), os.open(tmp_path / str(pid), os.O_RDONLY))[1])
    home, before = os.readlink("/proc/thread-self/ns/net"), len(os.listdir("/proc/self/fd"))
    spaces = namespace.Namespaces()
    one, two = str(tmp_path / "1"), str(tmp_path / "2")
    for _ in range(2):
        with pytest.raises(KeyError), spaces.inside(1), spaces.inside(2):
            raise KeyError
    assert entered == 2 * [one, two, one, home] and opened == [1, 2]
    spaces.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_node_that_cannot_be_made_says_so(monkeypatch):
    monkeypatch.setattr(namespace, "_libc", Libc(-1))
    with pytest.raises(OSError, match="unshare"):
        _QuietNode("n1")


class Libc:
    """Where one may not have a namespace, or need not."""

    def __init__(self, answer):
        self._answer = answer

    def unshare(self, _flags):
        return self._answer
