# SPDX-License-Identifier: GPL-2.0-only
"""Whether a JSON file of a run or an experiment has what its record declares (testbed/core/record.py).

A file that has something else was damaged or edited, and the message names file and field. If a key is missing, the
record says so when somebody asks for it. Numbers are from 0 unless the record declares others:

    value: Annotated[int, (-2**31, 2**32 - 1)]
    thirds: Annotated[Sequence[float], (3, 3)]          # exactly three
"""

from __future__ import annotations

import functools
import json
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast

from testbed.core.errors import DamagedRun
from testbed.core.record import Inner, ListOf, MapOf, Named, Perhaps, Record

_Kind = TypeVar("_Kind", bound=Record)

MOST = 2**53  # larger whole numbers are not exact in the tables
_MOST_ITEMS = 10**6
_PLAIN = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


class Number(NamedTuple):
    least: float = 0
    most: float = MOST
    whole: bool = False

    def __str__(self) -> str:
        what = "a whole number" if self.whole else "a number"
        if self.least == self.most:
            return f"{self.least:g}"
        return f"{what} from {self.least:g}" + (f" to {self.most:g}" if self.most < MOST else "")


class Plain(NamedTuple):
    """A value of one of these types; none of them: anything."""

    kinds: tuple[type, ...] = ()

    def __str__(self) -> str:
        return " or ".join(_PLAIN[kind] for kind in self.kinds)


class Maybe(NamedTuple):
    """What may also be null."""

    shape: Shape

    def __str__(self) -> str:
        return f"{self.shape} or null"


class Each(NamedTuple):
    """A list of what has one shape."""

    shape: Shape
    least: int = 0
    most: int = _MOST_ITEMS

    def __str__(self) -> str:
        return f"a list of {self.least}" + " or more" * (self.least < self.most)


class Values(NamedTuple):
    """An object with any keys."""

    shape: Shape

    def __str__(self) -> str:
        return "an object"


class Object(NamedTuple):
    """An object in which these keys have these shapes."""

    keys: Mapping[str, Shape]
    required: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return "an object"


Shape = Number | Plain | Maybe | Each | Values | Object


@functools.cache
def of(kind: type[Record]) -> Object:
    """The shape that a record declares."""
    keys = {name: _declared(hint) for name, hint in typing.get_type_hints(kind, include_extras=True).items()
            if not name.startswith("_")}
    return Object(keys | {name: _inner(value) for base in kind.__mro__ for name, value in vars(base).items()
                          if isinstance(value, Inner)})


def _inner(attribute: Inner[Record]) -> Shape:
    shape = of(attribute.kind)
    if isinstance(attribute, ListOf):
        return Each(shape, attribute.least)
    return Values(shape) if isinstance(attribute, MapOf) else Maybe(shape) if isinstance(attribute, Perhaps) else shape


def _declared(hint: Any, limits: Any = None) -> Shape:
    """The shape that a type stands for. limits: (least, most) of a number, or of how many a list has; or the record
    that an object is."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _declared(*inner)
    if origin is Literal:
        return Number(inner[0], inner[0])
    if origin in (Union, UnionType):
        kinds = tuple(kind for kind in inner if kind is not NoneType)
        shape = _declared(kinds[0]) if len(kinds) == 1 else Plain(kinds)
        return Maybe(shape) if NoneType in inner else shape
    if origin is Sequence:
        return Each(_declared(inner[0]), *map(int, limits or ()))
    if origin is Mapping:
        return of(limits) if limits else Values(_declared(inner[1]))
    if typing.is_typeddict(hint):
        return Object({key: _declared(one) for key, one in typing.get_type_hints(hint).items()}, hint.__required_keys__)
    if hint in (int, float):
        least, most = limits or (0, MOST if hint is int else 1e18)
        return Number(least, most, whole=hint is int)
    return Plain(() if hint is object else (hint,))


def read(kind: type[_Kind], path: Path, shown: str = "") -> _Kind:
    """A JSON file as a record. DamagedRun, which calls the file `shown`, if it is missing or has another shape."""
    shown = shown or str(path)
    value = read_json(path, shown)
    check(value, of(kind), shown)
    return kind(value, shown)


def listed(kind: type[_Kind], values: object, shown: str, field: str) -> list[_Kind]:
    """The list in a field of a file as records. DamagedRun if it is another."""
    check(values, Each(of(kind)), shown, field)
    return [kind(one, shown) for one in cast(list[Mapping[str, object]], values)]


def read_json(path: Path, shown: str = "") -> dict[str, object]:
    """The JSON object in `path`, whatever is in it. Objects in it are those of record.Named."""
    shown = shown or str(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_hook=lambda pairs: Named(pairs, shown))
    except FileNotFoundError:
        raise DamagedRun(f"{shown}: file is missing") from None
    except OSError as error:
        raise DamagedRun(f"{shown}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"{shown}: not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise DamagedRun(f"{shown}: a JSON object is expected, not {_short(value)}")
    return value


def check(value: object, shape: Shape, shown: str, field: str = "") -> None:
    """DamagedRun, which calls the file `shown`, if a value in its field has another shape."""
    if wrong := mismatch(value, shape, field):
        raise DamagedRun(f"{shown}: {wrong}")


def mismatch(value: object, shape: Shape, field: str = "") -> str | None:
    """What is wrong with a value, None if nothing is."""
    if isinstance(shape, Maybe):
        return None if value is None else mismatch(value, shape.shape, field)
    if not _is(value, shape):
        return f"{field or 'the file'}: {shape} expected, not {_short(value)}"
    if isinstance(shape, Object) and isinstance(value, dict):
        for key in sorted(shape.required - value.keys()):
            return f"{field}.{key} is missing"
        for key, inner in shape.keys.items():
            if key in value and (found := mismatch(value[key], inner, f"{field}.{key}" if field else key)):
                return found
    elif isinstance(shape, (Values, Each)) and shape.shape != Plain():
        items: Iterable[tuple[object, object]] = value.items() if isinstance(value, dict) else \
            enumerate(value) if isinstance(value, list) else ()
        for at, item in items:
            place = str(at) if str(at).isprintable() and len(str(at)) <= 40 else _short(at)
            if found := mismatch(item, shape.shape, f"{field}.{place}" if field else place):
                return found
    return None


def _is(value: object, shape: Shape) -> bool:
    """Whether a value itself, not what is in it, is of a shape."""
    if isinstance(shape, Number):
        return isinstance(value, (int, float)) and not isinstance(value, bool) \
            and not (shape.whole and isinstance(value, float)) and shape.least <= value <= shape.most
    if isinstance(shape, Each):
        return isinstance(value, list) and shape.least <= len(value) <= shape.most
    if isinstance(shape, Plain):
        return not shape.kinds or isinstance(value, shape.kinds) and (
            bool in shape.kinds or not isinstance(value, bool))
    return isinstance(value, dict)


def _short(value: object) -> str:
    """A value in a message: on one line, not long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):    # a number of too many digits, a list of too many depths
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:37]}..."
