# SPDX-License-Identifier: GPL-2.0-only
"""Scenario files -> typed objects.

A scenario is one YAML file in `scenarios/`. What it says is validated here and by the
topology, traffic and probes it names; every error names file, line and field.
"""
import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import cast

import topologies
from testbed import PROJECT_DIR, probes
from testbed.core import expectations, fields, guesses, run_files
from testbed.core.errors import ScenarioError, UsageError
from testbed.core.record import Within
from testbed.core.run_files import Labels
from testbed.core.timing import Timing
from testbed.core.yaml_file import YamlFile, parse_setting
from testbed.scenario import axes, descriptions, search_space, sections, usual_jitter
from testbed.scenario.parameters import Parameters
from testbed.scenario.sections import LONGEST_NAME, NAME_PATTERN, Section, section
from topologies.links import end_hosts
from topologies.links.records import Network

SCENARIO_DIR = PROJECT_DIR / "scenarios"
_PUBLISHED_DIR = PROJECT_DIR / "suites/published"
#: options of choices may be numbers or combinations: 0.5, libra+bic
OPTION_PATTERN = NAME_PATTERN + r"([.+][a-z0-9_-]+)*"
_UNIT_PATTERN = r"(?:[A-Za-z%][A-Za-z0-9%/]{0,19})?"
_SETTABLE = {"name", "title", "source", "description", "topology", "traffic", "timing", "hosts", "kernel", "probes",
             "defaults", "expect", "search"}
#: short versions that a scenario may have: sections of fields and values
VERSIONS = ("quick", "smoke")
_SECTIONS = _SETTABLE | {"choices", "parameters", *VERSIONS, "sweep"}
_NOTHING = object()
#: an error that names the option by itself
_OPTION = re.compile(r"^(\S+:\d+ with )?--")

Choices = Mapping[str, str | None] | None


@dataclasses.dataclass(frozen=True)
class DefaultsSection:
    """What `testbed run` tests when nobody says otherwise; seeds: how many."""
    ccas: tuple[str, ...] = fields.listing(fields.word(), default=("cubic",), least=1, most=1000)
    seeds: int = fields.count(default=1, least=1, most=1000)


