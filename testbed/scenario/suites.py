# SPDX-License-Identifier: GPL-2.0-only
"""Suites: lists of scenarios that one command runs, one file each in suites/, found by listing.

A suite with a baseline is judged: what is tested is compared with the baseline. A suite without one only
runs its parts, with its congestion controls and seeds, or each scenario's own. The suite `all` has no file: its
parts are all scenarios.

    title: Common TCP Evaluation Suite
    baseline: sack                      what the congestion controls under test are compared with
    ccas: [cubic]                       those, unless --cca names others
    seeds: 3
    quick: {seeds: 3}
    deviations: [{what: ..., why: ...}]         of all parts
    parts:                              in the order of the report
      - name: access-link
        section: 4.2                    where the source describes it
        scenario: access-link
        sweep: {load: [60, 85, 110]}    as for --sweep; choices: as for --choose; set: as for --set
        quick: {sweep: {load: [60]}}    instead of these, in the short version
        ccas: [cubic, bbr]              instead of the suite's, in a suite without a baseline
        beside: reno                    even flows use it: cubic+reno, bbr+reno
        speed: 5                        seconds of virtual time in a second of wall time, until runs say it
        engines: {ns3: 4.4, ns2: 1.4}   where it runs, with the wall seconds of a run, until runs say it
        outputs: [{metric: drop_rate, scope: right_to_left, label: packets dropped, better: lower}]
        parameters: [{what: central link, published: 100 Mbit/s, run: topology.central.right_to_left.rate_bps}]
        deviations: [{what: ..., why: ...}]
      - {name: wireless-lan, section: 4.2, not_run: why it is not}

In the values of `set`, {baseline} stands for the baseline. A parameter as run is either a field of the resolved
scenario (`run`), or words (`text`). Everything is text until parsed; quantities are not converted.
"""
import dataclasses
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from testbed import PROJECT_DIR
from testbed.core import fields, guesses, metric_names
from testbed.core.errors import ScenarioError, UsageError
from testbed.core.fields import FieldError
from testbed.core.yaml_file import YamlFile
from testbed.scenario import ccas, scenario
from testbed.scenario.sections import LONGEST_NAME, NAME_PATTERN

FOLDER = PROJECT_DIR / "suites"
#: the suite of all scenarios
ALL = "all"
#: which values of an output are better; one: those nearer to 1, of a ratio; none: neither
BETTER = ("lower", "higher", "one", "none")
_NUMBER = r"[0-9]{1,9}(\.[0-9]{1,9})?"
_KEY = r"[A-Za-z][A-Za-z0-9._-]*"
_MOST = 200
_Default = TypeVar("_Default")


def _name() -> str:
    return fields.word(pattern=f"(?!.{{{LONGEST_NAME + 1}}}){NAME_PATTERN}", example="access-link")


def _sentence(default: str = fields.REQUIRED) -> str:
    """Words on one line, whatever lines they were written in."""
    read = fields.reader(fields.text())

    def one_line(value: object) -> str:
        text = " ".join(read(value).split())
        if not text or not text.isprintable():
            raise FieldError("", "printable text expected")
        return text
    return fields.custom(one_line, default)


def _real(default: _Default = fields.REQUIRED) -> float | _Default:
    read = fields.reader(fields.word(pattern=_NUMBER, example="2.5"))

    def above_zero(value: object) -> float:
        if float(read(value)) == 0:
            raise FieldError("", "a number above 0 expected")
        return float(read(value))
    return fields.custom(above_zero, default)


def _count(default: _Default = fields.REQUIRED) -> int | _Default:
    read = fields.reader(fields.word(pattern="[1-9][0-9]{0,2}", example="3"))
    return fields.custom(lambda value: int(read(value)), default)


def _values(default: _Default = fields.REQUIRED) -> dict[str, tuple[str, ...]] | _Default:
    """{field or choice: values}"""
    return fields.mapping(fields.listing(fields.word(), least=1, most=1000, distinct=True, single=True), keys=_KEY,
                          example="topology.central.queue.limit", default=default)


def _settings(default: _Default = fields.REQUIRED) -> dict[str, str] | _Default:
    return fields.mapping(fields.word(), keys=_KEY, example="timing.test", default=default)


@dataclasses.dataclass(frozen=True)
class Deviation:
    """What is not as the source says, and why."""
    what: str = _sentence()
    why: str = _sentence()


