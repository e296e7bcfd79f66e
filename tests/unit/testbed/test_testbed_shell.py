# SPDX-License-Identifier: GPL-2.0-only
"""Mininet's command line: what becomes of names of nodes in commands."""
import types

import pytest

from testbed.guest import shell


def node(*addresses):
    """A node whose ports have these addresses."""
    ports = [types.SimpleNamespace(ip=address, updateIP=lambda ip=address: ip if ip and "." in ip else None)
             for address in addresses]          # as Mininet's, which looks for IPv4
    sent = []
    return types.SimpleNamespace(sent=sent, sendCmd=sent.append, defaultIntf=lambda: ports[0])


@pytest.fixture
def session():
    """session(command) -> what the node does."""
    nodes = {"n1": node("fd00:0:0:2::1"), "n4": node("fd00:0:0:5::1", "fd00:0:0:6::1"), "s1": node(None),
             "old": node("10.0.2.1")}
    made = object.__new__(shell._Shell)
    made.mn, made.waitForNode = nodes, lambda node: None

    def say(command):
        made.onecmd(command)
        return nodes["n1"].sent.pop()
    return say


@pytest.mark.parametrize("command, done", [
    ("ping -c1 n4", "ping -c1 fd00:0:0:5::1"), ("ping -c1  n4", "ping -c1  fd00:0:0:5::1"),
    ("echo n1 s1 n44 old", "echo fd00:0:0:2::1 s1 n44 10.0.2.1")])
def test_names_become_addresses(session, command, done):
    assert session(f"n1 {command}") == done
