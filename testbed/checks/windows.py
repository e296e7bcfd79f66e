# SPDX-License-Identifier: GPL-2.0-only
"""Flows limited by the receive window, the send buffer or their application tell nothing of congestion control; nor do
windows of no segment, and those that no flow could ever fill."""
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._flows import OF_WINDOWS, RESTING
from testbed.checks._measured import inside, interval_us
from testbed.checks._sockets import ends_of
from testbed.core import grouping, replayed
from traffic.workload.records import Flow

#: of the time in which a flow has something to send (buffers), or of the samples (application)
_SHARE = 0.05
_SOCKET = ["node", "src", "sport", "dst", "dport"]
_TIMES = ["busy_us", "rwnd_limited_us", "sndbuf_limited_us"]
#: Connections of a source that are judged by themselves: those with so many bytes acknowledged, or sampled for so long.
#: A few of them wait for a receive buffer that is just growing; more than these and than the share have other reasons.
_LONG_BYTES, _LONG_US = 1_000_000, 5_000_000
_FEW = 2
_LIMITS = (("rwnd_limited_us", "the receive window"), ("sndbuf_limited_us", "the send buffer"))
#: what a program sends before its data (iperf3's cookie) marks the first windows: they do not count
_FIRST_BYTES = 128 << 10
_LEAST_SAMPLES = 20
_MOST_NAMED = 5
#: BBR, and perhaps modules, let the pipe run empty for so long every ten seconds, with a round trip before it and after
#: it (bbr_probe_rtt_mode_ms, bbr_min_rtt_win_sec), and say that there is nothing to send until the next one has passed
_PROBE_EVERY_US, _PROBE_US, _PROBE_ROUND_TRIPS = 10_000_000, 200_000, 3
_CONNECTED = ("ESTAB", "FIN-WAIT-1", "CLOSE-WAIT", "LAST-ACK", "CLOSING")
#: what the kernel counts for a segment beside its payload, at least (struct sk_buff, skb_shared_info)
_OVERHEAD_BYTES = 552


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = [flow for flow in evidence.flows if flow.transport == "tcp"]
    samples = evidence.table("tcp_info", usecols=lambda name: name in {
        "t_us", *_SOCKET, *_TIMES, "app_limited", "bytes_acked", "delivered", "unacked", "srtt_us",
        "state", "cwnd", "mss"}) if flows else None
    if samples is None:
        return
    if evidence.can("kernel"):
        yield from _beyond_reason(samples, evidence)
    if not evidence.can("kernel") and samples["busy_us"].isna().all():
        yield Finding(NOT_APPLICABLE, "the engine does not tell what limited the flows")
        return
    from_us, _ = interval_us(evidence)
    last = _grown(samples, from_us)
    if not last["busy_us"].sum():
        yield Finding("suspect", "no sampled flow was busy: what limited the flows is not known")
        return
    sender, receiver = ends_of(last, flows)
    last = last.assign(flow=sender + receiver)
    # whose receive windows are part of the traffic, and who says so
    given = {component.name: "their vectors have" if component.windows == "vector" else "the scenario has"
             for component in evidence.workload.components
             if component.windows == "vector" or component.window}
    thinking = {name for name, what in replayed.names(evidence.workload.components).items()
                if what.clients is not None}
    for component in dict.fromkeys(flow.component for flow in flows):
        mine = [flow for flow in flows if flow.component == component]
        own = last[last["flow"].isin([flow.flow for flow in mine])]
        if not own["busy_us"].sum() and component in thinking:
            yield Finding(NOT_APPLICABLE, f"{component}: its clients were thinking whenever they were sampled")
            continue
        # seen before that, and with something to end with
        if len(own) and own["until_us"].max() <= from_us and all(
                flow.bytes is not None or flow.stop_us <= from_us for flow in mine):
            yield Finding(NOT_APPLICABLE, f"{component}: its flows had ended when measuring began")
            continue
        if not own["busy_us"].sum():
            yield Finding("suspect", f"no sampled flow of {component} was busy: what limited its flows is not known")
            continue
        yield from _buffers(component, own, given.get(component, ""))
        if any(flow.source is not None for flow in mine):
            yield from _long_connections(component, own, component in given)
        yield from _applications(component, mine, samples, evidence)


