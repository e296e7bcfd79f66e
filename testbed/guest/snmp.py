# SPDX-License-Identifier: GPL-2.0-only
"""What the TCP/IP stack of every node counted (-> raw/snmp.json): all that `nstat` shows, of the whole namespace.

A program or a probe can miss a connection; these counters cannot. Names are those of nstat: TcpRetransSegs,
TcpExtListenDrops, ...
"""
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

_FILES = ("/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat")
#: of IPv6, a counter in each line: Ip6InReceives, Udp6InDatagrams, ...
_FILE6 = "/proc/thread-self/net/snmp6"
#: not counters: settings, and what is there now
_NO_COUNTERS = {"IpForwarding", "IpDefaultTTL", "TcpRtoAlgorithm", "TcpRtoMin", "TcpRtoMax", "TcpMaxConn",
                "TcpCurrEstab"}
#: the readings of raw/snmp.json in their order: when measuring begins, at the end, when the network has run empty
READINGS = ("measure_from", "at_end", "drained")

Counters = dict[str, int]


class _Network(Protocol):
    def node_names(self) -> Iterable[str]: ...

    def in_namespace(self, name: str) -> AbstractContextManager[None]: ...


class Snmp:
    """The counters of all nodes since this object was made. A sampler that reads once, when measuring begins."""

    def __init__(self, network: _Network, measure_from_us: int, duration_us: int) -> None:
        self._network = network
        # called at 0 and at every multiple of the interval
        self.interval_us = measure_from_us or duration_us
        self._measure_from_us = measure_from_us
        self._before = self._read()
        self._readings: dict[str, dict[str, Counters]] = {}

    def sample(self, t_us: int) -> None:
        """Take the reading `measure_from` if it is due."""
        if t_us >= self._measure_from_us and "measure_from" not in self._readings:
            self.take("measure_from")

    def take(self, reading: str) -> None:
        """Read all counters now."""
        self._readings[reading] = self._read()

    def _read(self) -> dict[str, Counters]:
        found = {}
        for name in self._network.node_names():
            with self._network.in_namespace(name):
                found[name] = read()
        return found

    def record(self) -> dict[str, object]:
        """For raw/snmp.json: {"measure_from_us", "readings", "nodes": {node: {counter: [value at each reading]}}}.

        What no node has counted is left out.
        """
        nodes = {}
        for node, before in self._before.items():
            later = [self._readings[reading][node] for reading in READINGS]
            # some names appear with what they count
            series = {name: [counters.get(name, 0) - before.get(name, 0) for counters in later]
                      for name in sorted({*before, *later[-1]})}
            nodes[node] = {name: values for name, values in series.items() if any(values)}
        return {"measure_from_us": self._measure_from_us, "readings": list(READINGS), "nodes": nodes}


def read() -> Counters:
    """The counters of the current namespace."""
    found: Counters = {}
    for path in _FILES:
        with open(path, encoding="ascii") as f:
            found.update(parse(f.read()))
    if os.path.exists(_FILE6):                  # a kernel with IPv6
        with open(_FILE6, encoding="ascii") as f:
            found.update((name, int(number)) for name, number in map(str.split, f))
    return found


def parse(text: str) -> Mapping[str, int]:
    """Lines in pairs: `Tcp: names...` and `Tcp: values...`. ValueError if they do not fit."""
    lines = text.splitlines()
    found = {}
    for names, values in zip(lines[::2], lines[1::2]):
        protocol, _, rest = names.partition(":")
        other, _, numbers = values.partition(":")
        if protocol != other:
            raise ValueError(f"{protocol} and {other} in lines that should be of one protocol")
        for name, number in zip(rest.split(), numbers.split(), strict=True):
            if protocol + name not in _NO_COUNTERS:
                found[protocol + name] = int(number)
    return found
