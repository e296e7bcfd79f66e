# SPDX-License-Identifier: GPL-2.0-only
"""Companion runs of `testbed run --slowdown`: the same connections, each alone on the idle network.

One for each seed and point, under the first subject. Its completion times are what those of all subjects are
divided by (analysis/flows/slowdown.py).
"""
from __future__ import annotations

import dataclasses
from typing import cast

from testbed.core.errors import UsageError
from testbed.core.timing import Timing
from testbed.scenario.scenario import Scenario
from topologies.links.records import Link

#: connections that are drawn, and virtual time for them; as many as there is time for
MOST_CONNECTIONS = 2000
TEST_US = 4 * 3600 * 10**6
_PROBES = ("queue", "sojourn", "tcp_info")
_INTERVAL_US = 10_000_000
_COMMON = ("name", "kind", "start_us", "stop_us", "cca")


def scenario_of(loaded: Scenario) -> Scenario:
    """The scenario of the companion runs of a scenario. UsageError unless its traffic has one Tmix component."""
    tmix = [component for component in loaded.traffic if component["kind"] == "tmix"]
    if len(tmix) != 1:
        raise UsageError(f"--slowdown: {loaded.name} has {len(tmix) or 'no'} Tmix components; one is needed, whose "
                         "connections are those of the slowdown")
    component, = tmix
    timing = {name: value for name, value in loaded.timing.record().items() if name != "duration_us"}
    alone: dict[str, object] = {
        "name": "tmix-alone", "kind": "tmix-alone", "most": MOST_CONNECTIONS, "called": component.get("name", "tmix"),
        "of": {key: value for key, value in component.items() if key not in _COMMON}, **timing,
        **{name: component[own] for name, own in (("begins_us", "start_us"), ("stops_us", "stop_us"), ("cca", "cca"))
           if component.get(own) is not None}}
    return dataclasses.replace(
        loaded, title=f"{loaded.title}: connections alone on the idle network", traffic=[alone],
        network=loaded.network.changed(links=[_anew(link, loaded.timing.duration_us) for link in loaded.network.links]),
        timing=Timing(test_us=TEST_US), parameters={**loaded.parameters, "idle": True},
        # nothing happens for most of the time
        probes={name: {**settings, "interval_us": max(cast(int, settings["interval_us"]), _INTERVAL_US)}
                for name, settings in loaded.probes.items() if name in _PROBES})


def _anew(link: Link, after_us: int) -> Link:
    """A link whose trace begins anew where that of a run would go on: a companion run is longer."""
    if not link.opportunities or link.opportunities.period_us:
        return link
    return link.changed(opportunities=link.opportunities.changed(period_us=after_us))
