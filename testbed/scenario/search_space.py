# SPDX-License-Identifier: GPL-2.0-only
"""The section `search` of a scenario: what `testbed search` may change, and within which bounds.

    search:
      fields:                                               what has another value from the start
        topology.central.right_to_left.rate: [2 Mbit/s, 5 Mbit/s, 50 Mbit/s]
        topology.central.right_to_left.loss: 0.01..0.1/0.01 %
      steps:                                                what changes while the run takes place
        topology.central.right_to_left: {most: 3, at: 1..8/0.5 s, delay: [50 ms, 200 ms]}

Fields, or parameters, are those that --set has. Values are a list, or a range from..to/step, as a sweep has them.
What is not changed has the value of the scenario. A change is a part of a candidate; the fewer parts it has and the
nearer its values are to those of the scenario, the simpler it is.
"""
import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from testbed.core import fields, units
from testbed.core.fields import FieldError
from testbed.core.yaml_file import YamlFile
from testbed.scenario import axes
from testbed.scenario.parameters import Parameters

#: what a schedule changes (topologies/links/schedule.py)
QUANTITIES = ("rate", "delay", "loss", "limit", "outage")
_FIELD = r"[a-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*"
_EXAMPLE = "topology.central.rate"
_MOST_STEPS = 100
#: several outages, one after the other
_ROW = re.compile(r"(\d+) x (\S.*\S) every (\S.*\S)")
_MOST_IN_ROW = 1000


@dataclasses.dataclass(frozen=True)
class Setting:
    """A part: a field that has another value from the start."""
    field: str
    value: str

    @property
    def text(self) -> str:
        return f"{self.field} = {self.value}"


@dataclasses.dataclass(frozen=True)
class Step:
    """A part: a quantity of a link direction that has another value from an instant on."""
    link: str
    quantity: str
    at: str
    value: str

    @property
    def text(self) -> str:
        if self.quantity == "outage":
            return f"outage of {self.link} for {self.value} at {self.at}"
        return f"{self.quantity} of {self.link} = {self.value} from {self.at} on"


Part = Setting | Step


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A scenario as it differs from the one that is searched."""
    settings: tuple[Setting, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.settings, *self.steps)

    def without(self, part: Part) -> "Candidate":
        return Candidate(tuple(one for one in self.settings if one != part),
                         tuple(one for one in self.steps if one != part))

    def replaced(self, part: Part, other: Part) -> "Candidate | None":
        """The same with another part in the place of one; None if there would be two of a kind at one time."""
        parts = [other if one == part else one for one in self.parts]
        steps = [one for one in parts if isinstance(one, Step)]
        if len({(one.link, one.quantity, one.at) for one in steps}) < len(steps):
            return None
        return Candidate(tuple(one for one in parts if isinstance(one, Setting)), in_order(steps))

    def options(self) -> list[str]:
        """As values of --set."""
        found = [f"{one.field}={one.value}" for one in self.settings]
        for link in dict.fromkeys(one.link for one in self.steps):
            texts = ", ".join(_entry(one) for one in in_order(self.steps) if one.link == link)
            found.append(f"{link}.schedule=[{texts}]")
        return found


def _entry(step: Step) -> str:
    """A step as an entry of a schedule."""
    row = _ROW.fullmatch(step.value) if step.quantity == "outage" else None
    if not row:
        return f"{{at: {step.at}, {step.quantity}: {_quoted(step.value)}}}"
    count, outage, every = row.groups()
    times = ", ".join(units.show("us", int(_amount(step.at) + number * _amount(every))) for number in range(int(count)))
    return f"{{at: [{times}], outage: {outage}}}"


def _quoted(value: str) -> str:
    """A value inside a mapping: a quantity or a number as it is, any other text as one word."""
    return value if _number(value) else json.dumps(value, ensure_ascii=False)


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Steps in the one order in which a candidate has them."""
    return tuple(sorted(steps, key=lambda one: (one.link, _amount(one.at), one.quantity)))


