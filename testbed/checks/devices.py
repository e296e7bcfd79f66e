# SPDX-License-Identifier: GPL-2.0-only
"""Devices and routes, as the kernel tells them once the network stands, are those of the scenario.

TCP hands over packets of one segment where hosts are to send them one by one (`gso_max_segs`; features of a device do
not decide that), devices have the MTU of their link, every queue, shaper and wire has the parameters that the scenario
names, before the traffic and after it, connections begin with the window, and where it names one the slow-start
threshold, that it names.
"""
from collections.abc import Iterator, Mapping, Sequence

from testbed.checks import Evidence, Finding
from testbed.core.guest_files import Checks, Device
from topologies import queues
from topologies.links import varying
from topologies.links.records import Link, Network, Node
from topologies.linux import read_back, tc

NEEDS = ("kernel", "checks.json")
#: by which the probability with which RED marks may differ from the one asked for: what counts as equal elsewhere
#: (docs/explanation/statistics.md), since the kernel's arithmetic leaves no better choice for wide queues
_RED_SHARE = 0.05

#: {"node/device handle": (before the traffic, after it)} of qdiscs and classes
_Changed = Mapping[str, tuple[str | None, str | None]]


def check(evidence: Evidence) -> Iterator[Finding]:
    measured, network = evidence.measured, evidence.network
    devices, windows = measured.devices, measured.initcwnd
    if not devices or not windows:
        yield Finding("suspect", "devices and routes were not read back")
        return
    late = _changed_queues(evidence)
    wrong = [*_wrong_queues(devices, network.links, measured, None),
             *_wrong_queues(_later(devices, late), network.links, measured,
                            evidence.timing.duration_us),
             *_changed(devices, late, network.links), *_wrong_mtus(devices, network.links),
             *_wrong_segments(devices, network),
             *_wrong_windows(windows, network.nodes), *_wrong_acks(measured.quickack, network.nodes),
             *_wrong_thresholds(measured.initial_ssthresh, network.nodes)]
    yield from (Finding("invalid", message) for message in dict.fromkeys(wrong))
    yield from _coarse(network.links)
    if not wrong:
        hosts = [node for node in network.nodes if node.initcwnd is not None]
        yield Finding("ok", f"{len(network.links)} queues, their shapers and wires have the parameters that the "
                            f"scenario names, before the traffic and after it; {len(hosts)} hosts have its initial "
                            "window and size of bursts")


def _changed_queues(evidence: Evidence) -> _Changed:
    """Of late.json; none where the engine leaves no such file."""
    changes = evidence.late.changes("qdiscs") if evidence.can("late.json") else {}
    return {name: (_text(before), _text(after)) for name, (before, after) in changes.items()}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _wrong_queues(devices: Mapping[str, Device], links: Sequence[Link], measured: Checks,
                  ended_us: int | None) -> Iterator[str]:
    """ended_us: None before the traffic, else its end."""
    when = "" if ended_us is None else " after the traffic"
    for link in links:
        wire = tc.wire_device(link.peer_device)
        for place, facts in ((f"{link.from_node}/{link.device}", read_back.sending(
                link, measured.timer_period_us, measured.jiffy_us, ended_us)),
                             (f"{link.to_node}/{wire}", read_back.arriving(link, ended_us))):
            found = devices[place].qdiscs if place in devices else {}
            for handle, (kind, wanted) in facts.items():
                is_kind, options = _parted(found.get(handle, "nothing"))
                if is_kind != kind:
                    yield f"{place}{when}: {handle} is {is_kind}, not {kind}"
                    continue
                different = read_back.differences(kind, options, wanted)
                if different:
                    yield f"{place}{when}: {kind} {handle} has {'; '.join(different)}"


def _parted(text: str) -> tuple[str, bytes]:
    """(kind, options) of a qdisc or class as the guest noted it."""
    kind, _, options = text.rpartition(" ") if " " in text else (text, "", "")
    return kind, bytes.fromhex(options)


