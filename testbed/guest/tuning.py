# SPDX-License-Identifier: GPL-2.0-only
"""Kernel settings of a run: what is pinned so that the congestion control is what differs."""
import os
from collections.abc import Iterable, Mapping, Sequence

from testbed.core.fields import FieldError
from testbed.core.record import Record
from topologies.links import varying
from topologies.links.records import Network
from topologies.linux.namespace import sysctl_path
from traffic.workload.assign import SOURCE_PORTS, host_defaults, host_variants
from traffic.workload.records import Flow, Variant

#: shares of the memory at which TCP begins to save, and beyond which it gets none
_TCP_MEMORY = (1 / 2, 5 / 8, 3 / 4)
#: a guest that has more than this has it for what waits in sockets: of what is beyond, TCP gets so much
_USUAL_MB, _TCP_BEYOND = 1024, 0.9
#: closed connections that wait for stragglers: 60 s of more than 4000 connections per second
_TIME_WAITS = 262144
#: the kernel's settings of buffers have 31 bits
_MOST_BUFFER_BYTES = 1 << 30
#: places in a namespace's own table of connections: at least; at most, as every dump of sockets walks it
_LEAST_PLACES, _UNKNOWN_PLACES, _MOST_PLACES = 1024, 16384, 65536
#: up to half as many connections have two or more each: with one each, every third lookup passes another first
_ROOMY_PLACES = 4096
#: how long a closed connection keeps its place (TIME_WAIT)
_KEPT_US = 60_000_000
CONNECTION_PLACES = "net.ipv4.tcp_child_ehash_entries"
_DEFAULT_CCA = "net.ipv4.tcp_congestion_control"

Settings = dict[str, int | str]


class Hosts(Record):
    """What a scenario says of its hosts, as far as it is the kernel's settings (topologies/links/end_hosts.py)."""
    slow_start_after_idle: int
    ecn: int
    sack: int
    sysctls: Mapping[str, int | str]


def socket_buffer_bytes(network: Network) -> int:
    """Largest socket buffer: 4 x (bandwidth-delay product + buffers) of the widest path, at least 4 MB.

    Anything smaller would make flows limited by their windows rather than by their
    congestion control; those that still are get flagged by the checks.
    """
    bottlenecks = {link.name: link for link in network.links if link.bottleneck}
    rate_bps = max((varying.most(link, "rate_bps") for link in bottlenecks.values()), default=0)
    more_us = {link.name: varying.most(link, "delay_us") - link.delay_us for link in network.links}
    rtt_us = max((path.base_rtt_us + sum(more_us[name] for name in (*path.hops, *path.hops_back))
                  for path in network.paths), default=0)
    queue_bytes = max((sum(bottlenecks[name].capacity_bytes for name in hops if name in bottlenecks)
                       for path in network.paths for hops in (path.hops, path.hops_back)), default=0)
    return min(_MOST_BUFFER_BYTES, max(4 << 20, 4 * int(rate_bps / 8e6 * rtt_us + queue_bytes)))


def connection_places(flows: Iterable[Flow]) -> int:
    """Places for the busiest host in every host's table of connections: a power of two.

    Each namespace has a table of its own, so that a packet's socket is found without looking at those of other hosts,
    and a dump of a host's sockets does not walk over them (net/ipv4/inet_hashtables.c, inet_pernet_hashinfo_alloc).
    """
    wanted: dict[str, float] = {}
    for flow in flows:
        if flow.transport == "udp":
            continue
        if flow.kind == "program":           # whatever it does
            return _UNKNOWN_PLACES
        share = min(1.0, _KEPT_US / (flow.stop_us - flow.start_us))
        for node in (flow.sender, flow.receiver):
            wanted[node] = wanted.get(node, 0.0) + (flow.connections or 1) * share
    most = int(max(wanted.values(), default=0.0))
    places = 1 << (most - 1).bit_length()
    return min(_MOST_PLACES, max(_LEAST_PLACES, places, min(4 * places, _ROOMY_PLACES)))


def memory_without_pressure_mb(in_sockets_mb: float) -> float:
    """Memory with which TCP does not begin to save when so much waits in sockets; of a machine of its own."""
    usual_mb = _TCP_MEMORY[0] * _USUAL_MB
    return _USUAL_MB + (in_sockets_mb - usual_mb) / _TCP_BEYOND if in_sockets_mb > usual_mb else _USUAL_MB