@dataclasses.dataclass(frozen=True)
class Output:
    """A number that the source asks for: a metric of a scope."""
    metric: str = fields.word(pattern="[a-z][a-z0-9_]*", example="drop_rate")
    scope: str = fields.word(default="all")
    label: str = _sentence()
    better: str = fields.word(choices=BETTER)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter as published, and where it stands in the resolved scenario (run), or as run in words (text)."""
    what: str = _sentence()
    published: str = _sentence()
    run: str = fields.word(default="", pattern=_KEY, example="timing.test_us")
    text: str = _sentence(default="")

    def __post_init__(self) -> None:
        if bool(self.run) == bool(self.text):
            raise FieldError("run", "either run or text expected")


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is asked of a scenario."""
    choices: dict[str, str] = _settings(default={})
    sweep: dict[str, tuple[str, ...]] = _values(default={})
    set: dict[str, str] = _settings(default={})


@dataclasses.dataclass(frozen=True)
class QuickPart:
    """What the short version has instead; None: the same."""
    choices: dict[str, str] | None = _settings(default=None)
    sweep: dict[str, tuple[str, ...]] | None = _values(default=None)
    set: dict[str, str] | None = _settings(default=None)
    speed: float | None = _real(default=None)


@dataclasses.dataclass(frozen=True)
class Part(Selection):
    """A scenario of the suite, or why it is not run."""
    name: str = _name()
    title: str = _sentence(default="")
    section: str = _sentence(default="")
    scenario: str = fields.word(default="")
    not_run: str = _sentence(default="")
    quick: QuickPart = fields.section(QuickPart, default={})
    ccas: tuple[str, ...] = fields.listing(fields.word(), default=(), least=1, most=100)
    beside: str = fields.word(default="")
    speed: float = _real(default=1.0)
    engines: dict[str, float] = fields.mapping(_real(), keys=_KEY, example="ns3", default={})
    outputs: tuple[Output, ...] = fields.listing(fields.section(Output), default=(), most=_MOST)
    parameters: tuple[Parameter, ...] = fields.listing(fields.section(Parameter), default=(), most=_MOST)
    deviations: tuple[Deviation, ...] = fields.listing(fields.section(Deviation), default=(), most=_MOST)

    def __post_init__(self) -> None:
        if bool(self.scenario) == bool(self.not_run):
            raise FieldError("scenario", "either scenario or not_run expected")
        if len({(one.metric, one.scope) for one in self.outputs}) < len(self.outputs):
            raise FieldError("outputs", "a metric of a scope is there twice")

    def selection(self, short: bool) -> Selection:
        """Of the whole suite or of a short version."""
        names = ("choices", "sweep", "set")
        return Selection(**{name: getattr(self, name) if not short or getattr(self.quick, name) is None
                            else getattr(self.quick, name) for name in names})

    def subjects(self, ccas: Sequence[str]) -> str:
        """What --cca is for these congestion controls, with the one that even flows use; '' if it is the scenario's."""
        return ",".join(f"{cca}+{self.beside}" if self.beside and cca != self.beside else cca for cca in ccas)

    def expected_speed(self, short: bool) -> float:
        """Seconds of virtual time in a second of wall time."""
        return self.quick.speed if short and self.quick.speed else self.speed

    def words(self, version: str, baseline: str) -> list[str]:
        """Arguments of `testbed run` for the scenario and its fields. A scenario without that short version runs in
        full; baseline: what {baseline} stands for."""
        asked = self.selection(bool(version))
        words = [self.scenario, *([f"--{version}"] if version in scenario.versions(self.scenario) else [])]
        for name, option in asked.choices.items():
            words += ["--choose", f"{name}={option}"]
        for key, value in asked.set.items():
            words += ["--set", f"{key}={value.replace('{baseline}', baseline)}"]
        for key, values in asked.sweep.items():
            words += ["--sweep", f"{key}={','.join(values)}"]
        return words


@dataclasses.dataclass(frozen=True)
class QuickSuite:
    seeds: int | None = _count(default=None)