def _later(devices: Mapping[str, Device], changed: _Changed) -> Mapping[str, Device]:
    """Devices as they were after the traffic. changed: {"node/device handle": [before, after]}"""
    found = {place: dict(one.qdiscs) for place, one in devices.items()}
    for name, (_, after) in changed.items():
        place, _, handle = name.partition(" ")
        found.setdefault(place, {})[handle] = after or "nothing"
    return {place: Device({"qdiscs": qdiscs}) for place, qdiscs in found.items()}


def _changed(devices: Mapping[str, Device], changed: _Changed, links: Sequence[Link]) -> Iterator[str]:
    """What nobody was to change, options that the scenario says nothing of included."""
    moving = {place for link in links if varying.changes(link) or link.opportunities
              for place in (f"{link.from_node}/{link.device}", f"{link.to_node}/{tc.wire_device(link.peer_device)}")}
    for name, (before, after) in changed.items():
        place, _, handle = name.partition(" ")
        kinds = {_parted(text or "nothing")[0] for text in (before, after)}
        if place not in moving and not (len(kinds) == 1 and all(map(read_back.dump_changes, kinds))):
            yield f"{place}: {handle} ({' -> '.join(sorted(kinds))}) is not what it was before the traffic"


def _coarse(links: Sequence[Link]) -> Iterator[Finding]:
    """Probabilities of RED that the kernel cannot hold."""
    for link in links:
        held = queues.kind(link.queue).held_probability(link.queue_options)
        asked = float(link.queue_options.get("probability", 0))
        if held is not None and abs(held / asked - 1) > _RED_SHARE:
            yield Finding("suspect", f"{link.name}: {link.queue} marks with a probability of at most "
                                     f"{held:.3g}, not {asked:g}: the kernel counts it in steps "
                                     "of (max - min) / 2^32")


def _wrong_mtus(devices: Mapping[str, Device], links: Sequence[Link]) -> Iterator[str]:
    """Of what sends to a link, and of the device that stands for its wire."""
    for link in links:
        for place in (f"{link.from_node}/{link.device}", f"{link.to_node}/{tc.wire_device(link.peer_device)}"):
            found = devices[place].mtu if place in devices else None
            if found != link.mtu_bytes:
                yield f"{place} has an MTU of {'unknown size' if found is None else f'{found} B'}, not of " \
                      f"{link.mtu_bytes} B"


def _wrong_segments(devices: Mapping[str, Device], network: Network) -> Iterator[str]:
    single = {node.name for node in network.nodes if not node.gso}
    for link in network.links:
        name = f"{link.from_node}/{link.device}"
        most = devices[name].gso_max_segs if name in devices else None
        if link.from_node in single and most != 1:
            yield f"{name}: TCP may hand over {most} segments at once, not 1"


def _wrong_windows(windows: Mapping[str, Sequence[int]], nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        found = windows.get(node.name, [])
        if node.initcwnd is not None and list(found) != [node.initcwnd]:
            yield (f"{node.name}: connections begin with {', '.join(map(str, found)) or 'no known number of'} "
                   f"segments, not {node.initcwnd}")


def _wrong_acks(found: Mapping[str, Sequence[int]], nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        if node.initcwnd is not None and list(found.get(node.name, [0])) != [int(node.quickack)]:
            yield f"{node.name}: its ACKs are {'delayed' if node.quickack else 'not delayed'}"


def _wrong_thresholds(found: Mapping[str, Mapping[str, int]], nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        wanted = node.initial_ssthresh
        if wanted is None:
            continue
        if not found.get(node.name):
            yield f"{node.name}: nobody tried whether connections begin with a slow-start threshold of {wanted}"
        for address, threshold in found.get(node.name, {}).items():
            if threshold != wanted:
                yield (f"{node.name}: a connection to {address} began with a slow-start threshold of {threshold} "
                       f"segments, not {wanted}")
