# SPDX-License-Identifier: GPL-2.0-only
"""tcp_info was sampled when it was due, with every socket that was there, and with none that had gone.

When a connection is alive is known from the programs' own records, of which the kernel's dump of its sockets knows
nothing.
"""
import collections
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from testbed.checks import Evidence, Finding
from testbed.checks._sockets import ends_of
from topologies.links import varying, wires
from topologies.wireless import airways
from traffic.workload.records import Flow

NEEDS = ("kernel",)

#: how far the programs' clock may be from the dump's, in us
_EXACT_US = {"virtual": 1000, "real": 100_000}
#: a flow is connected by then, though a SYN is lost twice (timeouts of 1 and 2 s); where links on its way lose more
#: packets at random than a share, though up to four are, of iperf3's control and data connections together
_CONNECTING_US, _CONNECTING_LOSSY_US, _LOSSY = 4_000_000, 16_000_000, 0.001
#: ... and the round trips of the handshakes: iperf3's control connection, two exchanges over it, then the flow's own
_ROUND_TRIPS = 4
#: of the interval: a sample may be so much before the time at which it was due
_EARLY = 0.1
_CONNECTED = ("ESTAB", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT", "LAST-ACK", "CLOSING")
_COLUMNS = ["t_us", "node", "sport", "dst", "dport", "state"]

#: (nodes, ports, ports of the other end) -> a number for each socket
_Numbering = Callable[[pd.Series, pd.Series, pd.Series], np.ndarray]


def check(evidence: Evidence) -> Iterator[Finding]:
    interval_us = evidence.scenario.probe("tcp_info").interval_us or 0
    samples = evidence.table("tcp_info", usecols=_COLUMNS) if interval_us else None
    if samples is None or samples.empty or not any(flow.transport == "tcp" for flow in evidence.flows):
        return                                  # of a table that is missing, or of nothing in it, other checks complain
    samples = samples.assign(due=((samples["t_us"] + _EARLY * interval_us) // interval_us).astype("int64"))
    connections = evidence.table("connections", low_memory=False)
    problems: list[str] = []
    seen = 0
    if connections is not None and len(connections):
        number = _numbering(samples, connections)
        samples = samples.assign(socket=number(samples["node"], samples["sport"], samples["dport"]))
        alive = _lives(evidence, connections)
        alive = alive.assign(socket=number(alive["node"], alive["sport"], alive["dport"]))
        missing, seen = _missing(samples, alive, interval_us, _EXACT_US[evidence.clock], evidence)
        problems += missing
        problems += _gone(samples, connections, number, _EXACT_US[evidence.clock])
    long = [flow for flow in evidence.flows if flow.transport == "tcp" and flow.source is None
            and flow.bytes is None]
    problems += _flows(samples, long, interval_us, evidence)
    problems += _often(long, evidence)
    for problem in problems:
        yield Finding("suspect", problem)
    if not problems:
        yield Finding("ok", f"tcp_info has {len(samples)} samples: all {seen} of ends of connections that were alive "
                            f"when they were due, and {len(long)} flows from their beginning to their end")


def _numbering(samples: pd.DataFrame, connections: pd.DataFrame) -> _Numbering:
    """number(nodes, ports, ports of the other end): what stands for each of these sockets, -1 if it has no port."""
    nodes = pd.Index(pd.concat([samples["node"], connections["initiator"], connections["acceptor"]]).unique())

    def number(node: pd.Series, sport: pd.Series, dport: pd.Series) -> np.ndarray:
        found = nodes.get_indexer(node) * 2.0**32 + sport.to_numpy() * 2.0**16 + dport.to_numpy()
        return np.where(np.isnan(found), -1, found).astype(np.int64)
    return number


def _lives(evidence: Evidence, connections: pd.DataFrame) -> pd.DataFrame:
    """Ends of connections, those that began them first and then the others in the same order: node, sport, dport; that
    the connection is alive from from_us to to_us, and this end of it surely from first_us to last_us.

    An acceptor gets its socket with the third packet, and an end may close before the other does: surely there is who
    sends a data unit, or has got one.
    """
    connections = connections[connections["connected_us"].notna()
                              & connections["status"].isin(["finished", "unfinished"])]
    units = evidence.table("adus", usecols=["source", "conn", "side", "sent_us", "delivered_us"])
    ends = []
    for side, node, sport, dport in (("i", "initiator", "iport", "aport"), ("a", "acceptor", "aport", "iport")):
        mine = pd.DataFrame({"source": connections["source"], "conn": connections["conn"], "node": connections[node],
                             "sport": connections[sport], "dport": connections[dport],
                             "from_us": connections["connected_us"], "to_us": connections["end_us"]})
        if units is None:
            mine = mine.assign(first_us=float("nan"), last_us=float("nan"))
        else:
            busy_us = units["sent_us"].where(units["side"] == side, units["delivered_us"])
            span = busy_us.groupby([units["source"], units["conn"]]).agg(["min", "max"])
            mine = mine.join(span.set_axis(["first_us", "last_us"], axis=1), on=["source", "conn"])
        ends.append(mine)
    return pd.concat(ends, ignore_index=True)


def _missing(samples: pd.DataFrame, ends: pd.DataFrame, interval_us: int, exact_us: int, evidence: Evidence) \
        -> tuple[list[str], int]:
    """(what is wrong, samples of ends that were due and are there)"""
    duration_us = evidence.timing.duration_us
    # a connection that is unfinished is alive in the last sample, too
    to_us = ends["to_us"].fillna(duration_us + exact_us + 1).to_numpy()
    first = np.floor((ends["from_us"].to_numpy() + exact_us) / interval_us).astype("int64") + 1
    last = np.minimum(np.ceil((to_us - exact_us) / interval_us).astype("int64") - 1, duration_us // interval_us)
    count = np.maximum(last - first + 1, 0)
    row = np.repeat(np.arange(len(ends)), count)
    due = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    # on a wall clock a dump is late, and what was there when it was due may have gone
    taken_us = samples.groupby("due")["t_us"].first()
    at_us = taken_us.reindex(due).to_numpy()
    at_us = np.where(np.isnan(at_us), due * interval_us, at_us)
    wanted = at_us < to_us[row] - exact_us
    row, due, at_us = row[wanted], due[wanted], at_us[wanted]
    dues = max(duration_us // interval_us, samples["due"].max()) + 1
    sockets = pd.Index(samples["socket"].unique())
    connected = samples[samples["state"].isin(_CONNECTED)]
    there = np.unique(sockets.get_indexer(connected["socket"]) * dues + connected["due"].to_numpy())
    known = sockets.get_indexer(ends["socket"])[row]
    found = (known >= 0) & np.isin(known * dues + due, there)
    # of an end without data units nothing is known: NaN is neither more nor less
    first_us, last_us = (ends[name].to_numpy(float)[row] for name in ("first_us", "last_us"))
    with np.errstate(invalid="ignore"):
        both = (at_us > first_us + exact_us) & (at_us < last_us - exact_us)
    of_connection = row % (len(ends) // 2) * dues + due
    either = np.isin(of_connection, of_connection[found])
    lacking = np.flatnonzero(~found & both | ~either)
    if not len(lacking):
        return [], int(found.sum())
    one = ends.iloc[row[lacking[0]]]
    return [f"{len(lacking)} of {len(row)} samples of ends of connections that were alive are not in tcp_info, such "
            f"as {one['node']}:{one['sport']:.0f} of connection {one['conn']} of source {one['source']} at "
            f"{at_us[lacking[0]] / 1e6:g} s"], int(found.sum())


def _gone(samples: pd.DataFrame, connections: pd.DataFrame, number: _Numbering, exact_us: int) -> Iterator[str]:
    """Established sockets of connections that had ended: the latest that began from that port.

    Of one that failed, one end may live on: a kernel that gives up after its last retransmission tells nobody, and who
    waits for data has nothing to send.
    """
    established = samples.loc[samples["state"] == "ESTAB", ["t_us", "socket"]].sort_values("t_us", kind="stable")
    last_us = established.groupby("socket")["t_us"].max()
    for node, other, sport, dport in (("initiator", "acceptor", "iport", "aport"),
                                      ("acceptor", "initiator", "aport", "iport")):
        names = [node, other, sport, dport, "source", "conn", "start_us"]
        latest = connections.loc[connections[names].notna().all(axis=1), [*names, "end_us", "status"]]
        latest = latest.astype({"start_us": "int64"}).sort_values("start_us", kind="stable").reset_index(drop=True)
        latest["socket"] = number(latest[node], latest[sport], latest[dport])
        of = pd.merge_asof(established, latest[["start_us", "socket"]].assign(row=latest.index), left_on="t_us",
                           right_on="start_us", by="socket")
        of = of[of["row"].notna()]
        rows = latest.iloc[of["row"].astype("int64")].reset_index(drop=True).assign(t_us=of["t_us"].to_numpy())
        gone = rows[(rows["status"] != "unfinished") & (rows["t_us"] > rows["end_us"] + exact_us)]
        seen_us = last_us.reindex(number(gone[other], gone[dport], gone[sport])).fillna(-1).to_numpy()
        alone = gone["status"].str.startswith("failed").to_numpy(bool) & (seen_us <= gone["end_us"] + exact_us)
        gone = gone[~alone]
        if len(gone):
            one = gone.iloc[0]
            yield (f"{len(gone)} samples of tcp_info are of established connections that had ended, such as "
                   f"{one[node]}:{one[sport]:.0f} of connection {one['conn']:.0f} of source {one['source']:.0f} at "
                   f"{one['t_us'] / 1e6:g} s")


def _often(flows: Sequence[Flow], evidence: Evidence) -> Iterator[str]:
    """Of the hosts that are sampled more often, both ends of flows."""
    settings = evidence.scenario.probe("tcp_info_often")
    interval_us = settings.interval_us
    samples = evidence.table("tcp_info_often", usecols=_COLUMNS) if interval_us else None
    if interval_us is None or samples is None:
        return
    samples = samples.assign(due=((samples["t_us"] + _EARLY * interval_us) // interval_us).astype("int64"))
    for end in ("sender", "receiver"):
        mine = [flow for flow in flows if (flow.sender if end == "sender" else flow.receiver) in settings.hosts]
        yield from _flows(samples, mine, interval_us, evidence, end, "tcp_info_often")


def _flows(samples: pd.DataFrame, flows: Sequence[Flow], interval_us: int, evidence: Evidence, end: str = "sender",
           table: str = "tcp_info") -> Iterator[str]:
    """The senders (or receivers) of flows that last until they are stopped: no gap between the first sample and the
    end."""
    if not flows:
        return
    connected = samples[samples["state"].isin(_CONNECTED)]
    of = ends_of(connected, flows)[end == "receiver"]
    duration_us = evidence.timing.duration_us
    begun = _before_connected(samples, flows)
    lossy = {link.name for link in evidence.network.links if wires.lost_share(link) > _LOSSY}
    # a full queue of a bottleneck is part of a round trip
    longest_us = {link.name: varying.most(link, "delay_us") + link.bottleneck * link.capacity_us
                  for link in evidence.network.links}
    lacking, unconnected = [], []
    for flow in flows:
        own = set(connected["due"][of == flow.flow])
        first_own = min(own, default=math.inf)
        seen = sorted(own | {due for due in begun.get(flow.flow, ()) if due < first_own})
        stop_us = min(flow.stop_us, duration_us + 1)
        last_due = (stop_us - 1 - _EXACT_US[evidence.clock]) // interval_us
        # of a flow that was never sampled nothing says that it was slow to connect
        slow = seen and lossy.intersection([*flow.hops, *flow.hops_back])
        connecting_us = (_CONNECTING_LOSSY_US if slow else _CONNECTING_US) \
            + _ROUND_TRIPS * sum(longest_us[name] for name in (*flow.hops, *flow.hops_back))
        first_due = (flow.start_us + connecting_us) // interval_us + 1
        first = min([first_due, *seen])
        due = range(max(first, 0), last_due + 1)            # never as a set: a damaged file may say any start
        missing = len(due) - sum(one in due for one in set(seen))
        # over the air the check `connected` tells of those that try until the end
        if not own and flow.flow in begun and last_due >= first_due and (
                missing or not airways.senders(evidence.network, flow)):
            unconnected.append((flow.flow, max(begun[flow.flow]) * interval_us / 1e6))
        elif missing:
            lacking.append((flow.flow, missing))
    if unconnected:
        yield (f"{len(unconnected)} of {len(flows)} flows were not connected within the run, as far as {table} tells, "
               f"such as flow {unconnected[0][0]}, whose sender tried until {unconnected[0][1]:g} s")
    if lacking:
        yield (f"{table} lacks samples of the {end}s of {len(lacking)} of {len(flows)} flows, such as "
               f"{lacking[0][1]} of flow {lacking[0][0]}")


def _before_connected(samples: pd.DataFrame, flows: Sequence[Flow]) -> dict[int, set[int]]:
    """{flow: when sockets of its sender were sampled that go where it goes}: those that ask to be connected, however
    often they are lost, and iperf3's control connection, which comes before the flow's own. Where only one flow goes to
    a port, whichever port they go from."""
    ends = collections.Counter((flow.sender, flow.dst, flow.dport) for flow in flows)
    sender, _ = ends_of(samples, [flow.changed(sport=None) if ends[flow.sender, flow.dst, flow.dport] == 1
                                  else flow for flow in flows])
    return {int(flow): set(due) for flow, due in samples["due"].groupby(sender) if flow}
