# SPDX-License-Identifier: GPL-2.0-only
"""Devices and routes, as the kernel tells them once the network stands, are those of the scenario.

TCP hands over packets of one segment where hosts are to send them one by one (`gso_max_segs`; features of a device do
not decide that), every queue is of the kind that the scenario names, connections begin with the window, and where it
names one the slow-start threshold, that it names.
"""
from collections.abc import Iterator
from typing import Any

from testbed.fidelity import Evidence, Finding
from topologies import tc

NEEDS = ("kernel", "checks.json")


def check(evidence: Evidence) -> Iterator[Finding]:
    measured, network = evidence.json("checks.json"), evidence.json("network.json")
    devices, windows = measured.get("devices"), measured.get("initcwnd")
    if not devices or not windows:
        yield Finding("suspect", "devices and routes were not read back")
        return
    wrong = [*_wrong_queues(devices, network["links"]), *_wrong_segments(devices, network),
             *_wrong_windows(windows, network["nodes"]),
             *_wrong_thresholds(measured.get("initial_ssthresh", {}), network["nodes"])]
    yield from (Finding("invalid", message) for message in wrong)
    if not wrong:
        hosts = [node for node in network["nodes"] if "initcwnd" in node]
        yield Finding("ok", f"{len(network['links'])} queues are of the kinds the scenario names, {len(hosts)} hosts "
                            "have its initial window and size of bursts")


def _wrong_queues(devices: dict[str, Any], links: list[dict[str, Any]]) -> Iterator[str]:
    for link in links:
        name = f"{link['from']}/{link['device']}"
        found = devices.get(name, {}).get("qdiscs", [])
        shapers = tc.shapers(link)
        if not {*shapers, link["queue"]} <= set(found):
            yield (f"{name} has the queues {' '.join(found) or 'none'}, not {' and '.join(sorted(shapers))} and "
                   f"{link['queue']}")


def _wrong_segments(devices: dict[str, Any], network: dict[str, Any]) -> Iterator[str]:
    single = {node["name"] for node in network["nodes"] if not node.get("gso", True)}
    for link in network["links"]:
        name = f"{link['from']}/{link['device']}"
        most = devices.get(name, {}).get("gso_max_segs")
        if link["from"] in single and most != 1:
            yield f"{name}: TCP may hand over {most} segments at once, not 1"


def _wrong_windows(windows: dict[str, list[int]], nodes: list[dict[str, Any]]) -> Iterator[str]:
    for node in nodes:
        found = windows.get(node["name"], [])
        if "initcwnd" in node and found != [node["initcwnd"]]:
            yield (f"{node['name']}: connections begin with {', '.join(map(str, found)) or 'no known number of'} "
                   f"segments, not {node['initcwnd']}")


def _wrong_thresholds(found: dict[str, dict[str, int]], nodes: list[dict[str, Any]]) -> Iterator[str]:
    for node in nodes:
        wanted = node.get("initial_ssthresh")
        if wanted is None:
            continue
        if not found.get(node["name"]):
            yield f"{node['name']}: nobody tried whether connections begin with a slow-start threshold of {wanted}"
        for address, threshold in found.get(node["name"], {}).items():
            if threshold != wanted:
                yield (f"{node['name']}: a connection to {address} began with a slow-start threshold of {threshold} "
                       f"segments, not {wanted}")
