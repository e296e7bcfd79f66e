# SPDX-License-Identifier: GPL-2.0-only
"""QUIC programs as the congestion control under test: `--cca quic:quinn:cubic`.

Greedy flows of the scenario that would use a congestion control of the kernel become flows of kind `quic`, over the
same paths and with the same limits of time and size. Where a QUIC program and a congestion control of the kernel take
turns, each has its own flows: `quic:quinn:cubic+cubic` gives the odd ones to quinn. The starts of such flows are drawn
anew.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import cast

import traffic
from testbed.core import fields
from testbed.core.errors import ScenarioError
from testbed.core.fields import FieldError
from testbed.scenario.ccas import Subject, Variant
from testbed.scenario.scenario import Resolved, Scenario
from testbed.scenario.sections import Section

#: how greedy flows may be that QUIC programs cannot be
_GREEDY_ONLY = ("stagger_us", "stop_within_us", "sequence_start", "segment_bytes", "window", "receiver", "draws")
_SAME = ("start_us", "stop_us", "start_within_us", "bytes_bytes")


def resolved(scenario: Scenario, as_given: Resolved, subject: Subject) -> Resolved:
    """All that decides a run of a subject; as_given: of the scenario as it is. ScenarioError if it has traffic that a
    QUIC program of the subject cannot send."""
    if not any(variant.quic for variant in subject.variants):
        return as_given
    try:
        components = _components(scenario.traffic, subject)
        traffic.validate(components, scenario.network, scenario.timing)
    except FieldError as problem:
        raise scenario.error(problem.inside("traffic").field, f"{subject.given or subject.name}: {problem}") from None
    return as_given.changed(traffic=components)


def refusal(scenario: Scenario, subject: Subject) -> str:
    """Why a subject cannot send a scenario's traffic, '' if it can."""
    try:
        traffic.validate(_components(scenario.traffic, subject), scenario.network, scenario.timing)
    except (FieldError, ScenarioError) as problem:
        return str(problem)
    return ""


def _components(given: Sequence[Section], subject: Subject) -> list[Section]:
    """The traffic with QUIC flows. FieldError if there are none, or others would need the kernel's TCP."""
    found: list[Section] = []
    for component in given:
        if component["kind"] == "quic" or not traffic.is_under_test(component):
            found.append(component)
            continue
        try:
            found += _shared_out(component, subject)
        except FieldError as problem:
            raise problem.inside(str(component["name"])) if len(given) > 1 else problem
    if found == given:
        raise FieldError("", "it has no flows of a congestion control under test")
    return found


def _shared_out(component: Section, subject: Subject) -> Iterator[Section]:
    """A greedy component as one for each row of flows that have the same congestion control."""
    if component["kind"] != "greedy":
        raise FieldError("kind", f"this is {component['kind']}, and a QUIC program sends greedy flows only")
    for field in _GREEDY_ONLY:
        if component.get(field):
            raise FieldError(fields.plain(field), "QUIC flows have no such field")
    paths = cast(Sequence[str], component.get("paths") or [""])
    each = cast(int, component.get("flows") or 1)
    flows = zip((path for path in paths for _ in range(each)), itertools.cycle(subject.variants))
    rows = [(variant, [path for path, _ in row])
            for variant, row in itertools.groupby(flows, key=lambda flow: flow[1])]
    for number, (variant, chosen) in enumerate(rows, start=1):
        # a component that is called as its kind has the run's seed: alone it has the draws of the greedy one
        name = "quic" if variant.quic and component["name"] == "greedy" else str(component["name"])
        yield _component(component, variant, name if len(rows) == 1 else f"{name}-{number}", chosen)


def _component(component: Section, variant: Variant, name: str, paths: Sequence[str]) -> Section:
    """Flows of one variant over these paths."""
    over: Section = {"paths": list(paths)} if all(paths) else {}
    if variant.quic:
        return {"name": name, "kind": "quic", **{key: component[key] for key in _SAME if key in component},
                "stack": variant.quic, **over, "cca": [variant.name]}
    return {**{key: value for key, value in component.items() if key not in ("name", "flows", "paths")},
            "name": name, **over, "cca": [variant.name]}