def _tcp_memory(own_machine: bool) -> str:
    """net.ipv4.tcp_mem in pages. By default less than a tenth of the memory, which an overloaded network's senders
    fill."""
    pages, usual = os.sysconf("SC_PHYS_PAGES"), (_USUAL_MB << 20) // os.sysconf("SC_PAGE_SIZE")
    beyond = max(0, pages - usual) if own_machine else 0
    return " ".join(str(int(share * (pages - beyond) + _TCP_BEYOND * beyond)) for share in _TCP_MEMORY)


def machine_sysctls(network: Network, places: int = 0, own_machine: bool = False) -> Settings:
    """Settings of the whole kernel, or of what nodes' namespaces are made from.

    places: connection_places(), 0 for a common table; own_machine: nobody else needs its memory.
    """
    # since Linux 6.1
    own_table = {CONNECTION_PLACES: places} if places and os.path.exists(sysctl_path(CONNECTION_PLACES)) else {}
    buffer_bytes = socket_buffer_bytes(network)
    return {
        **own_table,
        "net.core.rmem_max": buffer_bytes,
        "net.core.wmem_max": buffer_bytes,
        "net.core.netdev_max_backlog": 100000,
        # over this many closing connections the kernel would reset them
        "net.ipv4.tcp_max_orphans": 262144,
        "net.ipv4.tcp_mem": _tcp_memory(own_machine),
    }


def node_sysctls(network: Network, hosts: Hosts, variants: Sequence[Variant],
                 flows: Sequence[Flow]) -> dict[str, Settings]:
    """{node: {sysctl: value}}: the settings of every node's namespace.

    hosts: the scenario's section of that name.
    FieldError if flows that want different settings share a host.
    """
    settings, buffer_bytes = {}, socket_buffer_bytes(network)
    shared = _hosts_of_several_components(flows)
    thresholds = {node.name for node in network.nodes if node.initial_ssthresh is not None}
    names = [node.name for node in network.nodes]
    defaults = host_defaults(names, flows, variants)
    for node, used in host_variants(names, flows, variants).items():
        first, *others = (_host_sysctls(buffer_bytes, variant, hosts) for variant in used)
        for variant, other in zip(used[1:], others):
            for key in first.keys() | other.keys():
                if first.get(key) != other.get(key):
                    raise FieldError("cca", f"{used[0].name} and {variant.name} want different {key}, but have "
                                            f"flows on the same host {node}: use paths between different hosts")
        first[_DEFAULT_CCA] = defaults[node]
        if node in shared:
            # ports that the kernel chooses must not be those that a Tmix source is about to use
            first["net.ipv4.ip_local_port_range"] = f"{sum(SOURCE_PORTS)} 65535"
        if node in thresholds:
            # by default connections do not look at the threshold of their route
            first["net.ipv4.tcp_no_ssthresh_metrics_save"] = 0
        settings[node] = first
    return settings


def _hosts_of_several_components(flows: Iterable[Flow]) -> set[str]:
    """Hosts that send connections of a flow of many, and something of another component."""
    components: dict[str, set[str]] = {}
    many = set()
    for flow in flows:
        for end in (flow.sender, flow.receiver):
            components.setdefault(end, set()).add(flow.component)
        if flow.source is not None:
            many.add(flow.sender)
    return {node for node in many if len(components[node]) > 1}


def _host_sysctls(buffer_bytes: int, variant: Variant, hosts: Hosts) -> Settings:
    settings: Settings = {
        # one connection must not inherit ssthresh or RTT from an earlier one
        "net.ipv4.tcp_no_metrics_save": 1,
        "net.ipv4.tcp_slow_start_after_idle": int(hosts.slow_start_after_idle),
        "net.ipv4.tcp_autocorking": 0,
        # 1 MiB up to 6.12, 4 MiB later: pinned, since TCP small queues shape bursts
        "net.ipv4.tcp_limit_output_bytes": 1048576,
        "net.ipv4.tcp_rmem": f"4096 131072 {buffer_bytes}",
        "net.ipv4.tcp_wmem": f"4096 65536 {buffer_bytes}",
        "net.ipv4.tcp_ecn": int(hosts.ecn),
        "net.ipv4.tcp_sack": int(hosts.sack),
        "net.ipv4.tcp_timestamps": 1,
        # a burst of arrivals is traffic here, not an attack
        "net.ipv4.tcp_syncookies": 0,
        "net.ipv4.tcp_max_syn_backlog": 65535,
        # by default half as many as there are places in the kernel's table of connections
        "net.ipv4.tcp_max_tw_buckets": _TIME_WAITS,
        "net.core.somaxconn": 65535,
        "net.ipv4.ip_local_port_range": "1024 65535",
        "net.ipv4.icmp_ratelimit": 0,
    }
    settings.update(hosts.sysctls)
    # last: they are what makes the variant what its name says
    settings.update(variant.sysctls)
    return settings
