# SPDX-License-Identifier: GPL-2.0-only
"""Scenario files -> typed objects.

A scenario is one YAML file in `scenarios/`. What it says is validated here and by the
topology and traffic it names; every error names file, line and field.
"""
import copy
import dataclasses
import pathlib
import re

import yaml

import topologies
import traffic
from testbed import PROJECT_DIR, probes, units
from testbed.errors import ScenarioError, UsageError

SCENARIO_DIR = PROJECT_DIR / "scenarios"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SECTIONS = {"name", "title", "source", "description", "topology", "traffic", "timing", "hosts",
             "probes", "defaults", "choices", "quick"}


@dataclasses.dataclass
class Timing:
    """The three parts of an experiment; metrics are taken over the last."""
    prefill_us: int
    warmup_us: int
    test_us: int

    @property
    def duration_us(self):
        return self.prefill_us + self.warmup_us + self.test_us


@dataclasses.dataclass
class Scenario:
    """A scenario with every choice made. Sections hold SI numbers, units in the keys."""
    name: str
    title: str
    source: str
    description: str
    topology: dict
    traffic: dict
    timing: Timing
    hosts: dict
    probes: dict
    parameters: dict        # the choices, quick and --set values that led here
    default_ccas: list
    default_seeds: int

    def resolved(self):
        """All parameters as a JSON-able dict."""
        fields = dataclasses.asdict(self)
        for key in ("default_ccas", "default_seeds"):
            del fields[key]
        return fields


def names(folder=SCENARIO_DIR):
    """Names of the scenarios in a folder: the file names without .yaml."""
    return sorted(p.stem for p in pathlib.Path(folder).glob("*.yaml"))


def find(name_or_path):
    """The file of a scenario given by name or path. UsageError if there is none."""
    path = pathlib.Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UsageError(f"{path}: no such scenario file")
        return path
    if name_or_path not in names():
        raise UsageError(f"no scenario {name_or_path!r}; there are: {', '.join(names())} "
                         "(or give the path of a .yaml file)")
    return SCENARIO_DIR / f"{name_or_path}.yaml"


def load(name_or_path, choices=None, quick=False, settings=()):
    """Read a scenario and make its choices.

    choices: {name: option}, e.g. {"load": "60"}; quick: apply its `quick` section;
    settings: "key=value" strings, keys as in the file, dotted.
    Raises ScenarioError (file:line: field: ...) or UsageError.
    """
    path = find(name_or_path)
    source = _Source(path)
    tree = source.tree
    for key in tree:
        if key not in _SECTIONS:
            raise source.error(key, f"unknown section; sections are: {', '.join(sorted(_SECTIONS))}")
    for key in ("name", "topology", "traffic", "timing"):
        if key not in tree:
            raise source.error("", f"section {key!r} is missing")
        if key != "name" and not isinstance(tree[key], dict):
            raise source.error(key, "a mapping expected")
    if not isinstance(tree["name"], str) or not _NAME.fullmatch(tree["name"]):
        raise source.error("name", "lower-case letters, digits and hyphens expected")

    parameters = {}
    for name, choice in source.mapping("choices").items():
        if not isinstance(choice, dict) or "default" not in choice or not isinstance(choice.get("options"), dict):
            raise source.error(f"choices.{name}", "a mapping with 'default' and 'options' expected")
        options = {str(k): v for k, v in choice["options"].items()}
        wanted = str((choices or {}).get(name) or choice["default"])
        if not all(isinstance(fields, dict) for fields in options.values()):
            raise source.error(f"choices.{name}.options", "a mapping of fields to values expected for each option")
        if wanted not in options:
            raise UsageError(f"--{name} {wanted}: {tree['name']} has {name} {', '.join(options)} "
                             f"({path}:{source.line(f'choices.{name}')})")
        parameters[name] = wanted
        for key, value in options[wanted].items():
            source.put(key, value, f"choices.{name}.options.{wanted}.{key}")
    for name in choices or {}:
        if choices[name] is not None and name not in source.mapping("choices"):
            raise UsageError(f"--{name}: scenario {tree['name']} has no choice of {name}")
    if quick:
        if "quick" not in tree:
            raise UsageError(f"--quick: scenario {tree['name']} has no quick version")
        parameters["quick"] = True
        for key, value in source.mapping("quick").items():
            source.put(key, value, f"quick.{key}")
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator or not key:
            raise UsageError(f"--set {setting}: key=value expected, such as traffic.load=70%")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise UsageError(f"--set {setting}: {text!r} is not a value") from None
        parameters.setdefault("set", {})[key] = text
        source.put(key, value, f"--set {key}")
    return _build(source, parameters)