class Resolved(run_files.Scenario):
    """All that decides a run; the section `scenario` of plan.json."""
    #: as the file says, with all defaults
    topology: Mapping[str, object]
    hosts: Mapping[str, object]
    #: what follows from the two, as raw/network.json has it
    network = Within(Network)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A scenario with every choice made. Sections hold SI numbers, units in the keys."""
    name: str
    title: str
    source: str
    description: str
    topology: Section       # as the file says, with all defaults
    network: Network        # what follows from it and from `hosts`
    traffic: list[Section]  # components: {"name", "kind", "start_us", "stop_us", ...}
    timing: Timing
    hosts: Section
    probes: dict[str, Section]
    parameters: Section     # the choices, quick and --set values that led here
    default_ccas: list[str]
    default_seeds: int
    choices: dict[str, list[str]]           # {name: options}
    units: dict[str, str] = dataclasses.field(default_factory=dict)             # of choices that have one
    listed: bool = False    # whether `traffic` is a list, even if of one
    file: YamlFile | None = dataclasses.field(default=None, repr=False, compare=False)
    #: {name of a congestion control that the traffic names: where in the file}
    cca_places: dict[str, str] = dataclasses.field(default_factory=dict)
    expect: tuple[expectations.Expectation, ...] = ()       # of the results, not of a run
    kernel_options: tuple[str, ...] = ()    # what its kernel has to have; the kernel's key tells runs apart by them
    asked_options: tuple[str, ...] = ()     # those of them that the file asks for, whatever the network needs
    usual_jitter: bool = False              # whether its hosts have jitter that nobody asked for
    search: search_space.Space | None = None            # what `testbed search` may change

    def resolved(self) -> Resolved:
        """All that decides a run."""
        return Resolved({"topology": self.topology, "network": self.network.content(), "traffic": self.traffic,
                         "timing": self.timing.record(), "hosts": self.hosts, "probes": self.probes})

    def place_of(self, component: str) -> str:
        """How settings address a component: traffic, or traffic.NAME."""
        return f"traffic.{component}" if self.listed else "traffic"

    def error(self, field: str, message: str) -> ScenarioError:
        """That a field, by its name in the resolved scenario, cannot be had: with file and line, or the option."""
        return self.file.error(self.file.written(field), message) if self.file else ScenarioError(f"{field}: {message}")

    def labels(self) -> Labels:
        """What people call it."""
        return Labels({"name": self.name, "title": self.title, "source": self.source, "description": self.description,
                       "parameters": self.parameters})


def names(folder: pathlib.Path = SCENARIO_DIR) -> list[str]:
    """Names of the scenarios in a folder: the file names without .yaml."""
    return sorted(p.stem for p in pathlib.Path(folder).glob("*.yaml"))


def find(name_or_path: str) -> pathlib.Path:
    """The file of a scenario given by name or path. UsageError if there is none."""
    path = pathlib.Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            here = sorted(map(str, path.parent.glob("*.y*ml"))) if os.path.isdir(path.parent) else []
            raise UsageError(f"{path}: no such scenario file{guesses.question(str(path), here)}")
        return path
    if name_or_path not in names():
        if os.path.isdir(path):
            raise UsageError(f"{path}: a folder; the name of a scenario, or the path of a .yaml file expected")
        if name_or_path in names(_PUBLISHED_DIR):
            raise UsageError(f"no scenario {name_or_path!r}, but a published result: testbed suite run published "
                             f"--only {name_or_path}")
        raise UsageError(f"no scenario {name_or_path!r}; {guesses.alternatives(name_or_path, names())} "
                         "(or give the path of a .yaml file)")
    return SCENARIO_DIR / f"{name_or_path}.yaml"


def versions(name_or_path: str) -> list[str]:
    """Which short versions a scenario has."""
    return [name for name in VERSIONS if name in YamlFile(find(name_or_path), _SECTIONS).tree]


def load(name_or_path: str, choices: Choices = None, quick: bool | str = False, settings: Sequence[str] = (),
         probes: Sequence[str] = ()) -> Scenario:
    """Read a scenario and make its choices; a sweep of its own is left out.

    choices: {name: option}, e.g. {"load": "60"}; quick: apply its `quick` section, or the one of VERSIONS so called;
    settings: "key=value" strings, keys as in the file, dotted; probes: names of extra probes.
    Raises ScenarioError (file:line: field: ...) or UsageError.
    """
    return _Selection(find(name_or_path), choices or {}, quick, settings, probes).build({})


def expand(name_or_path: str, choices: Choices = None, quick: bool | str = False, settings: Sequence[str] = (),
           probes: Sequence[str] = (), sweeps: Sequence[str] = ()) -> list[tuple[axes.Point, Scenario]]:
    """The scenario at every point of its sweep: [({key: value}, Scenario)], one entry ({}, ...) without a sweep.

    sweeps: "key=values" strings, which replace axes of the file. A key is a field, a parameter or a choice.
    """
    selection = _Selection(find(name_or_path), choices or {}, quick, settings, probes)
    asked = axes.of_options(sweeps)
    known = selection.parameters
    known.distinct("--sweep", asked)
    for key in asked:
        if selection.fixed() & set(known.fields(key)):
            raise UsageError(f"--sweep {key}: another option says what {key} is, too; which of them?")
    fixed = selection.fixed().union(*map(known.fields, asked))
    points = [{key: value for key, value in point.items() if not fixed & set(known.fields(key))}
              for point in axes.of_file(selection.source, selection.sweep)]
    distinct = list({tuple(point.items()): point for point in points}.values())
    return [(point, selection.build(point, asked)) for point in axes.product(asked, distinct)]


class _Selection:
    """A scenario file and what was asked of it."""

    def __init__(self, path: pathlib.Path, choices: Mapping[str, str | None], quick: bool | str,
                 settings: Sequence[str], extra_probes: Sequence[str]) -> None:
        self.source = YamlFile(path, _SECTIONS)
        for key in ("name", "topology", "traffic", "timing"):
            if key not in self.source.tree:
                raise self.source.error("", f"section {key!r} is missing")
            if key != "name":
                sections.shape(self.source, key)
        self._name = str(self.source.tree["name"])
        self._chosen = {name: option for name, option in choices.items() if option is not None}
        self._version = "quick" if quick is True else quick or ""
        self._extra_probes = extra_probes
        self._settings = [_setting(setting) for setting in settings]
        self.choices = _choices(self.source)
        self.parameters = Parameters(self.source, _SECTIONS, _SETTABLE)
        for name in self.parameters.names:
            self._check_parameter(name)
        for name, option in self._chosen.items():
            if name not in self.choices:
                raise UsageError(f"{name} {option}: scenario {self._name} has no choice of {name}; its choices: "
                                 f"{', '.join(self.choices) or 'none at all'}{guesses.question(name, self.choices)}")
        if self._version and self._version not in self.source.tree:
            raise UsageError(f"--{self._version}: scenario {self._name} has no {self._version} version")
        #: a short version may have a sweep of its own
        self.sweep = f"{self._version}.sweep" if self._version and "sweep" in self.source.mapping(self._version) \
            else "sweep"

    def _check_parameter(self, name: str) -> None:
        """ScenarioError if a parameter stands for a field that there is not, whatever is chosen."""
        usual = {choice: of.default for choice, of in self.choices.items()}
        chosen = [usual, *({**usual, choice: option} for choice, of in self.choices.items() for option in of.options)]
        for field in self.parameters.names[name]:
            problem = self._unknown(name, field, chosen[0])
            if problem and all(self._unknown(name, field, options) for options in chosen[1:]):
                raise problem

    def _unknown(self, name: str, field: str, options: Mapping[str, str]) -> ScenarioError | None:
        """What is said of a parameter's field with these options of the choices, if it is that there is none such."""
        source = self.source.copy()
        try:
            for choice, option in options.items():
                for key, value in self.choices[choice].options[option][1].items():
                    self._put(source, key, value, f"choices.{choice}.options.{option}.{key}")
            try:
                # of a value that nothing takes, those fields complain that there are
                source.put(field, _NOTHING, f"parameters.{name}")
            except ScenarioError as problem:
                return problem
            _build(source, {}, {})
        except ScenarioError as problem:
            _, unknown, known = str(problem).partition("unknown field; fields are: ")
            return self.source.error(f"parameters.{name}", f"no field {field}; in its place there are: {known}") \
                if unknown else None
        return None

    def fixed(self) -> set[str]:
        """Fields and choices that options decide, whatever a sweep of the file says."""
        return {*self._chosen, *(field for key, _ in self._settings for field in self.parameters.fields(key))}

    def build(self, point: axes.Point, asked: Mapping[str, object] | None = None) -> Scenario:
        """The scenario at a point; asked: axes of --sweep, for errors."""
        try:
            return self._built(point, asked, self._settings)
        except ScenarioError as problem:
            guilty = [] if _OPTION.search(str(problem)) else self._guilty(str(problem), point, asked or {})
            if not guilty:
                raise
            raise ScenarioError(f"{', '.join(guilty)}: {problem}") from None

    def _guilty(self, problem: str, point: axes.Point, asked: Mapping[str, object]) -> list[str]:
        """The options without each of which an error would not be there, or else all of them if it is for them."""
        def is_there(keys: axes.Point, settings: Sequence[tuple[str, str]]) -> bool:
            try:
                self._built(keys, asked, settings)
            except UsageError as other:
                return _place(str(other)) == _place(problem)
            return False

        of_file = {key: text for key, text in point.items() if key not in asked}
        every = {f"--set {key}": (point, [other for other in self._settings if other[0] != key])
                 for key, _ in self._settings}
        every |= {f"--sweep {key}": ({other: text for other, text in point.items() if other != key}, self._settings)
                  for key in point if key in asked}
        found = [option for option, without in every.items() if not is_there(*without)]
        return found or ([] if is_there(of_file, []) else [*every])

    def _built(self, point: axes.Point, asked: Mapping[str, object] | None,
               settings: Sequence[tuple[str, str]]) -> Scenario:
        source = self.source.copy()
        origins = {key: f"--sweep {key}" if asked and key in asked else f"{self.sweep}.{key}" for key in point}
        in_file = f"{source.path}:{source.line(self.sweep)}: "
        parameters: Section = {}
        owned: dict[str, list[str]] = {}        # choice -> fields that its option decides
        for name, choice in self.choices.items():
            wanted = point.get(name) or self._chosen.get(name) or choice.default
            if wanted not in choice.options:
                origin = f"{origins[name]}: " if name in point else ""
                raise UsageError(f"{origin}{name} {wanted}: {self._name} has {name} {', '.join(choice.options)} "
                                 f"({source.path}:{source.line(f'choices.{name}')})")
            parameters[name] = wanted
            owned[name] = [self._put(source, key, value, f"choices.{name}.options.{written}.{key}")
                           for written, fields_of in [choice.options[wanted]] for key, value in fields_of.items()]
        changed = []
        if self._version:
            parameters[self._version] = True
            for key, value in source.mapping(self._version).items():
                if key == "sweep":
                    continue
                written = self._put(source, key, value, f"{self._version}.{key}")
                if not _overlap("timing", written):     # that a short version is shorter needs no saying
                    changed.append(written)
        said: dict[str, str] = {}
        given_settings: dict[str, str] = {}
        for key, text in settings:
            for written in self._put_all(source, key, text, f"--set {key}", f"--set {key}"):
                if said.setdefault(written, key) != key:
                    raise UsageError(f"--set {key}: {said[written]} is {written}, too; which of them?")
                changed.append(written)
            given_settings[key] = text
        if given_settings:
            parameters["set"] = given_settings
        for key, text in point.items():
            if key not in self.choices:
                origin = origins[key] if origins[key].startswith("--") else in_file + origins[key]
                changed += self._put_all(source, key, text, origin, origins[key])
        for name, keys in owned.items():
            if any(_overlap(key, other) for key in keys for other in changed):
                del parameters[name]
        for name in self._extra_probes:
            if name not in probes.names():
                raise UsageError(f"--probe {name}: no such probe; {guesses.alternatives(name, probes.names())}")
            if name not in source.mapping("probes"):
                source.put(f"probes.{name}", {}, f"--probe {name}")
        return dataclasses.replace(
            _build(source, parameters, {name: list(choice.options) for name, choice in self.choices.items()}),
            units={name: choice.unit for name, choice in self.choices.items() if choice.unit})

    def _put_all(self, source: YamlFile, key: str, text: str, option: str, origin: str) -> list[str]:
        """Set the fields that a key stands for; option: who says so, for errors of the text. The fields' own names."""
        value = parse_setting(option, text)
        if self.parameters.names and key not in self.parameters.names and key.partition(".")[0] not in _SETTABLE:
            raise ScenarioError(f"{origin}: no such parameter or section; parameters are: "
                                f"{', '.join(self.parameters.names)}; sections are: {', '.join(sorted(_SETTABLE))}"
                                f"{guesses.question(key, [*self.parameters.names, *_SETTABLE])}")
        return [self._put(source, field, value, origin) for field in self.parameters.fields(key)]

    @staticmethod
    def _put(source: YamlFile, key: str, value: object, origin: str) -> str:
        if key.partition(".")[0] not in _SETTABLE:
            message = f"no such section; sections are: {', '.join(sorted(_SETTABLE))}" \
                + guesses.question(key.partition(".")[0], _SETTABLE)
            raise ScenarioError(f"{origin}: {message}") if origin.startswith("--") else source.error(origin, message)
        return source.put(key, value, origin)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """options: {name: (name as the file writes it, {field: value})}; unit: of options that are numbers."""
    default: str
    options: dict[str, tuple[str, Section]]
    unit: str = ""