@dataclasses.dataclass(frozen=True)
class Field:
    """A field and the values it may have beside its usual one, the nearest to that first."""
    name: str
    values: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Steps:
    """Changes of a link direction: at most `most`, at these times; quantities: {name: values, the nearest first}."""
    link: str
    most: int
    at: tuple[str, ...]
    quantities: Mapping[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Space:
    """All candidates."""
    fields: tuple[Field, ...]
    steps: tuple[Steps, ...]

    def simpler(self, part: Part) -> list[Part]:
        """Parts that are a little simpler: the next value towards the usual one, and the time before."""
        place = self._values(part).index(part.value)
        found: list[Part] = [dataclasses.replace(part, value=self._values(part)[place - 1])] if place else []
        if isinstance(part, Step) and (place := self._times(part).index(part.at)):
            found.append(dataclasses.replace(part, at=self._times(part)[place - 1]))
        return found

    def _position(self, part: Part) -> int:
        """How far a part is from the simplest one with its field."""
        return self._values(part).index(part.value) + (self._times(part).index(part.at) if isinstance(part, Step)
                                                       else 0)

    def size(self, candidate: Candidate) -> tuple[int, int]:
        """Smaller for simpler candidates."""
        return len(candidate.parts), sum(map(self._position, candidate.parts))

    def single_parts(self) -> Iterator[tuple[str, Candidate]]:
        """(field of the section, candidate) of each value alone, to see that the scenario takes it."""
        for one in self.fields:
            for value in one.values:
                yield f"search.fields.{one.name}", Candidate((Setting(one.name, value),))
        for steps in self.steps:
            for name, values in steps.quantities.items():
                for value in values:
                    yield (f"search.steps.{steps.link}.{name}",
                           Candidate(steps=(Step(steps.link, name, steps.at[0], value),)))
            first = next(iter(steps.quantities))
            for at in steps.at:
                yield (f"search.steps.{steps.link}.at",
                       Candidate(steps=(Step(steps.link, first, at, steps.quantities[first][0]),)))

    def _times(self, step: Step) -> tuple[str, ...]:
        return next(steps.at for steps in self.steps if steps.link == step.link)

    def _values(self, part: Part) -> tuple[str, ...]:
        if isinstance(part, Setting):
            return next(one.values for one in self.fields if one.name == part.field)
        return next(steps.quantities[part.quantity] for steps in self.steps if steps.link == part.link)


# -- the section ----------------------------------------------------------------------------------

def _read_values(given: object) -> tuple[str, ...]:
    """Texts of values: a list of them, or a range."""
    if isinstance(given, bool) or given is None or isinstance(given, Mapping):
        raise FieldError("", f"a list of values, or a range such as 1..10/1 ms, expected, not {fields.show(given)}")
    if isinstance(given, (list, tuple)):
        if not given:
            raise FieldError("", "at least one value expected")
        found = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in given]
        if len(set(found)) < len(found):
            raise FieldError("", "a value is there twice")
        if len(found) > axes.MOST_POINTS:
            raise FieldError("", f"more than {axes.MOST_POINTS} values")
        return tuple(found)
    try:
        return tuple(axes.values(str(given)))
    except ValueError as problem:
        raise FieldError("", str(problem)) from None


def _read_times(given: object) -> tuple[str, ...]:
    """Values that are times."""
    found = _read_values(given)
    for one in found:
        if not _is_time(one):
            raise FieldError("", f"times such as 2 s expected, not {fields.show(one)}")
    return found


def _read_outages(given: object) -> tuple[str, ...]:
    """Values that are times, or several outages in a row."""
    found = _read_values(given)
    for one in found:
        row = _ROW.fullmatch(one)
        if not (_is_time(one) if row is None else
                1 < int(row[1]) <= _MOST_IN_ROW and _is_time(row[2]) and _is_time(row[3])
                and _amount(row[2]) < _amount(row[3])):
            raise FieldError("", f"times such as 500 ms, or several such as '3 x 500 ms every 1 s', expected, not "
                                 f"{fields.show(one)}")
    return found


def _is_time(text: str) -> bool:
    return _number(text) == ("us", _amount(text))


@dataclasses.dataclass(frozen=True)
class _StepsSection:
    """What of a link direction changes, how often at most, and when."""
    at: tuple[str, ...] = fields.custom(_read_times)
    most: int = fields.count(default=1, least=1, most=_MOST_STEPS)
    rate: tuple[str, ...] = fields.custom(_read_values, default=())
    delay: tuple[str, ...] = fields.custom(_read_values, default=())
    loss: tuple[str, ...] = fields.custom(_read_values, default=())
    limit: tuple[str, ...] = fields.custom(_read_values, default=())
    outage: tuple[str, ...] = fields.custom(_read_outages, default=())

    def __post_init__(self) -> None:
        if not any(getattr(self, name) for name in QUANTITIES):
            raise FieldError("", f"says nothing that changes: {', '.join(QUANTITIES[:-1])} or {QUANTITIES[-1]} "
                                 "expected")


_VALUES_BY_FIELD: dict[str, tuple[str, ...]] = fields.mapping(
    fields.custom(_read_values), _FIELD, _EXAMPLE, default={})