@dataclasses.dataclass(frozen=True)
class Suite:
    """A suite file."""
    title: str = _sentence()
    source: str = _sentence(default="")
    description: str = _sentence(default="")
    baseline: str = fields.word(default="")
    ccas: tuple[str, ...] = fields.listing(fields.word(), default=(), least=1, most=100)
    seeds: int | None = _count(default=None)
    quick: QuickSuite = fields.section(QuickSuite, default={})
    deviations: tuple[Deviation, ...] = fields.listing(fields.section(Deviation), default=(), most=_MOST)
    parts: tuple[Part, ...] = fields.listing(fields.section(Part), least=1, most=_MOST)
    name: str = ""
    file: YamlFile | None = None

    def __post_init__(self) -> None:
        for name in ("source", "ccas", "seeds"):
            if self.baseline and not getattr(self, name):
                raise FieldError(name, "is missing: a suite with a baseline needs it")
        for number, part in enumerate(self.parts, start=1):
            if self.baseline and not part.section:
                raise FieldError(f"parts.{number}.section", "is missing: a suite with a baseline needs it")
            for name in ("ccas", "beside"):
                if self.baseline and getattr(part, name):
                    raise FieldError(f"parts.{number}.{name}", "the suite's congestion controls are those of all parts "
                                     "where it has a baseline")
            if part.scenario and bool(part.outputs) != bool(self.baseline):
                raise FieldError(f"parts.{number}.outputs", "at least one expected" if self.baseline else
                                 "they need a baseline to be compared with")

    def part(self, name: str) -> Part:
        """By its name; KeyError."""
        return {one.name: one for one in self.parts}[name]

    def in_file(self, part: Part, short: bool, problem: UsageError) -> str:
        """What `testbed run` says of a part's choices, sweep or set, with file, line and field of the suite."""
        said = str(problem)
        if self.file is None:
            return said
        number = 1 + [one.name for one in self.parts].index(part.name)
        for section, option in (("sweep", "--sweep {}"), ("set", "--set {}"), ("choices", "{} ")):
            of_quick = short and getattr(part.quick, section) is not None
            for key in getattr(part.selection(short), section):
                name = option.format(key)
                if said.startswith(name) or name.startswith("--") and f" {name}:" in said:
                    place = f"parts.{number}.{'quick.' * of_quick}{section}.{key}"
                    return f"{self.file.path}:{self.file.line(place)}: {place}: {said.removeprefix(f'{name}: ')}"
        # what a scenario file says wrong is said with its own line
        return said if isinstance(problem, ScenarioError) else str(self.file.error(f"parts.{number}", said))


def names() -> list[str]:
    """Names of all suites."""
    return [ALL, *sorted(path.stem for path in FOLDER.glob("*.yaml"))]


def load(name_or_path: str) -> Suite:
    """A suite by its name or file. UsageError if there is none, ScenarioError (file:line: field: ...) if it makes no
    sense."""
    path = pathlib.Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UsageError(f"{path}: no such suite file")
        return read(path)
    if name_or_path not in names():
        raise UsageError(f"no suite {name_or_path!r}; {guesses.alternatives(name_or_path, names())} (or give the path "
                         "of a .yaml file)")
    if name_or_path == ALL:
        return Suite(title="All scenarios", name=ALL, parts=tuple(
            Part(name=name, scenario=name) for name in scenario.names()))
    return read(FOLDER / f"{name_or_path}.yaml")


def read(path: pathlib.Path) -> Suite:
    """The suite of a file. ScenarioError; its scenarios, metrics and its baseline are looked for, and not read."""
    file = YamlFile(path, {field.name for field in dataclasses.fields(Suite)} - {"name", "file"})
    if not re.fullmatch(NAME_PATTERN, path.stem) or len(path.stem) > LONGEST_NAME:
        raise file.error("", "the file's name is the suite's: lower-case letters, digits, _ and - expected, not "
                             f"{path.stem[:60]!r}")
    try:
        suite = fields.decode(Suite, _as_text(file, file.tree, ""))
    except FieldError as problem:
        raise file.error(problem.field, str(problem)) from None
    known: dict[str, int] = {}
    for number, part in enumerate(suite.parts, start=1):
        if known.setdefault(part.name, number) != number:
            raise file.error(f"parts.{number}.name", f"part {known[part.name]} is called {part.name}, too")
        if part.scenario:
            _look_for(file, f"parts.{number}.scenario", lambda: scenario.find(_beside(path, part.scenario)))
        for place, output in enumerate(part.outputs, start=1):
            if output.metric not in metric_names.units():
                raise file.error(f"parts.{number}.outputs.{place}.metric",
                                 f"no such metric; {guesses.alternatives(output.metric, sorted(metric_names.units()))}")
    if suite.baseline:
        _look_for(file, "baseline", lambda: ccas.parse(suite.baseline))
    return dataclasses.replace(suite, name=path.stem, file=file, parts=tuple(
        dataclasses.replace(part, scenario=_beside(path, part.scenario)) for part in suite.parts))


def _beside(path: pathlib.Path, name: str) -> str:
    """A scenario file is meant as seen from the suite's."""
    return str(path.parent / name) if name.endswith((".yaml", ".yml")) else name


def _look_for(file: YamlFile, field: str, find: Callable[[], object]) -> None:
    try:
        find()
    except ScenarioError:
        raise
    except UsageError as problem:
        raise file.error(field, str(problem).removeprefix("--cca: ")) from None


def _as_text(file: YamlFile, value: object, field: str) -> object:
    """Values as they are written: 60, 0.5 and yes are words here."""
    if isinstance(value, dict):
        return {key: _as_text(file, inner, f"{field}.{key}".lstrip(".")) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_text(file, inner, f"{field}.{number}") for number, inner in enumerate(value, start=1)]
    return None if value is None else file.texts.get(field, str(value))
