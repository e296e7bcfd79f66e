# SPDX-License-Identifier: GPL-2.0-only
"""Columns of addresses as text."""
import socket

import numpy as np
import pytest

from testbed.probes import _addresses

FOUR, SIX = ["10.0.1.2", "10.0.0.0", "10.0.1.2"], ["fd00:0:0:1::2", "::", "fd00:0:0:1::2"]


def column(texts, family):
    data = b"".join(socket.inet_pton(family, text) for text in texts)
    return np.frombuffer(data, f"V{len(data) // len(texts)}")


@pytest.mark.parametrize("texts, family", [(FOUR, socket.AF_INET), (SIX, socket.AF_INET6)])
def test_addresses(texts, family):
    assert _addresses.addresses(column(texts, family)).tolist() == texts
    assert _addresses.addresses(column(texts, family)[:0]).tolist() == []


def test_endpoints():
    ports = np.array([1, 0, 65280], ">u2")
    assert _addresses.endpoints(column(FOUR, socket.AF_INET), ports).tolist() == [
        "10.0.1.2:1", "10.0.0.0:0", "10.0.1.2:65280"]
    assert _addresses.endpoints(column(SIX, socket.AF_INET6), ports.astype("<u2")).tolist() == [
        "[fd00:0:0:1::2]:1", "[::]:0", "[fd00:0:0:1::2]:65280"]
