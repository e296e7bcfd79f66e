# SPDX-License-Identifier: GPL-2.0-only
"""What of a scenario a simulator has nothing for, as errors of the scenario's fields, before anything runs."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from testbed.core import fields, ip
from testbed.core.fields import FieldError
from topologies.links import varying
from topologies.links.end_hosts import HostsSection
from topologies.links.records import Network
from traffic.workload import components

#: as a scenario has it, with all defaults
Section = Mapping[str, object]
#: what an entry of a schedule says, by what of a link it changes
_ENTRY = {"rate_bps": "rate_bps", "walk": "rate_bps", "delay_us": "delay_us", "loss_percent": "loss_percent",
          "limit": "limit", "limit_bytes": "limit", "outage_us": "up"}


def of_traffic(scenario_components: Sequence[Section], engine: str) -> Iterator[FieldError]:
    """Kinds of traffic that it does not have, and what of the others."""
    kinds = [name for name in components.names() if getattr(components.kind(name), "SIMULATED", False)]
    for component in scenario_components:
        place = f"traffic.{component['name']}"
        if component["kind"] not in kinds:
            yield FieldError(f"{place}.kind", f"engine {engine} cannot send traffic of kind {component['kind']}; it "
                                              f"has: {', '.join(kinds)}")
        if component.get("receiver"):
            yield FieldError(f"{place}.receiver", f"engine {engine} has no receivers that misbehave")
        if component.get("ecn", "not_ect") != "not_ect":
            yield FieldError(f"{place}.ecn", f"engine {engine} sends datagrams without ECN; not_ect expected")
        if str(component["kind"]).startswith("tmix") and component.get("windows", "off") != "off":
            yield FieldError(f"{place}.windows", f"engine {engine} does not limit the receive windows of connections; "
                                                 "off expected")


def of_hosts(hosts: Section, possible: Collection[str], engine: str) -> Iterator[FieldError]:
    """Fields of the section `hosts` that are not as everywhere and cannot be set."""
    usual = fields.encode(HostsSection(jitter_us=0))
    for name, value in hosts.items():
        if name not in possible and value != usual.get(name):
            yield FieldError(f"hosts.{fields.plain(name)}", f"engine {engine} cannot set it; it has: "
                                                            f"{', '.join(possible)}")


def of_links(topology: Section, network: Network, absent: Mapping[str, str], queues: Collection[str],
             changes: Collection[str], limits: Collection[str], engine: str) -> Iterator[FieldError]:
    """absent: {key of a section: how a user calls it} of what is not there; queues: kinds that are; changes: what a
    schedule may change (varying.QUANTITIES); limits: kinds of queues whose limit it may."""
    for place, section in _sections(topology, "topology"):
        for key, what in absent.items():
            if section.get(key):
                yield FieldError(f"{place}.{fields.plain(key)}", f"engine {engine} has no {what}")
        if section.get("mtu_bytes", ip.MTU_BYTES) != ip.MTU_BYTES:
            yield FieldError(f"{place}.mtu", f"engine {engine} has no other MTU than {ip.MTU_BYTES} B")
        queue = section.get("queue")
        kind = queue.get("kind") if isinstance(queue, Mapping) else None
        if kind is not None and kind not in queues:
            yield FieldError(f"{place}.queue.kind", f"engine {engine} has no queue {kind}; there are: "
                                                    f"{', '.join(queues)}")
        schedule = section.get("schedule")
        for number, entry in enumerate(schedule if isinstance(schedule, Sequence) else (), start=1):
            yield from _of_entry(f"{place}.schedule.{number}", entry, kind, changes, limits, engine)
    # what a topology makes of fields of its own
    for link in network.links:
        for key, what in absent.items():
            if vars(link).get(key):
                yield FieldError("topology", f"{link.name}: engine {engine} has no {what}")
        if link.queue not in queues:
            yield FieldError("topology", f"{link.name}: engine {engine} has no queue {link.queue}; there are: "
                                         f"{', '.join(queues)}")
        for quantity in varying.QUANTITIES:
            if varying.varies(link, quantity) and quantity not in changes:
                yield FieldError("topology", f"{link.name}: engine {engine} changes no {fields.plain(quantity)} of "
                                             "a link during a run")


def _of_entry(place: str, entry: Section, kind: object, changes: Collection[str], limits: Collection[str],
              engine: str) -> Iterator[FieldError]:
    """What one entry of a schedule changes that cannot change."""
    for name, quantity in _ENTRY.items():
        if entry.get(name) is None:
            continue
        if quantity not in changes:
            can = ", ".join(fields.plain(one) for one in _ENTRY if _ENTRY[one] in changes and one != "limit_bytes")
            yield FieldError(f"{place}.{fields.plain(name)}", f"engine {engine} does not change it during a run; what "
                                                              f"can change: {can}")
        elif quantity == "limit" and kind not in limits:
            yield FieldError(f"{place}.limit", f"engine {engine} does not change the limit of a queue {kind}; those "
                                               f"whose limit can change: {', '.join(limits)}")


def _sections(section: object, place: str) -> Iterator[tuple[str, Section]]:
    """(dotted name, mapping) of a section and of all inside of it."""
    if isinstance(section, Mapping):
        yield place, section
        inside: Iterator[tuple[object, object]] = iter(section.items())
    elif isinstance(section, (list, tuple)):
        inside = iter(enumerate(section, start=1))
    else:
        return
    for name, part in inside:
        if name != "schedule":
            yield from _sections(part, f"{place}.{name}")
