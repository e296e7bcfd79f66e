# SPDX-License-Identifier: GPL-2.0-only
"""What the hosts' TCP counted itself, of all its connections: retransmissions and timeouts, without sampling."""

from __future__ import annotations

from analysis.metrics import Metric
from analysis.read.runs import Run
from testbed.core.guest_files import Snmp

UNITS = {
    "retransmission_rate": "%", "handshake_retransmissions": "1", "timeouts": "1", "spurious_timeouts": "1",
    "fast_retransmissions": "1", "duplicates_reported": "1"}
BETTER = {"retransmission_rate": "lower", "timeouts": "lower", "spurious_timeouts": "lower"}
# RetransSegs counts repeated SYNs and SYN-ACKs, OrigDataSent counts no handshake; both count FINs
_SENT, _AGAIN, _HANDSHAKES = "TcpExtTCPOrigDataSent", "TcpRetransSegs", "TcpExtTCPSynRetrans"
_COUNTS = (("handshake_retransmissions", _HANDSHAKES), ("timeouts", "TcpExtTCPTimeouts"),
           ("spurious_timeouts", "TcpExtTCPSpuriousRTOs"), ("fast_retransmissions", "TcpExtTCPFastRetrans"),
           ("duplicates_reported", "TcpExtTCPDSACKRecv"))


def compute(run: Run) -> list[Metric]:
    """Per direction, over the hosts that send data there, in the measurement interval."""
    record = run.record(Snmp, "snmp.json")
    if record is None:
        return []
    begin, end = (record.readings.index(name) for name in ("measure_from", "at_end"))
    hosts: dict[str, set[str]] = {}
    for host, directions in _directions(run).items():
        # a host that sends to both sides cannot say how much of it went where
        hosts.setdefault(directions.pop() if len(directions) == 1 else "all", set()).add(host)
    metrics = []
    for scope, names in sorted(hosts.items()):
        total: dict[str, int] = {}
        for name in names:
            for counter, values in record.nodes.get(name, {}).items():
                total[counter] = total.get(counter, 0) + values[end] - values[begin]
        sent, again = total.get(_SENT, 0), total.get(_AGAIN, 0) - total.get(_HANDSHAKES, 0)
        if sent + again:
            metrics.append(Metric("retransmission_rate", scope, "%", 100 * again / (sent + again)))
            metrics += [Metric(name, scope, "1", total.get(counter, 0)) for name, counter in _COUNTS]
    return metrics


def _directions(run: Run) -> dict[str, set[str]]:
    """{host: directions of the TCP data that it sends}"""
    found: dict[str, set[str]] = {}
    for flow in run.flows:
        if flow.transport == "tcp":
            ends = [(flow.sender, flow.receiver)]
            if flow.both_ways:
                ends.append(ends[0][::-1])
            for sender, receiver in ends:
                found.setdefault(sender, set()).add(run.direction_between(sender, receiver) or "all")
    return found
