# SPDX-License-Identifier: GPL-2.0-only
"""Connections that only their initiator has, for good.

An initiator is connected when the SYN-ACK comes. If its answer is lost the acceptor sends the SYN-ACK again after 1, 3,
7, 15 and 31 s (tcp_synack_retries) and forgets the request after 63 s. An initiator that sends something first makes up
for all that, or is reset. One that waits for the acceptor's first data unit waits for ever: TCP has nothing to send
again. It takes the loss of six SYN-ACKs or of their answers: rare, and no defect of the network or of a program.

What tells it from an acceptor's program that does not accept, or does not send: its host has no socket, though
the initiator's is established, and it has sent SYN-ACKs again (TcpExtTCPSynRetrans in raw/snmp.json counts these, too).
An accept queue that overflows looks the same: of that the check `stack` complains.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from testbed.checks import Evidence
from testbed.core.guest_files import NodeCounters

if TYPE_CHECKING:
    import pandas as pd

_RESENT = "TcpExtTCPSynRetrans"
#: when a SYN-ACK is sent again
_AGAIN_US = tuple(seconds * 1_000_000 for seconds in (1, 3, 7, 15, 31))
_KEY = ["source", "conn"]

Connection = tuple[int, int]


def find_half_open(evidence: Evidence, connections: pd.DataFrame, units: pd.DataFrame, samples: pd.DataFrame,
                   at_end: int) -> dict[Connection, str]:
    """{(source, conn): its acceptor, as the traffic's account of overdue programs calls it}.

    connections, units: the tables connections and adus; samples: rows of tcp_info; at_end: when the last were taken.
    None are found of a host that has sent fewer SYN-ACKs again than that takes.
    """
    silent = _silent(connections, units)
    at = samples.groupby(["node", "sport", "dport"])["t_us"].max().to_dict()
    last = samples[samples["t_us"] == at_end].groupby(["node", "sport", "dport"])["state"].last().to_dict()
    found: dict[str, list[tuple[Connection, int]]] = {}
    for row in silent.itertuples():
        here, there = (row.initiator, row.iport, row.aport), (row.acceptor, row.aport, row.iport)
        # an earlier connection may have had the same ports
        if last.get(here) == "ESTAB" and at.get(there, -1) < row.connected_us:
            resent = sum(row.connected_us + again_us < at_end for again_us in _AGAIN_US)
            found.setdefault(row.acceptor, []).append(((row.source, row.conn), resent))
    nodes: Mapping[str, NodeCounters] = evidence.snmp.nodes if evidence.can("snmp.json") else {}
    return {key: f"the acceptor of connection {key[1]} of source {key[0]}" for node, mine in found.items()
            if 0 < sum(resent for _, resent in mine) <= nodes.get(node, {}).get(_RESENT, [0])[-1]
            for key, _ in mine}


def _silent(connections: pd.DataFrame, units: pd.DataFrame) -> pd.DataFrame:
    """Connections that their initiators have, over which nothing was sent either way."""
    alive = connections[(connections["status"] == "unfinished") & connections["connected_us"].notna()]
    used = units[units["sent_us"].notna() | units["delivered_us"].notna()]
    keys = set(zip(used["source"], used["conn"]))
    return alive[[key not in keys for key in zip(alive["source"], alive["conn"])]]
