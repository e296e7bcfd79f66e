# SPDX-License-Identifier: GPL-2.0-only
"""Initial slow-start thresholds of hosts, made known to TCP and tried (`initial_ssthresh` of the section `hosts`).

A route may have a threshold (RTAX_SSTHRESH), but a connection takes it from the kernel's table of what is known of a
peer (net/ipv4/tcp_metrics.c: tcp_init_metrics), where there is an entry only once a connection to that peer has ended
that was allowed to leave one; the entry then has what the route says. So each such host has one connection to each of
its peers before traffic, after which nobody leaves anything any more. The next connection shows whether it worked.
"""
import socket
import struct
import time
from typing import NamedTuple

from testbed.core import ip
from topologies.links.records import Network as Description, Path
from topologies.linux.namespace import write_sysctl
from topologies.linux.network import Network

_SAVE_NOTHING = "net.ipv4.tcp_no_metrics_save"
_PORT, _TCP_CONGESTION = 9, 13
#: tcpi_snd_ssthresh in struct tcp_info
_SSTHRESH_AT = 76
#: on links that lose packets some tries may be needed until one ends in time
_TRIES = 5


def make_known(network: Network, description: Description) -> dict[str, object]:
    """{"initial_ssthresh": {host: {address of a peer: threshold that a connection to it began with}}}, in segments.

    OSError if a peer cannot be reached.
    """
    wanted = {node.name: node.initial_ssthresh for node in description.nodes if node.initial_ssthresh is not None}
    found: dict[str, dict[str, int]] = {}
    for path in description.paths:
        for here, there in _both_ways(path):
            if here.host in wanted:
                found.setdefault(here.host, {})[there.address] = _try(network, path, here, there, wanted[here.host])
    return {"initial_ssthresh": found}


class _End(NamedTuple):
    """Of a path."""
    host: str
    address: str


def _both_ways(path: Path) -> tuple[tuple[_End, _End], tuple[_End, _End]]:
    """(from, to) there and back."""
    one, other = _End(path.initiator, path.initiator_address), _End(path.acceptor, path.acceptor_address)
    return (one, other), (other, one)


def _try(network: Network, path: Path, here: _End, there: _End, wanted: int) -> int:
    """The threshold with which a connection begins, once one before it has left its entry."""
    for number in range(_TRIES):
        _set(network, here.host, _SAVE_NOTHING, 0)
        _connection(network, path, here, there, 2 ** number)
        _set(network, here.host, _SAVE_NOTHING, 1)
        threshold = _connection(network, path, here, there, 2 ** number)
        if threshold == wanted:
            break
    return threshold


def _set(network: Network, node: str, name: str, value: int) -> None:
    with network.in_namespace(node):
        write_sysctl(name, value)


def _connection(network: Network, path: Path, here: _End, there: _End, patience: int) -> int:
    """Connect, look at the slow-start threshold, and close: the peer first, so that nothing waits on the host.

    patience: how many times as long as without losses it may take until both ends are closed.
    """
    with network.in_namespace(there.host):
        listening = socket.create_server((there.address, _PORT), family=ip.family(there.address), reuse_port=False)
    with network.in_namespace(here.host):
        ours = socket.socket(ip.family(here.address), socket.SOCK_STREAM)
    with listening, ours:
        # what the kernel gives every connection; some congestion controls put their own threshold in its place
        ours.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, b"reno")
        ours.bind((here.address, 0))
        ours.connect((there.address, _PORT))
        threshold, = struct.unpack_from("=I", ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), _SSTHRESH_AT)
        theirs, _ = listening.accept()
        theirs.close()
        ours.recv(1)
    time.sleep(patience * (0.1 + 2 * path.base_rtt_us / 1e6))
    return int(threshold)
