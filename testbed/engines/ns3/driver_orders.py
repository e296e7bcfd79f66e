# SPDX-License-Identifier: GPL-2.0-only
"""What simulation/ns3/driver.cc reads: one line of words for each thing, key=value where there is a key."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from testbed.engines.ns3 import ccas
from testbed.errors import RunFailed
from testbed.plan import Plan
from testbed.simulators import idle
from testbed.simulators.workload import Work
from topologies import queues

Json = dict[str, Any]
#: ns-3's generator takes a seed of 32 bits and a number of its stream
_SEEDS = 2**31
_QUEUES = ("pfifo", "bfifo", "red", "codel", "fq_codel", "pie")
_PROBES: dict[str, dict[str, int]] = {"queue": {"interval_us": 10_000, "edge_interval_us": 1_000_000}, "sojourn": {},
                                      "tcp_info": {"interval_us": 1_000_000}, "tcp_probe": {}}


def text(plan: Plan, work: Work, parts: Json, version: tuple[int, int]) -> str:
    """All orders of a run. parts: what testbed.orders.job_parts says of kernel settings and parameters.

    RunFailed, UsageError if something cannot be done in ns-3.
    """
    network = plan.scenario["network"]
    lines = [_line("run", seed=plan.seed % _SEEDS + 1, stream=plan.seed // _SEEDS + 1,
                   duration_us=plan.timing["duration_us"])]
    lines += _ccas(plan, parts, version)
    lines += _network(network, parts["sysctls"])
    lines += [_line("echo", number=number, **{"from": echo.path["initiator"]}, to=echo.path["acceptor"],
                    to_address=echo.path["acceptor_address"], expected_us=round(echo.expected_us))
              for number, echo in enumerate(idle.echoes(network))]
    lines += [_line("overload", one.link["name"],
                    *(word for sender in one.plan.senders for word in (sender.host, sender.target, sender.address)),
                    interval_ns=one.interval_ns, fill_s=one.plan.fill_s, window_s=one.plan.window_s,
                    drain_s=one.plan.drain_s)
              for one in idle.overloads(network)]
    lines += _traffic(work)
    for name, usual in _PROBES.items():
        if name in plan.scenario["probes"]:
            given = plan.scenario["probes"][name]
            lines.append(_line(name, **{key: given.get(key, default) for key, default in usual.items()}))
    return "".join(lines)


def _line(what: str, *words: str, **values: Any) -> str:
    """One order. Nothing in it has a space: names and numbers were checked when the scenario was read."""
    found = [what, *words, *(f"{key}={value:d}" if isinstance(value, bool) else f"{key}={value}"
                             for key, value in values.items())]
    for word in found:
        if not word or word.split() != [word]:
            raise RunFailed(f"{word!r} cannot be said in an order for ns-3")
    return " ".join(found) + "\n"


def _ccas(plan: Plan, parts: Json, version: tuple[int, int]) -> Iterator[str]:
    """Congestion controls by their kernel names, with their parameters."""
    given = {**parts["builtin_parameters"], **{module["name"]: module["parameters"] for module in parts["modules"]}}
    for cca in dict.fromkeys(str(variant["kernel_cca"]) for variant in plan.variants):
        yield _line("cca", cca, **ccas.settings(cca, given.get(f"tcp_{cca}", {}), version))


def _network(network: Json, sysctls: Mapping[str, Json]) -> Iterator[str]:
    for node in network["nodes"]:
        settings = sysctls[node["name"]]
        yield _line("node", node["name"], host=node["role"] == "host", sack=settings["net.ipv4.tcp_sack"],
                    ecn=settings["net.ipv4.tcp_ecn"], rcvbuf=settings["net.ipv4.tcp_rmem"].split()[-1],
                    sndbuf=settings["net.ipv4.tcp_wmem"].split()[-1], initcwnd=node.get("initcwnd", 10),
                    restart_after_idle=settings["net.ipv4.tcp_slow_start_after_idle"])
    for link in network["links"]:
        yield _line("link", link["name"], **{key: link[key] for key in (
            "from", "to", "device", "address", "rate_bps", "delay_us", "loss_percent", "bottleneck")}, **_queue(link))
        for number in link["lose_segments"]:
            yield _line("lose", link["name"], sequence=(number - 1) * 1448, copies=link["lose_copies"])
    for node in network["nodes"]:
        for to, via, device in node["routes"]:
            yield _line("route", node["name"], to=to, via=via, device=device)


def _queue(link: Json) -> Json:
    """A link's queue and its options, booleans as numbers."""
    kind, options = link["queue"], link["queue_options"]
    if kind not in _QUEUES:
        raise RunFailed(f"{link['name']}: ns-3 has no queue {kind}; there are: {', '.join(_QUEUES)}")
    found = {"queue": kind, **{name: int(value) if isinstance(value, bool) else value
                               for name, value in options.items()}}
    if kind == "red":
        # tc's burst is a weight of the average, 2**-n
        weight = queues.red_weight(options["min"], options["burst"], options["avpkt"])
        assert weight is not None               # checked when the scenario was read
        found["weight"] = 0.5**weight
    return found


def _traffic(work: Work) -> Iterator[str]:
    for source in work.sources:
        flow, (first, count) = source.flow, source.initiator["ports"]
        yield _line("tmix", flow=flow["flow"], plan=source.plan, offset=source.offset, **source.counts,
                    initiator=flow["sender"], initiator_address=flow["src"], acceptor=flow["receiver"],
                    acceptor_address=flow["dst"], port=flow["dport"], first_port=first, ports=count, cca=flow["cca"],
                    output=source.plan.with_suffix(""))
    for flow in work.bulk:
        yield _line("bulk", flow=flow["flow"], sender=flow["sender"], receiver=flow["receiver"], src=flow["src"],
                    dst=flow["dst"], sport=flow["sport"] or 0, dport=flow["dport"], start_us=flow["start_us"],
                    stop_us=flow["stop_us"], bytes=flow["bytes"] or 0, cca=flow["cca"])
    for one in work.datagrams:
        flow = one.flow
        yield _line("datagrams", flow=flow["flow"], sender=flow["sender"], receiver=flow["receiver"], dst=flow["dst"],
                    dport=flow["dport"], start_us=flow["start_us"], stop_us=flow["stop_us"], gap_ns=one.gap_ns,
                    payload_bytes=one.payload_bytes)
