# SPDX-License-Identifier: GPL-2.0-only
"""Scenario files -> typed objects.

A scenario is one YAML file in `scenarios/`. What it says is validated here and by the
topology and traffic it names; every error names file, line and field.
"""
import dataclasses
import pathlib
import re

import yaml

import topologies
import traffic
from testbed import PROJECT_DIR, probes, units
from testbed.errors import UsageError
from testbed.yaml_file import YamlFile

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
    choices: dict = dataclasses.field(default_factory=dict)     # {name: [options]}

    def resolved(self):
        """All parameters as a JSON-able dict."""
        fields = dataclasses.asdict(self)
        for key in ("default_ccas", "default_seeds", "choices"):
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
    source = YamlFile(path, _SECTIONS)
    tree = source.tree
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
            raise UsageError(f"{name} {wanted}: {tree['name']} has {name} {', '.join(options)} "
                             f"({path}:{source.line(f'choices.{name}')})")
        parameters[name] = wanted
        for key, value in options[wanted].items():
            source.put(key, value, f"choices.{name}.options.{wanted}.{key}")
    for name in choices or {}:
        if choices[name] is not None and name not in source.mapping("choices"):
            others = ", ".join(source.mapping("choices")) or "none at all"
            raise UsageError(f"{name} {choices[name]}: scenario {tree['name']} has no choice of {name}; its choices: {others}")
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
        default_ccas=list(defaults["ccas"]), default_seeds=int(defaults["seeds"]),
        choices={name: [str(option) for option in choice["options"]] for name, choice in source.mapping("choices").items()})
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


def from_resolved(fields):
    """The Scenario that a run's scenario.json describes."""
    known = {f.name for f in dataclasses.fields(Scenario)}
    return Scenario(**{**{k: v for k, v in fields.items() if k in known}, "timing": Timing(**fields["timing"]),
                       "default_ccas": [], "default_seeds": 1})
