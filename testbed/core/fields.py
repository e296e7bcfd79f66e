# SPDX-License-Identifier: GPL-2.0-only
"""One decoder for the typed sections of scenarios: what a section may hold is declared once.

    @dataclasses.dataclass(frozen=True)
    class CbrSection:
        rate_bps: int = fields.rate()                               # required: it has no default
        packet_bytes: int = fields.size(default=1000, least=64, most=65507)
        paths: tuple[str, ...] = fields.listing(fields.word(), default=())

    fields.decode(CbrSection, {"rate": "5 Mbit/s"}) -> CbrSection, as a person writes it
    fields.encode(section) -> {"rate_bps": 5_000_000, ...}, with its defaults filled in, which decode takes, too

Each field reads its own unit (testbed/core/units.py). Fields that differ in the unit only, such as `limit` and
`limit_us`, are one to a user: the value's unit decides. A section of YAML that is empty and a
field whose value is null count as not given. What needs two fields at once is checked in the
section's `__post_init__`, which raises FieldError as well.
"""
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast, overload

from testbed.core import guesses, units

_Section = TypeVar("_Section")
#: what a field reads, and its default
_Value = TypeVar("_Value")
_Other = TypeVar("_Other")
_Default = TypeVar("_Default")
_Decoder = Callable[[object], _Value]

#: the default of fields that have none, of whatever type they are
REQUIRED: Any = dataclasses.MISSING
#: whole numbers have 64 bits and a sign, as in JSON's readers and in the kernel
MOST_INTEGER = 2**63 - 1
_LONGEST_TEXT = 4096
_WITHOUT_UNIT = "a value without a unit"
_SUFFIX = re.compile(r"_(bps|us|bytes|percent|mm)$")


class FieldError(ValueError):
    """A field that makes no sense; `field` is its dotted name as the user spells it, without a unit."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field

    def inside(self, section: str) -> "FieldError":
        """The same error, seen from the section around it."""
        return FieldError(f"{section}.{self.field}".strip("."), str(self))


def plain(name: str) -> str:
    """A field's name as users spell it: without the unit."""
    return _SUFFIX.sub("", name)


def unit_of(name: str) -> str:
    """'us' for 'delay_us', '' for a name without a unit."""
    match = _SUFFIX.search(name)
    return match.group(1) if match else ""


