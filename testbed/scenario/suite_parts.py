# SPDX-License-Identifier: GPL-2.0-only
"""Parts of suites: a scenario with what is asked of it, and how the fields of suite files are read.

Everything is text until parsed; quantities are not converted.
"""
import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from testbed.core import fields
from testbed.core.errors import ScenarioError, UsageError
from testbed.core.fields import FieldError
from testbed.core.yaml_file import YamlFile
from testbed.scenario import scenario
from testbed.scenario.sections import LONGEST_NAME, NAME_PATTERN

#: which values of an output are better; one: those nearer to 1, of a ratio; none: neither
BETTER = ("lower", "higher", "one", "none")
_NUMBER = r"[0-9]{1,9}(\.[0-9]{1,9})?"
_KEY = r"[A-Za-z][A-Za-z0-9._-]*"
MOST_PARTS = 200
_Default = TypeVar("_Default")


def part_name() -> str:
    return fields.word(pattern=f"(?!.{{{LONGEST_NAME + 1}}}){NAME_PATTERN}", example="access-link")


def sentence(default: str = fields.REQUIRED) -> str:
    """Words on one line, whatever lines they were written in."""
    read = fields.reader(fields.text())

    def one_line(value: object) -> str:
        text = " ".join(read(value).split())
        if not text or not text.isprintable():
            raise FieldError("", "printable text expected")
        return text
    return fields.custom(one_line, default)


def real(default: _Default = fields.REQUIRED) -> float | _Default:
    read = fields.reader(fields.word(pattern=_NUMBER, example="2.5"))

    def above_zero(value: object) -> float:
        if float(read(value)) == 0:
            raise FieldError("", "a number above 0 expected")
        return float(read(value))
    return fields.custom(above_zero, default)


def count(default: _Default = fields.REQUIRED) -> int | _Default:
    read = fields.reader(fields.word(pattern="[1-9][0-9]{0,2}", example="3"))
    return fields.custom(lambda value: int(read(value)), default)


def values(default: _Default = fields.REQUIRED) -> dict[str, tuple[str, ...]] | _Default:
    """{field or choice: values}"""
    return fields.mapping(fields.listing(fields.word(), least=1, most=1000, distinct=True, single=True), keys=_KEY,
                          example="topology.central.queue.limit", default=default)


def percent(default: _Default = fields.REQUIRED) -> float | _Default:
    read = fields.reader(fields.word(pattern=_NUMBER + " ?%", example="5 %"))
    return fields.custom(lambda value: float(read(value).rstrip(" %")), default)


def settings(default: _Default = fields.REQUIRED) -> dict[str, str] | _Default:
    return fields.mapping(fields.word(), keys=_KEY, example="timing.test", default=default)


def as_text(file: YamlFile, value: object, field: str) -> object:
    """Values as they are written: 60, 0.5 and yes are words here."""
    if isinstance(value, dict):
        return {key: as_text(file, inner, f"{field}.{key}".lstrip(".")) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_text(file, inner, f"{field}.{number}") for number, inner in enumerate(value, start=1)]
    return None if value is None else file.texts.get(field, str(value))


def beside(path: pathlib.Path, name: str) -> str:
    """A scenario file is meant as seen from the file that names it."""
    return str(path.parent / name) if name.endswith((".yaml", ".yml")) else name


def look_for(file: YamlFile, field: str, find: Callable[[], object]) -> None:
    """Raise what a search in vain says with the place of the field."""
    try:
        find()
    except ScenarioError:
        raise
    except UsageError as problem:
        raise file.error(field, str(problem).removeprefix("--cca: ")) from None


@dataclasses.dataclass(frozen=True)
class Deviation:
    """What is not as the source says, and why."""
    what: str = sentence()
    why: str = sentence()


@dataclasses.dataclass(frozen=True)
class Output:
    """A number that the source asks for: a metric of a scope."""
    metric: str = fields.word(pattern="[a-z][a-z0-9_]*", example="drop_rate")
    scope: str = fields.word(default="all")
    label: str = sentence()
    better: str = fields.word(choices=BETTER)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter as published, and where it stands in the resolved scenario (run), or as run in words (text)."""
    what: str = sentence()
    published: str = sentence()
    run: str = fields.word(default="", pattern=_KEY, example="timing.test_us")
    text: str = sentence(default="")

    def __post_init__(self) -> None:
        if bool(self.run) == bool(self.text):
            raise FieldError("run", "either run or text expected")


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is asked of a scenario."""
    choices: dict[str, str] = settings(default={})
    sweep: dict[str, tuple[str, ...]] = values(default={})
    set: dict[str, str] = settings(default={})


@dataclasses.dataclass(frozen=True)
class QuickPart:
    """What the short version sets and chooses besides, and what it sweeps instead; None: the same."""
    choices: dict[str, str] = settings(default={})
    sweep: dict[str, tuple[str, ...]] | None = values(default=None)
    set: dict[str, str] = settings(default={})
    speed: float | None = real(default=None)


@dataclasses.dataclass(frozen=True)
class Part(Selection):
    """A scenario of the suite, or why it is not run."""
    name: str = part_name()
    title: str = sentence(default="")
    section: str = sentence(default="")
    scenario: str = fields.word(default="")
    not_run: str = sentence(default="")
    quick: QuickPart = fields.section(QuickPart, default={})
    ccas: tuple[str, ...] = fields.listing(fields.word(), default=(), least=1, most=100)
    beside: str = fields.word(default="")
    speed: float = real(default=1.0)
    kernel: str = fields.word(default="")
    seeds: int | None = count(default=None)
    engines: dict[str, float] = fields.mapping(real(), keys=_KEY, example="ns3", default={})
    outputs: tuple[Output, ...] = fields.listing(fields.section(Output), default=(), most=MOST_PARTS)
    parameters: tuple[Parameter, ...] = fields.listing(fields.section(Parameter), default=(), most=MOST_PARTS)
    deviations: tuple[Deviation, ...] = fields.listing(fields.section(Deviation), default=(), most=MOST_PARTS)

    def __post_init__(self) -> None:
        if bool(self.scenario) == bool(self.not_run):
            raise FieldError("scenario", "either scenario or not_run expected")
        if len({(one.metric, one.scope) for one in self.outputs}) < len(self.outputs):
            raise FieldError("outputs", "a metric of a scope is there twice")

    def selection(self, short: bool) -> Selection:
        """Of the whole suite or of a short version."""
        quick = self.quick if short else QuickPart()
        return Selection(choices={**self.choices, **quick.choices}, set={**self.set, **quick.set},
                         sweep=self.sweep if quick.sweep is None else quick.sweep)

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
