# SPDX-License-Identifier: GPL-2.0-only
"""Knobs: what a conclusion should not depend on, one file each in knobs/, found by listing.

    title: initial window
    why: Linux begins with 10 segments, the suite's baseline with 2.
    values:
      2: {set: {hosts.initcwnd: 2}}             fields of the scenario, as for --set
      on: {components: {tmix: {windows: vector}}}     fields of all components of a kind
      250: {engine: {hz: 250}}                  options of the engine
    unless: traces                              not where a component that it changes has this field

In values, {packet_time} stands for the time of a full frame on the slowest link that data of TCP flows which send all
they can cross, or without such flows on the slowest link of any path. A value that changes nothing in a scenario,
because it is what the scenario has already, is left out; so is what concerns a kind of traffic that the scenario does
not have, and what the scenario refuses.
"""
import dataclasses
import pathlib
import re
from collections.abc import Collection, Mapping, Sequence

from testbed import PROJECT_DIR
from testbed.core import fields, guesses
from testbed.core.errors import ScenarioError, UsageError
from testbed.core.yaml_file import YamlFile
from testbed.scenario import scenario, usual_jitter
from testbed.scenario.scenario import Scenario
from topologies.links import end_hosts
from traffic.workload.components import kind, names as kinds_of_traffic

FOLDER = PROJECT_DIR / "knobs"
_SECTIONS = {"title", "why", "values", "unless"}
_PARTS = {"set", "components", "engine"}
_NAME = re.compile(scenario.OPTION_PATTERN)


@dataclasses.dataclass(frozen=True)
class Value:
    """One value of a knob, as text: fields of the scenario, {kind: fields of its components}, options of the engine."""
    name: str
    settings: dict[str, str]
    components: dict[str, dict[str, str]]
    engine: dict[str, object]


@dataclasses.dataclass(frozen=True)
class Knob:
    """What is varied, and why that may matter."""
    name: str
    title: str
    why: str
    values: tuple[Value, ...]
    unless: str = ""


@dataclasses.dataclass(frozen=True)
class Variation:
    """A scenario with one knob turned. `label`: initcwnd-2, jitter, no-jitter."""
    label: str
    knob: Knob
    scenario: Scenario
    engine: dict[str, object]


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A value that was not tried, and why."""
    label: str
    reason: str


def names() -> list[str]:
    """Names of all knobs."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Knob:
    """A knob by its name. UsageError if there is none, ScenarioError (file:line: field: ...) if it makes no sense."""
    if name not in names():
        raise UsageError(f"no knob {name!r}; {guesses.alternatives(name, names())}")
    return read(FOLDER / f"{name}.yaml")


def read(path: pathlib.Path) -> Knob:
    """The knob of a file. ScenarioError (file:line: field: ...) if it makes no sense."""
    file = YamlFile(path, _SECTIONS)
    values = []
    for name, parts in file.mapping("values").items():
        field = f"values.{name}"
        if not _NAME.fullmatch(name):
            raise file.error(field, "lower-case letters, digits, _ and - expected in the name of a value")
        if not isinstance(parts, dict) or not parts or not parts.keys() <= _PARTS:
            raise file.error(field, f"a mapping with {', '.join(sorted(_PARTS))} expected")
        settings = _texts(file, f"{field}.set", parts.get("set", {}))
        kinds = parts.get("components", {})
        if not isinstance(kinds, dict):
            raise file.error(f"{field}.components", "a mapping of kinds of traffic to their fields expected")
        if unknown := sorted(set(map(str, kinds)) - set(kinds_of_traffic())):
            raise file.error(f"{field}.components.{unknown[0]}", f"one of {', '.join(kinds_of_traffic())} expected")
        engine = parts.get("engine", {})
        if not isinstance(engine, dict):
            raise file.error(f"{field}.engine", "a mapping of options of engines to values expected")
        values.append(Value(name, settings, {kind: _texts(file, f"{field}.components.{kind}", given)
                                             for kind, given in kinds.items()}, engine))
    for section in ("title", "why"):
        if not isinstance(file.tree.get(section), str):
            raise file.error(section, "a sentence expected")
    if not values:
        raise file.error("values", "at least one value expected")
    title, why, unless = (str(file.tree.get(section) or "") for section in ("title", "why", "unless"))
    return Knob(path.stem, title, why, tuple(values), unless)


