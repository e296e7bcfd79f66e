# SPDX-License-Identifier: GPL-2.0-only
"""Kernel settings of a run: what is pinned so that the congestion control is what differs."""

def socket_buffer_bytes(description):
    """Largest socket buffer: 4 x (bandwidth-delay product + buffers) of the widest path, at least 4 MB.

    Anything smaller would make flows limited by their windows rather than by their
    congestion control; those that still are get flagged by the fidelity checks.
    """
    bottlenecks = {link["name"]: link for link in description["links"] if link["bottleneck"]}
    rate_bps = max((link["rate_bps"] for link in bottlenecks.values()), default=0)
    rtt_us = max((path["base_rtt_us"] for path in description["paths"]), default=0)
    queue_bytes = max((sum(bottlenecks[name]["capacity_bytes"] for name in hops if name in bottlenecks)
                       for path in description["paths"] for hops in (path["hops"], path["hops_back"])), default=0)
    return max(4 << 20, 4 * int(rate_bps / 8e6 * rtt_us + queue_bytes))


def machine_sysctls(description):
    """Settings that exist once per kernel, not per namespace."""
    return {
        "net.core.rmem_max": socket_buffer_bytes(description),
        "net.core.wmem_max": socket_buffer_bytes(description),
        "net.core.netdev_max_backlog": 100000,
        # over this many closing connections the kernel would reset them
        "net.ipv4.tcp_max_orphans": 262144,
    }


def node_sysctls(description, hosts, variants, flows=None):
    """{node: {sysctl: value}}: the settings of every node's namespace.

    hosts: the scenario's section of that name; variants: records of testbed/ccas.py. If
    there are several, `flows` (as in workload.json) says which hosts use which: flow k
    uses the k-th in turn. ValueError if flows that want different settings share a host.
    """
    used = {node["name"]: {0} for node in description["nodes"]}
    if len(variants) > 1:
        ends = [(flow[end], (flow["flow"] - 1) % len(variants)) for flow in flows for end in ("sender", "receiver")]
        for name in {name for name, _ in ends}:
            used[name] = {number for end, number in ends if end == name}
    settings = {}
    for name, numbers in used.items():
        first, *others = (_host_sysctls(description, variants[n], hosts) for n in sorted(numbers))
        for number, other in zip(sorted(numbers)[1:], others):
            for key in first.keys() | other.keys():
                if key != "net.ipv4.tcp_congestion_control" and first.get(key) != other.get(key):
                    raise ValueError(f"{variants[min(numbers)]['name']} and {variants[number]['name']} want different {key}, "
                                     f"but have flows on the same host {name}: use paths between different hosts")
        settings[name] = first
    return settings


def _host_sysctls(description, variant, hosts):
    buffer_bytes = socket_buffer_bytes(description)
    settings = {
        "net.ipv4.tcp_congestion_control": variant["kernel_cca"],
        # one connection must not inherit ssthresh or RTT from an earlier one
        "net.ipv4.tcp_no_metrics_save": 1,
        "net.ipv4.tcp_slow_start_after_idle": 0,
        "net.ipv4.tcp_autocorking": 0,
        # 1 MiB up to 6.12, 4 MiB later: pinned, since TCP small queues shape bursts
        "net.ipv4.tcp_limit_output_bytes": 1048576,
        "net.ipv4.tcp_rmem": f"4096 131072 {buffer_bytes}",
        "net.ipv4.tcp_wmem": f"4096 65536 {buffer_bytes}",
        "net.ipv4.tcp_ecn": int(hosts["ecn"]),
        "net.ipv4.tcp_sack": int(hosts["sack"]),
        "net.ipv4.tcp_timestamps": 1,
        # a burst of arrivals is traffic here, not an attack
        "net.ipv4.tcp_syncookies": 0,
        "net.ipv4.tcp_max_syn_backlog": 65535,
        "net.core.somaxconn": 65535,
        "net.ipv4.ip_local_port_range": "1024 65535",
        "net.ipv4.icmp_ratelimit": 0,
    }
    settings.update(hosts["sysctls"])
    # last: they are what makes the variant what its name says
    settings.update(variant["sysctls"])
    return settings