def _choices(source: YamlFile) -> dict[str, _Choice]:
    found = {}
    for name, given in source.mapping("choices").items():
        if not re.fullmatch(NAME_PATTERN, name) or len(name) > LONGEST_NAME:
            raise source.error(f"choices.{name}", "a name of lower-case letters, digits, _ and - expected")
        if not isinstance(given, dict) or given.keys() - {"unit"} != {"default", "options"} or not given["options"] \
                or not isinstance(given["options"], dict):
            raise source.error(f"choices.{name}", "a mapping with 'default', 'options' and perhaps 'unit' expected")
        unit = given.get("unit", "")
        if not isinstance(unit, str) or not re.fullmatch(_UNIT_PATTERN, unit):
            raise source.error(f"choices.{name}.unit", "a unit of options that are numbers expected, such as BDP or ms")
        options: dict[str, tuple[str, Section]] = {}
        for written, settings in given["options"].items():
            field = f"choices.{name}.options.{written}"
            if not re.fullmatch(OPTION_PATTERN, written) or len(written) > LONGEST_NAME:
                raise source.error(field, "lower-case letters, digits, _ and - (inside also . and +) expected in the "
                                          "name of an option")
            if not isinstance(settings, dict):
                raise source.error(field, "a mapping of fields to values expected")
            same = next((other for other in options if _as_number(other) == _as_number(written)), None)
            if same is not None:
                raise source.error(field, f"cannot be told from option {same}")
            options[written] = (written, settings)
        default = source.texts.get(f"choices.{name}.default", "")
        if default not in options:
            same = next((other for other in options if _as_number(other) == _as_number(default)), None)
            if same is None:
                raise source.error(f"choices.{name}.default", f"one of {', '.join(options)} expected, not {default!r}")
            default = same
        found[name] = _Choice(default, options, unit)
    return found