def _build(source, parameters):
    tree = source.with_units()
    timing = source.section(tree, "timing", {"prefill_us": 0, "warmup_us": 0, "test_us": None})
    if timing["test_us"] <= 0:
        raise source.error("timing.test", "must be longer than 0 s")
    hosts = source.section(tree, "hosts", {"ecn": 0, "sack": 1, "sysctls": {}})
    if not isinstance(hosts["sysctls"], dict):
        raise source.error("hosts.sysctls", "a mapping expected")
    for name, highest in (("ecn", 2), ("sack", 1)):
        if not isinstance(hosts[name], int) or not 0 <= hosts[name] <= highest:
            raise source.error(f"hosts.{name}", f"a number from 0 to {highest} expected")
    for name in hosts["sysctls"]:
        if not re.fullmatch(r"net\.ipv4\.[a-z0-9_.]+", str(name)):
            raise source.error(f"hosts.sysctls.{name}", "only net.ipv4.* can be set per host")
    defaults = source.section(tree, "defaults", {"ccas": ["cubic"], "seeds": 1})
    if not isinstance(defaults["ccas"], list) or not defaults["ccas"] or not all(isinstance(c, str) for c in defaults["ccas"]):
        raise source.error("defaults.ccas", "a list of names expected")
    if isinstance(defaults["seeds"], bool) or not isinstance(defaults["seeds"], int) or defaults["seeds"] < 1:
        raise source.error("defaults.seeds", "a number from 1 expected")
    for name, settings in source.mapping("probes").items():
        if not isinstance(settings or {}, dict):
            raise source.error(f"probes.{name}", "a mapping expected")
    probe_sections = tree.get("probes") or {}
    for name, settings in probe_sections.items():
        if name not in probes.names():
            raise source.error(f"probes.{name}", f"no such probe; there are: {', '.join(probes.names())}")
        interval_us = (settings or {}).get("interval_us", 10_000)
        if "interval" in (settings or {}) or not isinstance(interval_us, int):
            raise source.error(f"probes.{name}.interval", f"a value with a unit such as '{units.EXAMPLES['us']}' expected")
        if interval_us <= 0:
            raise source.error(f"probes.{name}.interval", "must be above 0")
    scenario = Scenario(
        name=tree["name"], title=str(tree.get("title", tree["name"])), source=str(tree.get("source", "")),
        description=" ".join(str(tree.get("description", "")).split()),
        topology=tree["topology"], traffic=tree["traffic"], timing=Timing(**timing), hosts=hosts,
        probes={k: v or {} for k, v in probe_sections.items()}, parameters=parameters,
        default_ccas=list(defaults["ccas"]), default_seeds=int(defaults["seeds"]))
    try:
        topo = topologies.from_section(scenario.topology)
    except (topologies.TopologyError, ValueError) as problem:
        raise source.error("topology." + getattr(problem, "field", "") if getattr(problem, "field", "")
                           else "topology", str(problem)) from None
    try:
        traffic.load(scenario.traffic.get("kind")).validate(scenario.traffic, topo.describe())
    except ValueError as problem:
        field = getattr(problem, "field", "")
        raise source.error(f"traffic.{field}" if field else "traffic", str(problem)) from None
    return scenario