_STEPS_BY_LINK: dict[str, _StepsSection] = fields.mapping(fields.section(_StepsSection), _FIELD, _EXAMPLE, default={})


@dataclasses.dataclass(frozen=True)
class _Section:
    fields: dict[str, tuple[str, ...]] = _VALUES_BY_FIELD
    steps: dict[str, _StepsSection] = _STEPS_BY_LINK

    def __post_init__(self) -> None:
        if not self.fields and not self.steps:
            raise FieldError("", "says nothing that may change: fields or steps expected")


def decode(source: YamlFile, parameters: Parameters) -> Space | None:
    """The section of a scenario's file, None if it has none. FieldError with the name of the field inside.

    Usual values are those of the file as it is now, with choices and settings.
    """
    given = source.tree.get("search")
    if given is None:
        return None
    section = fields.decode(_Section, given)
    changing, said = [], dict[str, str]()
    for key, values in section.fields.items():
        for field in parameters.fields(key):
            if said.setdefault(field, key) != key:
                raise FieldError(f"fields.{key}", f"{said[field]} is {field}, too; which of them?")
        changing.append(Field(key, _others(values, _at(source, parameters.fields(key)[0]))))
    steps = []
    for link, one in section.steps.items():
        if f"{link}.schedule" in said:
            raise FieldError(f"steps.{link}", f"field {said[f'{link}.schedule']} is its schedule; which of them?")
        quantities = {name: _nearest_first(values, _usual(source, link, name))
                      for name in QUANTITIES if (values := getattr(one, name))}
        steps.append(Steps(link, one.most, one.at, quantities))
    return Space(tuple(changing), tuple(steps))


def _usual(source: YamlFile, link: str, quantity: str) -> object:
    """What a quantity of a link direction is before any step."""
    if quantity == "outage":
        return "0 s"
    return _at(source, f"{link}.queue.limit" if quantity == "limit" else f"{link}.{quantity}")


def check(space: Space, source: YamlFile) -> None:
    """FieldError if the scenario itself has nothing for a field or for steps to change."""
    for one in space.fields:
        if not one.values:
            raise FieldError(f"search.fields.{one.name}", "no value but the one that the scenario has anyway")
    for steps in space.steps:
        if _at(source, f"{steps.link}.schedule") is not None:
            raise FieldError(f"search.steps.{steps.link}", "the link has a schedule already; steps would take its "
                                                           "place")


def _at(source: YamlFile, field: str) -> object:
    """What the file has at a field; None for what it leaves out."""
    found: object = source.tree
    for part in source.written(field).split(".") if source.written(field).count(".") == field.count(".") else ():
        if isinstance(found, list):
            found = found[int(part) - 1] if part.isdecimal() else next(
                (one for one in found if isinstance(one, Mapping) and part in (one.get("name"), one.get("kind"))), None)
        else:
            found = found.get(part) if isinstance(found, Mapping) else None
    return None if found is source.tree else found


def _others(values: tuple[str, ...], usual: object) -> tuple[str, ...]:
    """Values other than the usual one, the nearest first."""
    text = usual if isinstance(usual, str) else json.dumps(usual, ensure_ascii=False)
    same = _number(text)
    return _nearest_first([one for one in values if one != text and (same is None or _number(one) != same)], usual)


def _nearest_first(values: Sequence[str], usual: object) -> tuple[str, ...]:
    """In order of the distance from a usual value, by factors where all are above zero; else as they are."""
    text = usual if isinstance(usual, str) else json.dumps(usual, ensure_ascii=False)
    numbers = [_number(one) for one in (text, *values)]
    known = [one for one in numbers if one is not None]
    if len(known) < len(numbers) or len({unit for unit, _ in known}) > 1:
        return tuple(values)
    amounts = [float(amount) for _, amount in known]
    if min(amounts) > 0:
        amounts = [math.log(amount) for amount in amounts]
    distances = {value: abs(amount - amounts[0]) for value, amount in zip(values, amounts[1:])}
    return tuple(sorted(values, key=lambda value: round(distances[value], 12)))


def _number(text: str) -> tuple[str, Decimal] | None:
    """(unit, amount) of a quantity or a number; None of any other text."""
    try:
        found = units.parse(text)
        return (found[0], Decimal(str(found[1]))) if found else ("", Decimal(text))
    except (ValueError, ArithmeticError):
        return None


def _amount(text: str) -> Decimal:
    """Of what is known to be a quantity."""
    found = _number(text)
    return found[1] if found else Decimal(0)