def show(value: object) -> str:
    """A value in a message: short, on one line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):            # an integer of thousands of digits; a nest without end
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


# -- kinds of fields ---------------------------------------------------------------------------

def rate(default: _Default = REQUIRED, least: int = 1, most: int = MOST_INTEGER) -> int | _Default:
    """A rate in bit/s; its key ends in _bps."""
    return _field(_whole("bps", least, most), default)


def time(default: _Default = REQUIRED, least: int = 0, most: int = MOST_INTEGER) -> int | _Default:
    """A time in microseconds; its key ends in _us."""
    return _field(_whole("us", least, most), default)


def size(default: _Default = REQUIRED, least: int = 0, most: int = MOST_INTEGER) -> int | _Default:
    """A size in bytes; its key ends in _bytes."""
    return _field(_whole("bytes", least, most), default)


def mean_size(default: _Default = REQUIRED, least: float = 0, most: float = MOST_INTEGER) -> float | _Default:
    """A size in bytes that need not be whole, such as a mean; its key ends in _bytes."""
    return _field(_real("bytes", least, most, None), default)


def distance(default: _Default = REQUIRED, least: int = 0, most: int = MOST_INTEGER) -> int | _Default:
    """A distance in millimetres; its key ends in _mm."""
    return _field(_whole("mm", least, most), default)


def count(default: _Default = REQUIRED, least: int = 0, most: int = MOST_INTEGER) -> int | _Default:
    """A whole number without a unit."""
    return _field(_whole("", least, most), default)


def percent(default: _Default = REQUIRED, least: float | None = 0, most: float | None = 100,
            above: float | None = None) -> float | _Default:
    """A percentage; its key ends in _percent."""
    return _field(_real("percent", least, most, above), default)


def number(default: _Default = REQUIRED, least: float | None = None, most: float | None = None,
           above: float | None = None) -> float | _Default:
    """A finite number without a unit."""
    return _field(_real("", least, most, above), default)


def flag(default: _Default = REQUIRED) -> bool | _Default:
    """Yes or no."""
    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise FieldError("", f"yes or no expected, not {show(value)}")
        return value
    return _field(read, default)


def word(default: _Default = REQUIRED, choices: tuple[str, ...] = (), pattern: str = "",
         example: str = "") -> str | _Default:
    """Text on one line: one of `choices`, or what matches `pattern`, of which `example` is an example.

    YAML 1.1 reads the words on and off as true and false; among `choices` they are words.
    """
    expected = f"one of {', '.join(choices)} expected" if choices else "a word " * (not example) \
        + f"a value such as {example!r} " * bool(example) + "expected"

    def read(value: object) -> str:
        if isinstance(value, bool) and ("off", "on")[value] in choices:
            value = ("off", "on")[value]
        if not isinstance(value, str) or not value or choices and value not in choices \
                or pattern and not re.fullmatch(pattern, value):
            raise FieldError("", f"{expected}, not {show(value)}{guesses.question(value, choices)}")
        if len(value) > _LONGEST_TEXT or not value.isprintable():
            raise FieldError("", f"printable text on one line of at most {_LONGEST_TEXT} characters expected")
        return value
    return _field(read, default)


def text(default: _Default = REQUIRED, longest: int = _LONGEST_TEXT) -> str | _Default:
    """Any text, also of several lines; a whole number stands for its digits."""
    def read(value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or "\0" in value:
            raise FieldError("", f"text expected (in quotes, if it is no plain word), not {show(value)}")
        if len(value) > longest:
            raise FieldError("", f"text of at most {longest} characters expected")
        return value
    return _field(read, default)


def listing(of: _Value, default: _Default = REQUIRED, least: int = 0, most: int = 10_000, distinct: bool = False,
            single: bool = False) -> tuple[_Value, ...] | _Default:
    """A list, decoded to a tuple. single: one value may stand for a list of one."""
    decoder = reader(of)
    nested = _metadata(of)["nested"]

    def read(value: object) -> tuple[_Value, ...]:
        if single and not isinstance(value, (list, tuple)):
            value = [value]
        if not isinstance(value, (list, tuple)):
            raise FieldError("", f"a list expected, not {show(value)}")
        if not least <= len(value) <= most:
            raise FieldError("", f"a list of {f'at least {least}' if len(value) < least else f'at most {most}'} "
                                 f"expected, not of {len(value)}")
        items = []
        for position, item in enumerate(value, start=1):
            try:
                items.append(decoder(item))
            except FieldError as problem:
                raise (problem.inside(str(position)) if nested else problem) from None
        if distinct and len(set(items)) < len(items):
            raise FieldError("", "the same value is listed twice")
        return tuple(items)
    read.of = decoder                           # type: ignore[attr-defined]
    return _field(read, default)


def mapping(of: _Value, keys: str, example: str, default: _Default = REQUIRED,
            most: int = 1000) -> dict[str, _Value] | _Default:
    """A mapping from names that match `keys` (of which `example` is one) to values, for names not known here."""
    decoder = reader(of)

    def read(value: object) -> dict[str, _Value]:
        if not isinstance(value, Mapping):
            raise FieldError("", f"a mapping expected, not {show(value)}")
        if len(value) > most:
            raise FieldError("", f"a mapping of at most {most} names expected, not of {len(value)}")
        items = {}
        for name, item in value.items():
            if not isinstance(name, str) or len(name) > _LONGEST_TEXT or not re.fullmatch(keys, name):
                raise FieldError(name if isinstance(name, str) and name.isprintable() and len(name) < 60 else "",
                                 f"names such as {example!r} expected, not {show(name)}")
            try:
                items[name] = decoder(item)
            except FieldError as problem:
                raise problem.inside(name) from None
        return items
    return _field(read, default)


def either(first: _Value, second: _Other) -> _Value | _Other:
    """A value of the first of two kinds that takes it; for elements of lists and mappings."""
    def read(value: object) -> _Value | _Other:
        problems = []
        decoders: tuple[Callable[[object], _Value | _Other], ...] = reader(first), reader(second)
        for decoder in decoders:
            try:
                return decoder(value)
            except FieldError as problem:
                problems.append(str(problem).removesuffix(f", not {show(value)}").removesuffix(" expected"))
        raise FieldError("", f"{' or '.join(problems)} expected, not {show(value)}")
    return _field(read, REQUIRED)


@overload
def section(cls: type[_Section], default: dict[str, object]) -> _Section: ...


@overload
def section(cls: type[_Section], default: _Default = REQUIRED) -> _Section | _Default: ...


def section(cls: type[_Section], default: object = REQUIRED) -> object:
    """A section inside a section. A default of {} stands for one whose fields all have their defaults."""
    return custom(functools.partial(decode, cls), default)


@overload
def tagged(classes: Mapping[str, type[_Section]], default: dict[str, object], tag: str = "kind",
           usual: str = "") -> _Section: ...


@overload
def tagged(classes: Mapping[str, type[_Section]], default: _Default = REQUIRED, tag: str = "kind",
           usual: str = "") -> _Section | _Default: ...


def tagged(classes: Mapping[str, type[_Section]], default: object = REQUIRED, tag: str = "kind",
           usual: str = "") -> object:
    """A section that is one of several dataclasses, told apart by the word in its field `tag` (by default `usual`)."""
    def read(value: object) -> _Section:
        if not isinstance(value, Mapping):
            raise FieldError("", f"a mapping expected, not {show(value)}")
        kind = usual if value.get(tag) is None else value[tag]
        if not isinstance(kind, str) or kind not in classes:
            raise FieldError(tag, "is missing" if kind == "" and value.get(tag) is None else
                             f"one of {', '.join(classes)} expected, not {show(kind)}"
                             f"{guesses.question(kind, classes)}")
        return decode(classes[kind], {**value, tag: kind})
    return custom(read, default)


@overload
def custom(read: _Decoder[_Value], default: dict[str, object]) -> _Value: ...


@overload
def custom(read: _Decoder[_Value], default: _Default = REQUIRED) -> _Value | _Default: ...


def custom(read: _Decoder[_Value], default: object = REQUIRED) -> object:
    """A field that `read` decodes to something that `encode` knows: a dataclass, tuple, dict or plain value.

    `read` raises FieldError with the name of the field inside the value, or "". A default of {} is decoded.
    """
    if isinstance(default, dict):
        return dataclasses.field(kw_only=True, default_factory=functools.partial(read, default),
                                 metadata={"decoder": read, "nested": True})
    return _field(read, default, nested=True)


def reader(of: _Value) -> _Decoder[_Value]:
    """What decodes a value of a kind of field; for a `custom` one that is of several kinds."""
    return cast(_Decoder[_Value], _metadata(of)["decoder"])


def _field(decoder: _Decoder[_Value], default: _Default, nested: bool = False) -> _Value | _Default:
    metadata = {"decoder": decoder, "nested": nested}
    if isinstance(default, dict):
        return dataclasses.field(kw_only=True, default_factory=cast(Callable[[], _Default], default.copy),
                                 metadata=metadata)
    return dataclasses.field(kw_only=True, default=default, metadata=metadata)


def _metadata(field: object) -> Mapping[str, object]:
    """What `_field` noted at a field; to type checkers it is a value of the field's type."""
    return cast("dataclasses.Field[object]", field).metadata


