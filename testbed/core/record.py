# SPDX-License-Identifier: GPL-2.0-only
"""Objects of JSON files with attributes: `link.rate_bps` instead of `link["rate_bps"]`.

    class Node(Record):
        name: str                       # is in every node
        gso: bool = True                # what it is where the file says nothing

    node = Node({"name": "n1"}, "raw/network.json")

A class declares what its objects have, for readers and for mypy; nothing is looked at, copied or converted before it is
asked for, since guests read thousands of them in virtual time. An attribute that the file lacks and that has no default
raises DamagedRun with file and key.
"""
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from testbed.core.errors import DamagedRun

_Kind = TypeVar("_Kind", bound="Record")


class Record(Mapping[str, Any]):
    """An object of a JSON file. It is a view: the dictionary stays the same one."""
    __slots__ = ("__dict__", "_file")
    _file: str

    def __init__(self, content: Mapping[str, Any], file: str = "") -> None:
        object.__setattr__(self, "__dict__", content if isinstance(content, dict) else dict(content))
        object.__setattr__(self, "_file", file or getattr(content, "_file", ""))

    if not TYPE_CHECKING:               # mypy is to refuse attributes that no class declares
        def __getattr__(self, key):
            """What is asked for and is not there."""
            if key.startswith("__"):
                raise AttributeError(key)
            raise DamagedRun(f"{self._file or type(self).__name__}: key {key!r} is missing")

    def has(self, key: str) -> bool:
        """Whether the file says it."""
        return key in self.__dict__

    def changed(self: _Kind, **changes: object) -> _Kind:
        """A copy with other values."""
        return type(self)({**self.__dict__, **changes}, self._file)

    def content(self) -> dict[str, object]:
        """Plain dictionaries and lists, for files."""
        return {key: plain(value) for key, value in self.__dict__.items()}

    def _make(self, **kinds: "type[Record]") -> None:
        """Make records of the lists of objects that are there. The dictionary is a new one then."""
        made = {key: self.of(kind, key) for key, kind in kinds.items() if key in self.__dict__}
        object.__setattr__(self, "__dict__", {**self.__dict__, **made})

    def of(self, kind: type[_Kind], key: str) -> list[_Kind]:
        """The list of objects `key` as records of a kind."""
        return [kind(one, self._file) for one in getattr(self, key)]

    # as long as some code looks records up as dictionaries
    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key] if key in self.__dict__ else getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        return self.__dict__.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.__dict__

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)


def plain(value: object) -> object:
    """Records in lists and dictionaries, and those themselves, as plain ones; also as `default` of json.dumps."""
    if isinstance(value, Record):
        return value.content()
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Record):
        return [plain(one) for one in value]
    if isinstance(value, dict) and value and isinstance(next(iter(value.values())), Record):
        return {key: plain(one) for key, one in value.items()}
    return value