def _grown(samples: pd.DataFrame, from_us: int) -> pd.DataFrame:
    """By how much the times of each socket have grown since its last sample before the measurement interval."""
    of = grouping.numbered([_lives(samples)])
    order = np.argsort(of, kind="stable")
    begins = np.flatnonzero(np.diff(of[order], prepend=-1))
    t_us = samples["t_us"].to_numpy()[order]
    since_us, until_us = (extreme.reduceat(t_us, begins) for extreme in (np.fmin, np.fmax))
    grown = {"sampled_us": np.clip(until_us - np.maximum(since_us, from_us), 0, None), "until_us": until_us}
    for name in (*_TIMES, "bytes_acked"):
        values = samples[name].to_numpy(float)[order]
        before = np.fmax.reduceat(np.where(t_us <= from_us, values, 0), begins)
        grown[name] = np.clip(np.fmax.reduceat(values, begins) - np.nan_to_num(before), 0, None)
    return samples[_SOCKET].take(grouping.first_rows(of)).assign(**grown)


def _beyond_reason(samples: pd.DataFrame, evidence: Evidence) -> Iterator[Finding]:
    """Windows of 0, with which nothing is sent but by timeouts, and windows above twice what can be in flight.

    Nothing is in flight that is not in the send buffer, which a program may double (SO_SNDBUF; socket(7)), and which
    counts a segment with no less than its overhead, or of a packet of many segments with their payload. The kernel lets
    windows grow while they are filled, in slow start while they are filled by half (tcp_is_cwnd_limited).
    """
    checks = evidence.measured
    machine_bytes = int(checks.machine_sysctls.get("net.core.wmem_max", 0))
    buffers = {node: max(2 * machine_bytes, int(values.get("net.ipv4.tcp_wmem", "0").split()[-1]))
               for node, values in checks.sysctls.items()}
    connected = samples[samples["state"].isin(_CONNECTED)]
    most = 2 * connected["node"].map(buffers) / np.minimum(connected["mss"], _OVERHEAD_BYTES).clip(lower=1)
    for wrong, what in ((connected[connected["cwnd"] == 0], "a congestion window of 0"),
                        (connected[connected["cwnd"] > most], "a congestion window above what can ever be in flight")):
        if len(wrong):
            first = wrong.iloc[0]
            yield Finding("suspect", f"{len(wrong)} of {len(connected)} samples of connected sockets have {what}, such "
                                     f"as {first['cwnd']:.0f} segments of {first['src']}:{first['sport']} at "
                                     f"{first['t_us'] / 1e6:.2f} s")


def _lives(samples: pd.DataFrame) -> np.ndarray:
    """A number of each sample's socket: another one where its counters begin again, for then a new socket has the
    addresses and ports of an old one. What one socket counts never falls, and it is limited only while it is busy."""
    socket = grouping.numbered(samples[name] for name in _SOCKET)
    order = np.lexsort((samples["t_us"].to_numpy(), socket))
    steps = {name: np.diff(samples[name].to_numpy(float)[order], prepend=0) for name in (*_TIMES, "bytes_acked")}
    fresh = np.diff(socket[order], prepend=-1) != 0
    for step in steps.values():
        fresh |= step < 0
    for limit, _ in _LIMITS:
        fresh |= steps[limit] > steps["busy_us"]
    found = np.empty(len(samples), int)
    found[order] = np.cumsum(fresh)
    return found


