# SPDX-License-Identifier: GPL-2.0-only
"""What a QUIC sender's qlog says is what the wire shows.

The wire is the sender's own link, sampled. Over the measurement interval these must agree: packets sent; bytes in
flight with what left the host in the last round trip; the window, which bounds that; and round trips, which take the
base RTT at least and at most what the queues on the way add.
"""
from collections.abc import Iterator, Mapping

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._measured import Columns, inside
from traffic.workload.records import Flow

#: Ethernet, IPv4 or IPv6, UDP: what a packet of the link has besides QUIC
_HEADERS_BYTES = {4: 14 + 20 + 8, 6: 14 + 40 + 8}
#: packets that hold several QUIC packets, or none of them
_PACKETS_SHARE, _PACKETS = 0.01, 20
#: of the mean in flight: a round trip is the sender's smoothed one, and a sample comes up to 10 ms late
_FLIGHT_SHARE = 0.15
_LARGEST_PACKET_BYTES = 1500
#: how often more may leave than the largest window of a round trip allows: probes after a timeout
_BEYOND_SHARE = 0.1
_LEAST_ROWS = 20
#: acknowledgements may be this late (RFC 9000, 18.2), and a sender that was idle has an older estimate
_ACK_DELAY_US = 25_000
_RTT_SHARE = 0.02


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = [flow for flow in evidence.flows if flow.kind == "quic"]
    if not flows:
        return
    if evidence.clock != "virtual":
        yield Finding(NOT_APPLICABLE, "in real time nobody knows when a program's first event was")
        return
    table = evidence.table("quic_info")
    if table is None:
        yield Finding("suspect", "no record of what the QUIC senders say in their qlog")
        return
    edges = evidence.table("edge_queue")
    good = 0
    for flow in flows:
        rows = {name: column.to_numpy() for name, column in inside(table[table["flow"] == flow.flow], evidence).items()}
        link = flow.hops[0]
        alone = sum(link in (*other.hops, *other.hops_back) for other in evidence.flows) == 1
        carried = None if edges is None or not alone else edges[edges["link"] == link]
        if len(rows["t_us"]) < _LEAST_ROWS:
            yield Finding(NOT_APPLICABLE, f"flow {flow.flow}: fewer than {_LEAST_ROWS} rows of qlog in the measurement "
                                          "interval")
            continue
        problems = list(_round_trips(flow, rows, evidence))
        if carried is None or len(carried) < _LEAST_ROWS:
            yield Finding(NOT_APPLICABLE, f"flow {flow.flow}: nobody counts what its sender alone puts on the wire")
            compared = False
        else:
            compared = True
            wire = {name: column.to_numpy() for name, column in carried.items() if name != "link"}
            problems += _against_wire(rows, wire, _HEADERS_BYTES[evidence.network.ip_version])
        for problem in problems:
            yield Finding("suspect", f"flow {flow.flow}, qlog of its sender: {problem}")
        good += compared and not problems
    if good == len(flows):
        yield Finding("ok", f"what {good} QUIC senders say in their qlog is what the wire shows")


def _round_trips(flow: Flow, rows: Mapping[str, np.ndarray], evidence: Evidence) -> Iterator[str]:
    """Estimates of round trips are between what the idle path takes and what its queues can add."""
    if np.isnan(rows["srtt_us"]).all():
        yield "it never says a smoothed round trip"
        return
    least_us = flow.base_rtt_us * (1 - _RTT_SHARE)
    shortest_us = float(np.nanmin(rows["min_rtt_us"])) if not np.isnan(rows["min_rtt_us"]).all() else least_us
    smoothed_us = float(np.nanmedian(rows["srtt_us"]))
    if min(shortest_us, smoothed_us) < least_us:
        yield (f"a round trip of {min(shortest_us, smoothed_us) / 1e3:.4g} ms, on a path that takes "
               f"{flow.base_rtt_us / 1e3:.4g} ms when it is idle")
    most_us = _longest_us(flow, evidence)
    if most_us is not None and smoothed_us > most_us:
        yield (f"a round trip of {smoothed_us / 1e3:.4g} ms, where path and full queues take at most "
               f"{most_us / 1e3:.4g} ms")


def _longest_us(flow: Flow, evidence: Evidence) -> float | None:
    """The base RTT, the longest waits seen in the bottlenecks, and a late ACK; None where waits are unknown."""
    sojourn = evidence.table("sojourn")
    crossed = [name for name in (*flow.hops, *flow.hops_back) if name in {
        link.name for link in evidence.network.links if link.bottleneck}]
    if sojourn is None or not crossed:
        return None
    waits = sojourn[sojourn["link"].isin(crossed)].groupby("link")["max_us"].max().sum()
    return (flow.base_rtt_us + float(waits)) * (1 + _RTT_SHARE) + _ACK_DELAY_US


def _against_wire(rows: Mapping[str, np.ndarray], wire: Columns, headers_bytes: int) -> Iterator[str]:
    """Packets sent, bytes in flight, and the window."""
    t_us = rows["t_us"].astype(float)

    def count(column: str, at_us: np.ndarray) -> np.ndarray:
        return np.interp(at_us, wire["t_us"], wire[column])

    packets = float(np.diff(count("sent_packets", t_us[[0, -1]]))[0])
    said = float(rows["sent_packets"][-1] - rows["sent_packets"][0])
    if abs(packets - said) > _PACKETS_SHARE * packets + _PACKETS:
        yield f"{said:.0f} packets sent, {packets:.0f} on the wire"
    payload = wire["sent_bytes"] - headers_bytes * wire["sent_packets"]
    known = ~np.isnan(rows["srtt_us"]) & ~np.isnan(rows["in_flight_bytes"]) & ~np.isnan(rows["cwnd_bytes"])
    if known.sum() < _LEAST_ROWS:
        yield "it does not say window, bytes in flight and round trip"
        return
    of = {name: column[known] for name, column in rows.items() if name != "state"}
    rtt_us = np.where(np.isnan(of["latest_rtt_us"]), of["srtt_us"], of["latest_rtt_us"])
    left = np.interp(t_us[known], wire["t_us"], payload) - np.interp(t_us[known] - rtt_us, wire["t_us"], payload)
    room_bytes = _FLIGHT_SHARE * float(left.mean()) + 2 * _LARGEST_PACKET_BYTES
    flight = float(of["in_flight_bytes"].mean())
    if abs(flight - float(left.mean())) > room_bytes:
        yield (f"{flight / 1e3:.1f} kB in flight on average, {left.mean() / 1e3:.1f} kB left the host in a round trip")
    # what has left was allowed by the window of its time
    since = np.searchsorted(t_us[known], t_us[known] - rtt_us)
    allowed = np.array([of["cwnd_bytes"][begin:row + 1].max() for row, begin in enumerate(since)])
    beyond = left > allowed * (1 + _FLIGHT_SHARE) + 2 * _LARGEST_PACKET_BYTES
    if beyond.mean() > _BEYOND_SHARE:
        row = int(np.argmax(beyond))
        yield (f"in {beyond.sum()} of {len(beyond)} rows more leaves the host in a round trip than its window allows, "
               f"such as {left[row] / 1e3:.1f} of {allowed[row] / 1e3:.1f} kB at {t_us[known][row] / 1e6:g} s")