def _decoder(field: "dataclasses.Field[object]") -> _Decoder[object]:
    return cast(_Decoder[object], field.metadata["decoder"])


def _fields_of(cls: type) -> "dict[str, dataclasses.Field[object]]":
    """{name: field} of a dataclass."""
    return {field.name: field for field in dataclasses.fields(cast(Any, cls))}


def _whole(unit: str, least: int, most: int) -> _Decoder[int]:
    """Reads a whole number of `unit` within bounds."""
    def read(value: object) -> int:
        value = _number(unit, value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise FieldError("", _expected(unit, value, "a whole number"))
        _within(unit, value, least, most, None)
        return int(value)
    return read


def _real(unit: str, least: float | None, most: float | None, above: float | None) -> _Decoder[float]:
    """Reads a finite number of `unit` within bounds."""
    def read(value: object) -> float:
        value = _number(unit, value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise FieldError("", _expected(unit, value, "a number"))
        if isinstance(value, int) and abs(value) > MOST_INTEGER or not math.isfinite(value):
            raise FieldError("", f"a finite number of at most 64 bits expected, not {show(value)}")
        _within(unit, value, least, most, above)
        return float(value)
    return read


def _number(unit: str, value: object) -> object:
    """The number in a quantity of `unit`, such as '2 s'; any other value as it is."""
    try:
        quantity = units.parse(value) if unit and isinstance(value, str) else None
    except ValueError as problem:
        raise FieldError("", str(problem)) from None
    return quantity[1] if quantity and quantity[0] == unit else value


def _expected(unit: str, value: object, what: str) -> str:
    if unit:
        return f"a value with a unit such as '{units.EXAMPLES[unit]}' expected"
    return f"{what} expected, not {show(value)}"


def _within(unit: str, value: float, least: float | None, most: float | None, above: float | None) -> None:
    """FieldError with the bound that a value breaks."""
    if isinstance(value, int) and abs(value) > MOST_INTEGER:
        bound = "at most" if value > 0 else "at least"
        limit = most if value > 0 else least
        raise FieldError("", f"must be {bound} {units.show(unit, MOST_INTEGER if limit is None else limit)}")
    for broken, words, limit in ((least is not None and value < least, "at least", least),
                                 (above is not None and value <= above, "above", above),
                                 (most is not None and value > most, "at most", most)):
        if broken and limit is not None:
            raise FieldError("", f"must be {words} {units.show(unit, limit)}, not {units.show(unit, value)}")


# -- whole sections ----------------------------------------------------------------------------

def decode(cls: type[_Section], given: object) -> _Section:
    """The section (a dataclass) that a dictionary describes. FieldError if it cannot be."""
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise FieldError("", f"a mapping expected, not {show(given)}")
    known = _fields_of(cls)
    values: dict[str, object] = {}
    for key, value in given.items():
        name = _known_name(known, key, value)
        if value is None:
            continue
        if name in values:
            raise FieldError(plain(name), "is given twice")
        values[name] = _value(known[name], value)
    for name, field in known.items():
        if name not in values and field.default is REQUIRED and field.default_factory is REQUIRED:
            raise FieldError(plain(name), "is missing")
    return cls(**values)


def given(cls: type, section: Mapping[str, object]) -> dict[str, object]:
    """What a section gives of the fields of a dataclass, as `encode` has it, without defaults."""
    decoded = encode(decode(cls, section))
    known = _fields_of(cls)
    names = {_known_name(known, key, value) for key, value in section.items() if value is not None}
    return {name: value for name, value in decoded.items() if name in names}


def _value(field: "dataclasses.Field[object]", value: object) -> object:
    """What a field reads. FieldError with its name."""
    try:
        return _decoder(field)(value)
    except FieldError as problem:
        if not unit_of(field.name) and _is_quantity(value):
            raise FieldError(plain(field.name), f"{_what(_decoder(field))} expected") from None
        raise problem.inside(plain(field.name)) from None


def _unit(name: str, value: object) -> str:
    """The unit of a quantity as users write it, or of each of a list of them; '' for anything else."""
    texts = value if isinstance(value, (list, tuple)) else [value]
    try:
        found = {quantity[0] if (quantity := units.parse(text)) else "" for text in texts if isinstance(text, str)}
    except ValueError as problem:
        raise FieldError(plain(name), str(problem)) from None
    return found.pop() if len(found) == 1 and all(isinstance(text, str) for text in texts) else ""


def _is_quantity(value: object) -> bool:
    try:
        return bool(_unit("", value))
    except FieldError:
        return False


def _known_name(known: "Mapping[str, dataclasses.Field[object]]", key: object, value: object) -> str:
    """The field that a key stands for; FieldError if there is none."""
    name = key if isinstance(key, str) and key.isprintable() and len(key) <= 60 else show(key)
    relatives = [other for other in known if plain(other) == plain(name)]
    if key in known and (unit_of(name) or len(relatives) == 1):
        return name
    if relatives and name == plain(name):
        # nothing and an empty list have no unit
        if value is None or value == []:
            return name if name in known else relatives[0]
        if (with_unit := f"{name}_{_unit(name, value)}") in known:
            return with_unit
        if name in known:
            return name
    if relatives:
        examples = [f"'{units.EXAMPLES[unit_of(other)]}'" for other in relatives if unit_of(other)]
        raise FieldError(plain(name), f"a value with a unit such as {' or '.join(examples)} expected" if examples else
                         f"{_what(_decoder(known[relatives[0]]))} expected")
    raise FieldError(plain(name), f"unknown field; fields are: {', '.join(dict.fromkeys(map(plain, known))) or 'none'}"
                     + guesses.question(plain(name), dict.fromkeys(map(plain, known))))


def _what(decoder: _Decoder[object]) -> str:
    """What a field without a unit takes, as far as it says so."""
    if isinstance(decoder, functools.partial) and decoder.func is decode:
        names = dict.fromkeys(plain(field.name) for field in dataclasses.fields(decoder.args[0]))
        return f"a mapping with some of {', '.join(names)}"
    inner = _what(decoder.of) if hasattr(decoder, "of") else _WITHOUT_UNIT
    return _WITHOUT_UNIT if inner == _WITHOUT_UNIT else f"a list, and in it {inner},"


def encode(section: object) -> dict[str, object]:
    """What `decode` makes the same section of: plain dictionaries and lists, without fields that are None."""
    return {name: encoded(value) for name in _fields_of(type(section)) if (value := getattr(section, name)) is not None}


def encoded(value: object) -> object:
    """A value that `encode` finds in a section."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return encode(value)
    if isinstance(value, Mapping):
        return {name: encoded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(one) for one in value]
    return value