class _Source:
    """A YAML file as a tree, and where each of its fields stands."""

    def __init__(self, path):
        self.path = path
        self._lines = {}
        self._origin = {}
        try:
            node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
            if not isinstance(node, yaml.MappingNode):
                raise ScenarioError(f"{path}:1: a mapping of sections expected")
            self._note_lines(node, "", depth=0)
            self.tree = yaml.SafeLoader("").construct_document(node)
        except OSError as problem:
            raise ScenarioError(f"{path}: {problem.strerror}") from None
        except UnicodeDecodeError:
            raise ScenarioError(f"{path}: not a text file in UTF-8") from None
        except yaml.YAMLError as problem:
            mark = getattr(problem, "problem_mark", None)
            line = mark.line + 1 if mark else 1
            raise ScenarioError(f"{path}:{line}: {getattr(problem, 'problem', None) or str(problem).splitlines()[0]}") from None
        except ValueError as problem:            # a date that is none, and the like
            raise ScenarioError(f"{path}: {problem}") from None

    def _note_lines(self, node, prefix, depth):
        if depth > 20:
            raise ScenarioError(f"{self.path}:{node.start_mark.line + 1}: nested too deeply")
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                name = f"{prefix}.{key.value}".lstrip(".")
                self._lines[name] = key.start_mark.line + 1
                self._note_lines(value, name, depth + 1)
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                self._note_lines(value, prefix, depth + 1)

    def line(self, field):
        """Line of a field, or of the closest section around it that the file has."""
        while field and field not in self._lines:
            field = field.rpartition(".")[0]
        return self._lines.get(field, 1)

    def error(self, field, message):
        """A ScenarioError that says where and which field."""
        plain = re.sub(r"_(bps|us|bytes|percent)$", "", str(field))
        origin = self._origin.get(plain, plain)
        if origin.startswith("--set"):
            return ScenarioError(f"{origin}: {message}")
        where = f"{self.path}:{self.line(origin)}"
        return ScenarioError(f"{where}: {plain}: {message}" if plain else f"{where}: {message}")

    def mapping(self, section):
        """A section that must be a mapping (empty if it is missing)."""
        value = self.tree.get(section) or {}
        if not isinstance(value, dict):
            raise self.error(section, "a mapping expected")
        return value

    def put(self, key, value, origin):
        """Override the field with dotted name `key`; `origin` says who did, for errors."""
        at = self.tree
        *sections, last = str(key).split(".")
        for depth, section in enumerate(sections):
            at = at.setdefault(section, {}) if isinstance(at, dict) else None
            if not isinstance(at, dict):
                self._origin[key] = origin
                raise self.error(key, f"{'.'.join(sections[:depth + 1])} is not a section")
        if sections and sections[0] not in _SECTIONS or not sections and key not in _SECTIONS:
            self._origin[key] = origin
            raise self.error(key, f"no such section; sections are: {', '.join(sorted(_SECTIONS))}")
        at[last] = copy.deepcopy(value)
        self._origin[key] = origin

    def with_units(self):
        """The tree with quantities as numbers and their units in the keys."""
        keep = {k: v for k, v in self.tree.items() if k not in ("choices", "quick")}
        return {k: v if k in ("name", "title", "source", "description") else self._convert(v, k)
                for k, v in keep.items()}

    def _convert(self, value, field):
        if isinstance(value, dict):
            converted = {}
            for key, inner in value.items():
                name = str(key)
                suffix, number = self._quantity(inner, f"{field}.{name}")
                converted[f"{name}_{suffix}" if suffix else name] = number
            return converted
        if isinstance(value, list):
            return [self._quantity(v, field)[1] for v in value]
        return value

    def _quantity(self, value, field):
        """(suffix or None, number or converted value)."""
        try:
            if isinstance(value, str):
                return units.parse(value) or (None, value)
            if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
                parsed = [units.parse(v) for v in value]
                if all(parsed) and len({suffix for suffix, _ in parsed}) == 1:
                    return parsed[0][0], [number for _, number in parsed]
        except ValueError as problem:
            raise self.error(field, str(problem)) from None
        return None, self._convert(value, field)

    def section(self, tree, name, fields):
        """A section with exactly `fields` ({key: default}; default None = required)."""
        given = tree.get(name) or {}
        if not isinstance(given, dict):
            raise self.error(name, "a mapping expected")
        for key in given:
            if key not in fields:
                raise self.error(f"{name}.{key}", self._hint(key, fields))
        values = {}
        for key, default in fields.items():
            if key not in given and default is None:
                raise self.error(name, f"{key.rsplit('_', 1)[0]!r} is missing")
            value = given.get(key, default)
            if key.endswith("_us") and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise self.error(f"{name}.{key}", f"a time >= 0 such as '{units.EXAMPLES['us']}' expected")
            values[key] = value
        return values

    @staticmethod
    def _hint(key, fields):
        for known in fields:
            stem, _, suffix = known.rpartition("_")
            if suffix in units.EXAMPLES and key in (stem, *(f"{stem}_{s}" for s in units.EXAMPLES)):
                return f"a value with a unit such as '{units.EXAMPLES[suffix]}' expected"
        plain = [re.sub(r"_(bps|us|bytes|percent)$", "", f) for f in fields]
        return f"unknown field; fields are: {', '.join(plain)}"


def from_resolved(fields):
    """The Scenario that a run's scenario.json describes."""
    known = {f.name for f in dataclasses.fields(Scenario)}
    return Scenario(**{**{k: v for k, v in fields.items() if k in known}, "timing": Timing(**fields["timing"]),
                       "default_ccas": [], "default_seeds": 1})