def _buffers(component: str, last: pd.DataFrame, given: str) -> Iterator[Finding]:
    """Each flow by itself; of a source all its sampled connections together. given: whose their receive windows are."""
    most = f"more than {_SHARE:.0%} of their busy time"
    times = last.groupby("flow")[_TIMES].sum()
    times = times[times["busy_us"] > 0]
    for column, what in _LIMITS:
        shares = times[column] / times["busy_us"]
        over = shares[shares > _SHARE].sort_values(ascending=False)
        total = times[column].sum() / times["busy_us"].sum()
        if given and column == "rwnd_limited_us":
            yield Finding("ok", f"{len(times)} flows of {component} were limited by {what} for {total:.2%} of their "
                                f"busy time, as {given} it")
        elif over.empty:
            yield Finding("ok", f"{len(times)} flows of {component} were limited by {what} for {total:.2%} of their "
                                f"busy time, none for more than {shares.max():.2%}")
        else:
            yield Finding("suspect", f"{len(over)} of {len(times)} flows of {component} were limited by {what} for "
                                     f"{most}: {_named(over, 'for')}")


def _long_connections(component: str, last: pd.DataFrame, windows_given: bool) -> Iterator[Finding]:
    """Long connections of a source, each by itself."""
    long = last[((last["bytes_acked"] > _LONG_BYTES) | (last["sampled_us"] > _LONG_US)) & (last["busy_us"] > 0)]
    for column, what in _LIMITS:
        if len(long) and not (windows_given and column == "rwnd_limited_us"):
            shares = long[column] / long["busy_us"]
            over = int((shares > _SHARE).sum())
            worst = long.loc[shares.idxmax()]
            yield Finding("suspect" if over > max(_FEW, _SHARE * len(long)) else "ok",
                          f"{over} of {len(long)} long connections of {component} were limited by {what} for more than "
                          f"{_SHARE:.0%} of their busy time, {worst['src']}:{worst['sport']} to {worst['dst']}:"
                          f"{worst['dport']} for {shares.max():.2%}")


def _applications(component: str, flows: Sequence[Flow], samples: pd.DataFrame, evidence: Evidence) \
        -> Iterator[Finding]:
    """Flows that are there to send all they can, all the time, must never have had nothing to send.

    `app_limited` is of the last packet that was delivered: while others are in flight and none of them is delivered,
    samples only repeat it. BBR says so of what it sends while it probes for the shortest round trip.
    """
    greedy = [flow for flow in flows if flow.bytes is None and flow.rate_bps is None and flow.source is None
              and flow.kind not in RESTING]
    if not greedy or "app_limited" not in samples:
        return
    sender, _ = ends_of(samples, greedy)
    mine = samples.assign(flow=sender)[sender > 0]
    repeated = (mine.groupby(_SOCKET)["delivered"].diff() == 0) & (mine["unacked"] > 0)
    mine = inside(mine.assign(app_limited=mine["app_limited"].where(~repeated, 0)), evidence)
    stop_us = mine["flow"].map({flow.flow: flow.stop_us for flow in greedy})
    of_flow = mine[(mine["bytes_acked"] >= _FIRST_BYTES) & (mine["t_us"] < stop_us)].groupby("flow")
    shares = of_flow["app_limited"].mean()[of_flow.size() >= _LEAST_SAMPLES]
    probing = pd.Series({flow.flow: flow.cca not in OF_WINDOWS for flow in greedy})
    span_us = of_flow["t_us"].agg(np.ptp)
    probes_us = np.ceil(span_us / _PROBE_EVERY_US) * (_PROBE_US + _PROBE_ROUND_TRIPS * of_flow["srtt_us"].max())
    most = _SHARE + (probes_us / span_us * probing).reindex(shares.index).fillna(0)
    over = shares[shares > most].sort_values(ascending=False)
    if len(over):
        yield Finding("suspect", f"{len(over)} of {len(greedy)} flows of {component} had nothing to send in more than "
                                 f"{_SHARE:.0%} of their samples: {_named(over, 'in')}")
    elif len(shares):
        yield Finding("ok", f"{len(shares)} flows of {component} had something to send in all but "
                            f"{shares.max():.1%} of the samples of each")


def _named(shares: pd.Series, preposition: str) -> str:
    return ", ".join(f"flow {flow} {preposition} {share:.2%}" for flow, share in shares.iloc[:_MOST_NAMED].items()) \
        + " ..." * (len(shares) > _MOST_NAMED)
