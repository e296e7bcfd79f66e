# SPDX-License-Identifier: GPL-2.0-only
"""Objects of JSON files with attributes: `link.rate_bps` instead of `link["rate_bps"]`.

    class Node(Record):
        name: str                       # is in every node
        gso: bool = True                # what it is where the file says nothing

    node = Node({"name": "n1"}, "raw/network.json")

A class declares what its objects have, for readers and for mypy; nothing is looked at, copied or converted before it is
asked for, since guests read thousands of them in virtual time (testbed/core/shapes.py looks at a whole file). An
attribute that the file lacks and that has no default raises DamagedRun with file and key. Objects within objects are
records, too:

    class Network(Record):
        nodes = ListOf(Node)            # [{...}, ...]; missing is an error
        cells = ListOf(Cell, ())        # missing: none
        clock = Within(Clock)           # {...}; missing is an error
        radio = Perhaps(Radio)          # {...}, null or missing
        hosts = MapOf(Host)             # {name: {...}}
"""
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from testbed.core.errors import DamagedRun

_Kind = TypeVar("_Kind", bound="Record")
_Value = TypeVar("_Value")


class Inner(Generic[_Kind]):
    """An attribute that is made of what the file has at its place, once."""

    def __init__(self, kind: type[_Kind], missing: object = DamagedRun) -> None:
        """missing: what it is where the file says nothing; by default that is an error."""
        self.kind, self._missing, self._key = kind, missing, ""

    def __set_name__(self, owner: type["Record"], name: str) -> None:
        self._key = name

    def __set__(self, record: "Record", value: object) -> None:
        raise AttributeError(f"{self._key}: records are views; changed() makes others")

    def _raw(self, record: "Record") -> Any:
        if self._key in record.__dict__:
            return record.__dict__[self._key]
        return self._missing if self._missing is not DamagedRun else record._lacks(self._key)

    @staticmethod
    def _made(record: "Record") -> dict[str, tuple[object, Sized]]:
        """What was made of lists and objects so far."""
        try:
            return record._made
        except AttributeError:
            object.__setattr__(record, "_made", {})
            return record._made


class Within(Inner[_Kind]):
    """An object in an object."""

    def __get__(self, record: "Record", owner: type["Record"]) -> _Kind:
        return self.kind(self._raw(record), record._file)


class Perhaps(Inner[_Kind]):
    """An object in an object, or None."""

    def __init__(self, kind: type[_Kind]) -> None:
        super().__init__(kind, None)

    def __get__(self, record: "Record", owner: type["Record"]) -> _Kind | None:
        raw = self._raw(record)
        return None if raw is None else self.kind(raw, record._file)


class ListOf(Inner[_Kind]):
    """A list of objects; `least`: how many it has at least."""

    def __init__(self, kind: type[_Kind], missing: object = DamagedRun, least: int = 0) -> None:
        super().__init__(kind, missing)
        self.least = least

    def __get__(self, record: "Record", owner: type["Record"]) -> Sequence[_Kind]:
        raw = self._raw(record)
        known, found = self._made(record).get(self._key, (None, ()))
        if known is raw and len(found) == len(raw):
            return cast(Sequence[_Kind], found)
        made = [self.kind(one, record._file) for one in raw]
        record._made[self._key] = raw, made
        return made


class MapOf(Inner[_Kind]):
    """Objects by name."""

    def __get__(self, record: "Record", owner: type["Record"]) -> Mapping[str, _Kind]:
        raw = self._raw(record)
        known, found = self._made(record).get(self._key, (None, ()))
        if known is raw and len(found) == len(raw):
            return cast(Mapping[str, _Kind], found)
        made = Named({name: self.kind(one, record._file) for name, one in raw.items()}, record._file)
        record._made[self._key] = raw, made
        return made


class Named(dict[str, _Value]):
    """An object of a file whose keys are names, of links for example. DamagedRun for one that it lacks."""

    def __init__(self, content: Mapping[str, _Value], file: str) -> None:
        super().__init__(content)
        self._file = file

    def __missing__(self, key: str) -> _Value:
        raise DamagedRun(f"{self._file}: key {key!r} is missing")


class Record:
    """An object of a JSON file. It is a view: the dictionary stays the same one."""
    __slots__ = ("__dict__", "_file", "_made")
    _file: str
    #: {key: (what the file has, records of it)}
    _made: dict[str, tuple[object, Sized]]

    def __init__(self, content: "Mapping[str, object] | Record", file: str = "") -> None:
        if isinstance(content, Record):
            file = file or content._file
        elif not isinstance(content, Mapping):
            raise DamagedRun(f"{file or type(self).__name__}: an object expected, not {str(content)[:40]!r}")
        keys = content.__dict__ if isinstance(content, Record) else content
        object.__setattr__(self, "__dict__", keys if isinstance(keys, dict) else dict(keys))
        object.__setattr__(self, "_file", file)

    if not TYPE_CHECKING:               # mypy is to refuse attributes that no class declares
        def __getattr__(self, key):
            """What is asked for and is not there."""
            if key.startswith("_"):
                raise AttributeError(key)
            if not any(key in vars(kind).get("__annotations__", ()) for kind in type(self).__mro__):
                raise AttributeError(f"{type(self).__name__} has no {key!r}"
                                     + (f", nor has {self._file}" if self._file else ""))
            self._lacks(key)

    def _lacks(self, key: str) -> NoReturn:
        raise DamagedRun(f"{self._file or type(self).__name__}: key {key!r} is missing")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__!r})"

    def has(self, key: str) -> bool:
        """Whether the file says it."""
        return key in self.__dict__

    def changed(self: _Kind, **changes: object) -> _Kind:
        """A copy with other values."""
        return type(self)({**self.__dict__, **{key: plain(value) for key, value in changes.items()}}, self._file)

    def content(self) -> dict[str, object]:
        """Plain dictionaries and lists, for files."""
        return {key: plain(value) for key, value in self.__dict__.items()}

    if not TYPE_CHECKING:               # tests look keys up, too; mypy refuses that elsewhere
        def __getitem__(self, key):
            return getattr(self, key)

        def get(self, key, default=None):
            return getattr(self, key) if key in self.__dict__ else default

        def keys(self):
            return self.__dict__.keys()

        def items(self):
            return [(key, getattr(self, key)) for key in self.__dict__]

        def values(self):
            return [getattr(self, key) for key in self.__dict__]

        def __contains__(self, key):
            return key in self.__dict__

        def __iter__(self):
            return iter(self.__dict__)

        def __len__(self):
            return len(self.__dict__)

    def __eq__(self, other: object) -> bool:
        return self.content() == plain(other)

    __hash__ = None                     # type: ignore[assignment]


class Direction(Record):
    """Of one direction of a link: its two nodes, which files call by words that Python keeps for itself."""

    @property
    def from_node(self) -> str:
        """The node that sends."""
        return self._node("from")

    @property
    def to_node(self) -> str:
        """The node that receives."""
        return self._node("to")

    def _node(self, key: str) -> str:
        return str(self.__dict__[key]) if key in self.__dict__ else self._lacks(key)


def plain(value: object) -> object:
    """Records in lists and dictionaries, and those themselves, as plain ones; also as `default` of json.dumps."""
    if isinstance(value, Record):
        return value.content()
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Record):
        return [plain(one) for one in value]
    if isinstance(value, dict) and value and isinstance(next(iter(value.values())), Record):
        return {key: plain(one) for key, one in value.items()}
    return value