def _texts(file: YamlFile, field: str, given: object) -> dict[str, str]:
    """{key: value as written}"""
    if not isinstance(given, dict):
        raise file.error(field, "a mapping of fields to values expected")
    return {key: file.texts[f"{field}.{key}"] for key in given}


class Base:
    """A scenario as it is, from which knobs are turned: the arguments of scenario.load."""

    def __init__(self, name_or_path: str, choices: Mapping[str, str | None], quick: bool | str,
                 settings: Sequence[str], probes: Sequence[str], engine: Mapping[str, object]) -> None:
        self._selected = name_or_path, choices, quick
        self._settings, self._probes = list(settings), probes
        self._engine = dict(engine)
        self.scenario = scenario.load(*self._selected, self._settings, probes)

    def variations(self, knobs: Collection[Knob]) -> tuple[list[Variation], list[LeftOut]]:
        """What the knobs make of it, each value on its own; and what was left out, but for values it has already."""
        found: list[Variation] = []
        left_out: list[LeftOut] = []
        for knob in knobs:
            for value in knob.values:
                label = {"on": knob.name, "off": f"no-{knob.name}"}.get(value.name, f"{knob.name}-{value.name}")
                try:
                    turned = self._turn(knob, value)
                except (ScenarioError, UsageError) as problem:
                    left_out.append(LeftOut(label, str(problem)))
                    continue
                engine = {**self._engine, **value.engine}
                if turned is None:
                    left_out.append(LeftOut(label, f"no traffic of kind {' or '.join(value.components)}"
                                                   + f" without {knob.unless}" * bool(knob.unless)))
                elif _meaning(turned) != _meaning(self.scenario) or not self._has(value.engine):
                    found.append(Variation(label, knob, turned, engine))
        return found, left_out

    def _has(self, options: Mapping[str, object]) -> bool:
        """Whether the engine is as these options say already."""
        import kernel
        usual = {"hz": kernel.USUAL_HZ}
        return all(self._engine.get(name, usual.get(name)) == value for name, value in options.items())

    def _turn(self, knob: Knob, value: Value) -> Scenario | None:
        """The scenario with a value; None if it concerns traffic that the scenario does not have."""
        settings = dict(value.settings)
        for component in self.scenario.traffic:
            for key, text in value.components.get(str(component["kind"]), {}).items():
                if not knob.unless or knob.unless not in component:
                    settings[f"{self.scenario.place_of(str(component['name']))}.{key}"] = text
        if value.components and settings == value.settings:
            return None
        return scenario.load(*self._selected, [*self._settings, *(
            f"{key}={self._filled(text)}" for key, text in settings.items())], self._probes)

    def _filled(self, text: str) -> str:
        network = self.scenario.network
        packet_us = usual_jitter.packet_time_us(self.scenario.traffic, network) or end_hosts.packet_time_us(
            network, [hops for path in network.paths for hops in (path.hops, path.hops_back)])
        return text.replace("{packet_time}", f"{packet_us} us")


def _meaning(one: Scenario) -> scenario.Resolved:
    """What a scenario says, whether a default is written down or not."""
    components = []
    for component in one.traffic:
        section = kind(component["kind"]).Section
        known = {field.name for field in dataclasses.fields(section)}
        given = {key: value for key, value in component.items() if key in known}
        components.append({**component, **fields.encode(fields.decode(section, given))})
    return one.resolved().changed(traffic=components)
