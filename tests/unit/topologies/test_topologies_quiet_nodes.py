# SPDX-License-Identifier: GPL-2.0-only
"""Nodes without a shell: a process that keeps a namespace. Here it is one without a namespace of its own."""
import subprocess

import pytest

from topologies.network import _QuietNode


@pytest.fixture
def started_by(monkeypatch):
    """started_by(command) -> a node whose process is that."""
    def start(*command):
        monkeypatch.setattr(_QuietNode, "_popen", lambda self, _, **how: subprocess.Popen(
            command, start_new_session=True, **how))
        return _QuietNode("n1")
    return start


def test_a_node_lasts_until_it_is_told_to_end(started_by):
    node = started_by("cat")
    process = node.shell
    assert node.pid == process.pid and process.poll() is None
    node.terminate()
    assert node.shell is None and process.returncode is not None


def test_a_node_that_cannot_be_made_says_so(started_by):
    with pytest.raises(RuntimeError, match="n1: mnexec ended with status 1"):
        started_by("false")