def _as_number(text: str) -> object:
    """01 and '1' are the same option."""
    return int(text) if text.isdecimal() else text


def _place(problem: str) -> list[str]:
    """File, line and field of an error, whatever it says of them."""
    return problem.split(": ")[:2]


def _setting(setting: str) -> tuple[str, str]:
    key, separator, text = setting.partition("=")
    if not separator or not key.strip() or not text.strip():
        raise UsageError(f"--set {setting}: key=value expected, such as traffic.load=70%")
    if not key.isprintable() or len(key) > 500:
        raise UsageError("--set: a printable name of a field expected in front of =")
    return key.strip(), text


def _overlap(one: str, other: str) -> bool:
    """True if one field is the other or inside of it."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


# -- sections -> Scenario -----------------------------------------------------------------------

def _build(source: YamlFile, parameters: Section, choices: dict[str, list[str]]) -> Scenario:
    tree = source.tree
    for key in _SETTABLE & tree.keys():
        source.check_keys(key)
    name = tree["name"]
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name) or len(name) > LONGEST_NAME:
        raise source.error("name", f"at most {LONGEST_NAME} lower-case letters, digits, _ and - expected")
    timing = section(source, "timing", lambda: fields.decode(Timing, tree["timing"]))
    asked_hosts = section(source, "hosts", lambda: fields.decode(end_hosts.HostsSection, tree.get("hosts")))
    defaults = section(source, "defaults", lambda: fields.decode(DefaultsSection, tree.get("defaults")))
    given = cast(dict[str, object], tree["topology"])
    topology = section(source, "topology", lambda: topologies.complete(given))
    section(source, "topology", lambda: topologies.in_time(given, timing.duration_us))
    resolved = section(source, "topology", lambda: topologies.resolve(given, timing.duration_us))
    network = section(source, "hosts", lambda: end_hosts.apply(asked_hosts, resolved))
    components = sections.components(source, tree["traffic"], timing.duration_us)
    sections.sensible(source, components, network, timing)
    hosts, network = usual_jitter.apply(asked_hosts, components, resolved)
    asked = sections.asked_options(source, tree.get("kernel"))
    return Scenario(
        name=name, title=sections.text(source, tree, "title") or name, source=sections.text(source, tree, "source"),
        description=descriptions.filled(sections.text(source, tree, "description"), [tree]), topology=topology,
        network=network, traffic=components,
        timing=timing, hosts=fields.encode(hosts), probes=sections.probes(source, tree.get("probes"), network),
        parameters=parameters, default_ccas=list(defaults.ccas), default_seeds=defaults.seeds, choices=choices,
        listed=isinstance(tree["traffic"], list), file=source, cca_places=sections.cca_places(source, components),
        expect=section(source, "expect", lambda: expectations.decode(
            source.tree.get("expect"), components, timing.prefill_us + timing.warmup_us, timing.duration_us)),
        search=section(source, "search", lambda: search_space.decode(source, Parameters(source, _SECTIONS, _SETTABLE))),
        asked_options=asked, usual_jitter=hosts != asked_hosts and hosts.jitter_us != 0,
        kernel_options=tuple(sorted({*asked, *topologies.kernel_options(network)})))
