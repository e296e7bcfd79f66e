# SPDX-License-Identifier: GPL-2.0-only
"""Offered load against its target, its steadiness, and what the bottlenecks carried of it, in both directions."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.core import replayed, steadiness
from topologies.links import varying
from topologies.links.records import Link
from traffic.workload.records import Component, Flow

if TYPE_CHECKING:
    import pandas as pd

_TARGET, _CARRIED = 0.05, 0.10
#: of its rate: what a link carries at least that is offered as much as it can carry, or more
_OVERLOADED = 0.85


def check(evidence: Evidence) -> Iterator[Finding]:
    """Components whose account has `target_links`, `target_load`, `offered_bps` and `thirds_bps` of links.

    `counted_bps`: the load where it is counted with other headers than those of layer 2. Where chance has a part in
    a figure, its standard deviation is beside it (`load_chance`, `thirds_chance`).
    """
    workload = evidence.workload
    loaded = [component for component in workload.components if component.has("offered_bps")]
    planned = {flow.component for flow in workload.flows if flow.source is not None}
    # connections that are alone on the network, and clients that wait for answers, offer no load that is meant
    other = {name for name, what in replayed.names(workload.components).items() if not what.offers_load}
    silent = planned - {component.name for component in loaded} - other
    if silent:
        yield Finding("suspect", f"{', '.join(sorted(silent))}: no record of the load that was offered")
    if not loaded:
        return
    links = {link.name: link for link in evidence.network.links}
    for component in loaded:
        yield from _offered(component, links, f"{component.name}: " if len(loaded) > 1 else "")
    queue = evidence.table("queue")
    if queue is None:
        yield Finding("suspect", "the bottleneck was not sampled: carried load unknown")
        return
    targets = {name for component in loaded for name in component.target_links}
    offered = dict.fromkeys(name for component in loaded for name, bps in component.offered_bps.items() if bps)
    for name in dict.fromkeys([*offered, *targets]):
        if links[name].bottleneck:
            samples = queue[queue["link"] == name]
            # of a full frame, and of an acknowledgement, with a time stamp
            frame = _frame_bytes(evidence, name, workload.flows)
            header_bytes = evidence.network.frame_bytes() - evidence.network.segment_bytes()
            again_bps = _again_bps(evidence, name, workload.flows, queue, frame)
            more_bps = 0.0 if name in targets else _acknowledgements_bps(links[name], links, loaded, queue,
                                                                         header_bytes)
            yield _carried(links[name], loaded, workload.flows, samples,
                           _waiting_bytes(evidence, name, workload.flows), more_bps, again_bps,
                           frame / (frame - header_bytes))


def _offered(component: Component, links: Mapping[str, Link], whose: str) -> Iterator[Finding]:
    targets = component.target_links
    if not targets:
        yield Finding("suspect", f"{component.name} offered a load, but no link is named that it was meant for")
        return
    rate_bps = sum(varying.nominal_bps(links[name]) for name in targets)
    counted_bps = component.counted_bps
    offered = sum(counted_bps[name] for name in targets)
    error = offered / (rate_bps * component.target_load) - 1
    each = "" if len(targets) == 1 else " (" + ", ".join(
        f"{name} {counted_bps[name] / varying.nominal_bps(links[name]):.1%}" for name in targets) + ")"
    chance = component.load_chance or 0.0
    searched = "; each seed has the scale at which it is met" if component.load_chance == 0 else ""
    level, unknown = _met(error, chance)
    yield Finding(level, f"{whose}offered load {offered / rate_bps:.2%} of {' + '.join(targets)}, target "
                         f"{component.target_load:.0%} ({error:+.2%}{searched or _by_chance(chance)}){each}"
                         + unknown)
    if component.load_on == "each":
        yield from _each(component, links, counted_bps, whose)
    thirds = [sum(component.thirds_bps[name][third] for name in targets) for third in range(3)]
    difference, chance = steadiness.difference(thirds), component.thirds_chance
    chosen = f"; the arrangement was chosen for it, {component.shuffle_attempts} tried" \
        if component.balance == "thirds" else ""
    steady = difference <= steadiness.accepted(chance)
    unknown = "" if not steady or steadiness.can_be_judged(chance) else (
        f": whether the load is steady cannot be judged, for up to {steadiness.accepted(chance):.0%} can be chance")
    yield Finding("ok" if steady else "suspect",
                  f"{whose}second and last third of the offered load differ by {difference:.1%}{chosen}"
                  f"{_by_chance(chance)}{unknown}")
    if component.reverse_load is not None:
        yield _reverse(component, links, counted_bps, component.reverse_load, whose)


def _each(component: Component, links: Mapping[str, Link], counted_bps: Mapping[str, float], whose: str) \
        -> Iterator[Finding]:
    """Every target by itself, where the scenario says that each is to have the load."""
    for name in component.target_links:
        share = counted_bps[name] / varying.nominal_bps(links[name])
        error = share / component.target_load - 1
        yield Finding("ok" if abs(error) <= _TARGET else "invalid",
                      f"{whose}offered load {share:.2%} of {name} by itself, target {component.target_load:.0%} "
                      f"({error:+.2%})")


def _reverse(component: Component, links: Mapping[str, Link], counted_bps: Mapping[str, float], wanted: float,
             whose: str) -> Finding:
    """What the links against the target are offered, where the scenario says what it is to be."""
    names = component.reverse_links
    share = sum(counted_bps[name] for name in names) / sum(varying.nominal_bps(links[name]) for name in names)
    error = share / wanted - 1
    # nothing is fitted to the measured part unless the scale is; chance is that of the target's load
    chance = component.load_chance or 0.0
    level, unknown = _met(error, chance)
    if chance and level == "invalid":           # what it does in this direction is not known
        level = "suspect"
    return Finding(level, f"{whose}offered load {share:.2%} of {' + '.join(names)}, against the target, "
                          f"{wanted:.0%} wanted ({error:+.2%}){unknown}")


def _met(error: float, chance: float) -> tuple[str, str]:
    """Level of a load that is off by this share of what was wanted, and what there is to say if nobody can tell."""
    if abs(error) <= _TARGET or abs(error) <= steadiness.SIGMAS * chance and steadiness.can_be_judged(chance):
        return "ok", ""
    if abs(error) <= steadiness.SIGMAS * chance:
        return "suspect", ": whether it is what was wanted cannot be judged, for up to " \
                          f"{steadiness.SIGMAS * chance:.0%} can be chance"
    return "invalid", ""


def _by_chance(deviation: float) -> str:
    return f"; by chance alone {deviation:.1%} (standard deviation)" if deviation else ""


def _carried(link: Link, loaded: Sequence[Component], flows: Sequence[Flow], queue: pd.DataFrame,
             waiting_bytes: float, more_bps: float, again_bps: float, packet_for_payload: float) -> Finding:
    """What a link carried, against all that was offered to it; more_bps, again_bps: what may come beside that;
    packet_for_payload: size of a full packet over that of what is in it."""
    name = link.name
    known = {component.name for component in loaded}
    here = [flow for flow in flows if name in [*flow.hops, *flow.hops_back]]
    others = [flow for flow in here if flow.component not in known
              and (name in flow.hops or flow.transport == "tcp")]
    if any(flow.rate_bps is None for flow in others):
        names = sorted({flow.component for flow in others if flow.rate_bps is None})
        return Finding(NOT_APPLICABLE, f"{name} also carries {', '.join(names)}, which take what they can get: "
                                       "carried load not compared")
    offering = [component for component in loaded if component.name in {flow.component for flow in here}]
    if not offering:
        return Finding("suspect", f"{name}: {', '.join(sorted(known))} offered it a load, but no flow of that "
                                  "crosses it: carried load unknown")
    from_us = min(component.measured_us[0] for component in offering)
    to_us = max(component.measured_us[1] for component in offering)
    # each for the part of the time in which it is there
    parts = [(one.offered_bps[name], one.measured_us[0], one.measured_us[1]) for one in offering]
    parts += [(flow.rate_bps, flow.start_us, flow.stop_us) for flow in others if flow.rate_bps is not None]
    offered = sum(bps * max(0, min(to_us, end_us) - max(from_us, begin_us)) / max(to_us - from_us, 1)
                  for bps, begin_us, end_us in parts)
    inside = queue[(queue["t_us"] >= from_us) & (queue["t_us"] <= to_us)]
    if len(inside) < 2 or not offered:
        return Finding("suspect", f"{len(inside)} samples of {name} in the measured part: carried load unknown")
    seconds = (inside["t_us"].iloc[-1] - inside["t_us"].iloc[0]) / 1e6
    carried = (inside["sent_bytes"].iloc[-1] - inside["sent_bytes"].iloc[0]) * 8 / seconds
    # what was asked for and had not arrived at the end cannot have been carried
    waiting = waiting_bytes * packet_for_payload * 8 / seconds
    rate_bps = varying.mean_rate_bps(link, from_us, to_us)
    unit, by = ("Mbit/s", 1e6) if rate_bps >= 1e6 else ("kbit/s", 1e3)
    most = offered * (1 + _CARRIED) + more_bps
    # named where it matters: of most runs it is next to nothing
    needs_again = bool(carried > most and again_bps > 0)
    message = (f"{name} carried {carried / by:.2f} {unit} of {offered / by:.2f} offered "
               f"({carried / offered - 1:+.1%}); what waited at the end makes {waiting / by:.2f}"
               + f", and more acknowledgements than one for two packets at most {more_bps / by:.2f}" * (more_bps > 0)
               + f", and what TCP sent again in vain at most {again_bps / by:.2f}" * needs_again)
    fits = offered * (1 - _CARRIED) - waiting <= carried <= most + again_bps
    busy = offered < rate_bps or carried >= _OVERLOADED * rate_bps
    return Finding("ok" if fits and busy else "suspect", message)


def _acknowledgements_bps(link: Link, links: Mapping[str, Link], loaded: Sequence[Component], queue: pd.DataFrame,
                          acknowledgement_bytes: int) -> float:
    """What the load has not counted where data go the other way: it takes one acknowledgement for two packets there."""
    from_us = min(component.measured_us[0] for component in loaded)
    to_us = max(component.measured_us[1] for component in loaded)
    packets = 0
    for name in (name for name, other in links.items()
                 if (other.from_node, other.to_node) == (link.to_node, link.from_node)):
        sent = queue.loc[(queue["link"] == name) & (queue["t_us"] >= from_us) & (queue["t_us"] <= to_us),
                         "sent_packets"]
        packets += sent.max() - sent.min() if len(sent) else 0
    return float(packets / 2 * acknowledgement_bytes * 8e6 / max(to_us - from_us, 1))


def _frame_bytes(evidence: Evidence, name: str, flows: Sequence[Flow]) -> int:
    """The largest frame that flows send over a link: as large as all links on their ways carry."""
    return max((evidence.network.frame_bytes((*flow.hops, *flow.hops_back)) for flow in flows
                if name in (*flow.hops, *flow.hops_back)), default=evidence.network.frame_bytes())


def _again_bps(evidence: Evidence, name: str, flows: Sequence[Flow], queue: pd.DataFrame, frame_bytes: int) -> float:
    """What TCP sent again over a link at most, though nothing was lost in that direction: it comes beside the load.

    Where a full buffer takes longer than a timeout of 1 s to send, or acknowledgements are lost, that is a good part.
    """
    if not evidence.can("snmp.json"):
        return 0.0
    record = evidence.snmp
    if not {"measure_from", "at_end"} <= set(record.readings):
        return 0.0
    begin, end = (record.readings.index(reading) for reading in ("measure_from", "at_end"))
    tcp = [flow for flow in flows if flow.transport == "tcp"]
    here = [(host, way) for flow in tcp for host, way in ((flow.sender, flow.hops), (flow.receiver, flow.hops_back))
            if name in way]
    senders = {host for host, _ in here}
    # hosts count what they repeat, and not on which way: a sender that has others repairs losses there, too
    if any(flow.sender in senders and name not in flow.hops or flow.receiver in senders and name not in flow.hops_back
           for flow in tcp) or any(link.loss_percent for link in evidence.network.links):
        return 0.0
    again = sum(counts[end] - counts[begin] for counts in (
        record.nodes.get(node, {}).get("TcpRetransSegs", [0] * (end + 1)) for node in senders))
    crossed = {hop for _, way in here for hop in way}
    since = queue[(queue["t_us"] >= record.measure_from_us) & queue["link"].isin(crossed)]
    drops = since.groupby("link")["drops"].agg(lambda counts: counts.max() - counts.min()).sum()
    seconds = (queue["t_us"].max() - record.measure_from_us) / 1e6
    return float(max(0, again - drops) * frame_bytes * 8 / max(seconds, 1e-6))


def _waiting_bytes(evidence: Evidence, name: str, flows: Sequence[Flow]) -> float:
    """Payload that connections asked for in the direction of a link and did not get."""
    connections = evidence.table("connections", low_memory=False)
    if connections is None:
        return 0.0
    total = 0.0
    for side, back in (("init", False), ("acc", True)):
        sources = {flow.source for flow in flows if flow.source is not None and name in flow.way(back)}
        mine = connections[connections["source"].isin(sources)]
        total += (mine[f"{side}_bytes_asked"] - mine[f"{side}_bytes_delivered"].fillna(0)).sum()
    return float(total)
