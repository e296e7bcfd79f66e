# SPDX-License-Identifier: GPL-2.0-only
"""YAML files of a user, with the line of every field: errors name file, line and field.

A field is known by its dotted name. In a list, an element is known by its number, counted from 1; one
that has a `name`, or else a `kind`, also by that (`traffic.background.load`).
"""
import copy
import pathlib
from collections.abc import Collection, Iterable
from typing import Any

from testbed.core import guesses, units
from testbed.core.errors import ScenarioError, UsageError
from testbed.core.fields import plain, unit_of
from testbed.core.files import read_regular
from testbed.core.yaml_nodes import MOST_BYTES, MOST_DEPTH, Nodes

#: sections whose keys have dots in them
_FREE = ("hosts.sysctls", "search.fields", "search.steps")
_LONGEST_SETTING = 100_000


class YamlFile:
    """A YAML file as a tree, and where each of its fields stands."""

    def __init__(self, path: pathlib.Path, sections: Collection[str]) -> None:
        """sections: names of the top-level fields it may have. Raises ScenarioError."""
        self.path = path
        self.sections = sections
        self._origin: dict[str, str] = {}           # field -> the option or the other field that decided it
        nodes = Nodes(self._read(), self._refuse)
        tree = nodes.value(nodes.root, "") if nodes.root is not None else None
        if not isinstance(tree, dict):
            raise ScenarioError(f"{path}:1: a mapping of sections expected")
        self.tree: dict[str, object] = tree
        self.texts = nodes.texts
        self._lines = nodes.lines
        for key in self.tree:
            if key not in sections:
                meant = guesses.question(key, sorted(sections)) or f"; sections are: {', '.join(sorted(sections))}"
                raise self.error(key, f"unknown section{meant}")

    def _read(self) -> str:
        try:
            data = read_regular(self.path, MOST_BYTES)
        except OSError as problem:
            raise ScenarioError(f"{self.path}: {problem.strerror}") from None
        if len(data) > MOST_BYTES:
            raise ScenarioError(f"{self.path}: larger than {units.show('bytes', MOST_BYTES)}")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            line = data.count(b"\n", 0, problem.start) + 1
            raise ScenarioError(f"{self.path}:{line}: not text in UTF-8") from None

    def _refuse(self, line: int, field: str, message: str) -> ScenarioError:
        return ScenarioError(f"{self.path}:{line}: {field}: {message}" if field else f"{self.path}:{line}: {message}")

    # -- where a field stands ---------------------------------------------------------------------

    def line(self, field: str) -> int:
        """Line of a field, or of the closest section around it that the file has."""
        while field and field not in self._lines:
            field = field.rpartition(".")[0]
        return self._lines.get(field, 1)

    def place(self, field: str) -> str:
        """Where a field was said, as errors begin: file:line: field, or the option."""
        return str(self.error(field, "")).removesuffix(": ")

    def error(self, field: str, message: str) -> ScenarioError:
        """A ScenarioError that says where and which field."""
        name = self._canonical(field)
        around = name
        while around and around not in self._origin and around not in self._lines:
            around = around.rpartition(".")[0]
        origin = self._origin.get(around, around)
        if origin.startswith("--"):
            inside = name.removeprefix(around).strip(".")
            return ScenarioError(f"{origin}: {inside}: {message}" if inside else f"{origin}: {message}")
        where = f"{self.path}:{self.line(origin)}"
        changed = dict.fromkeys(said for part, said in self._origin.items()
                                if part.startswith(f"{name}.") and said.startswith("--"))
        where += f" with {', '.join(changed)}" if changed else ""
        return ScenarioError(f"{where}: {field}: {message}" if field else f"{where}: {message}")

    def _canonical(self, field: str) -> str:
        """A field's dotted name with numbers for the elements of lists."""
        at: object = self.tree
        names = []
        for part in _split(field):
            number, at = _inside(at, part)
            names.append(str(number) if number else part)
        return ".".join(names)

    def written(self, field: str) -> str:
        """A field's name without the parts that the file leaves out: a default, or a section for both directions."""
        at: object = self.tree
        names = []
        for part in _split(field):
            number, inside = _inside(at, part)
            if number or inside is not None:
                names.append(part)
                at = inside
        return ".".join(names)

    def mapping(self, section: str) -> dict[str, object]:
        """A section that must be a mapping (empty if it is missing); with dots, one inside of another."""
        found = self.tree
        for part in section.split("."):
            value = found.get(part)
            if value is None:
                return {}
            if not isinstance(value, dict):
                raise self.error(section, "a mapping expected")
            found = value
        return found

    # -- changing it ------------------------------------------------------------------------------

    def copy(self) -> "YamlFile":
        """One to be changed without changing this one."""
        other = copy.copy(self)
        other.tree, other._origin, other._lines = copy.deepcopy(self.tree), dict(self._origin), dict(self._lines)
        return other

    def put(self, key: str, value: object, origin: str) -> str:
        """Override the field with dotted name `key`; `origin` says who did, for errors.

        Returns the field's own name, in which elements of lists are numbers.
        """
        parts = _split(key)
        if parts[0] not in self.sections:
            raise self._refused_key(origin, f"no such section; sections are: {', '.join(sorted(self.sections))}")
        if len(parts) > MOST_DEPTH:
            raise self._refused_key(origin, f"nested more than {MOST_DEPTH} deep")
        at: Any = self.tree                         # a section, a list, or a value
        names = []                                  # as they are before the value may give an element another name
        for depth, part in enumerate(parts):
            around, last = ".".join(parts[:depth]), depth == len(parts) - 1
            if isinstance(at, list):
                number = _number_of(at, part)
                if number is None:
                    named = ", ".join(filter(None, element_names(at)))
                    raise self._refused_key(origin, f"{around} has no element {part!r}; it has: "
                                                    f"{named or f'1 to {len(at)}' if at else 'none'}")
                index: int | str = number - 1
            elif isinstance(at, dict) and part:
                index = part
                if not last and at.get(part) is None:
                    at[part] = {}
            else:
                raise self._refused_key(origin, f"{around} is not a section" if part else
                                        "a name expected between dots")
            names.append(str(number) if isinstance(at, list) else part)
            if last:
                at[index] = copy.deepcopy(value)
            else:
                at = at[index]
        canonical = ".".join(names)
        # what was inside of it is not there any more
        self._origin = {name: was for name, was in self._origin.items() if not name.startswith(canonical + ".")}
        self._lines = {name: was for name, was in self._lines.items() if not name.startswith(canonical + ".")}
        self._origin[canonical] = origin
        return canonical

    def _refused_key(self, origin: str, message: str) -> ScenarioError:
        """That a field cannot be set; `origin`: the option or the field of the file that wanted it."""
        if origin.startswith("--"):
            return ScenarioError(f"{origin}: {message}")
        return ScenarioError(f"{self.path}:{self.line(origin)}: {origin}: {message}")

    # -- quantities -------------------------------------------------------------------------------

    def check_keys(self, section: str) -> None:
        """ScenarioError if a key in a section has a unit, which belongs to the value."""
        self._check_keys(self.tree.get(section), section)

    def _check_keys(self, value: object, field: str) -> None:
        for key, inside in value.items() if isinstance(value, dict) else \
                enumerate(value, start=1) if isinstance(value, list) else ():
            name = f"{field}.{key}"
            # names of sysctls have dots
            if isinstance(key, str) and "." not in key and (unit := unit_of(key)):
                raise self.error(name, f"the unit belongs to the value: {plain(key)}: {units.EXAMPLES[unit]}")
            self._check_keys(inside, name)


def parse_setting(option: str, text: str) -> object:
    """The value that a `--set key=text` gives; `option`: '--set key', for errors. UsageError if it is none."""
    if len(text) > _LONGEST_SETTING:
        raise UsageError(f"{option}: longer than {_LONGEST_SETTING} characters")

    def refuse(_line: int, field: str, message: str) -> UsageError:
        return UsageError(f"{option}: {field}: {message}" if field else f"{option}: {message}")
    nodes = Nodes(text, refuse)
    return None if nodes.root is None else nodes.value(nodes.root, "")


def element_names(elements: Iterable[object]) -> list[str]:
    """What the elements of a list are called: by their `name`, or by their `kind`, from the second with a number."""
    names: list[str] = []
    counts: dict[str, int] = {}
    for element in elements:
        kind = str(element.get("kind")) if isinstance(element, dict) else ""
        counts[kind] = counts.get(kind, 0) + 1
        usual = kind if counts[kind] == 1 else f"{kind}-{counts[kind]}"
        names.append(str(element.get("name") or usual) if isinstance(element, dict) else "")
    return names


def _split(key: str) -> list[str]:
    """'hosts.sysctls.net.ipv4.tcp_ecn' -> ['hosts', 'sysctls', 'net.ipv4.tcp_ecn']."""
    for section in _FREE:
        if key.startswith(section + "."):
            return [*section.split("."), key.removeprefix(section + ".")]
    return key.split(".")


def _inside(around: object, part: str) -> tuple[int | None, object]:
    """(number of an element that a part of a field's name stands for, if it is one, and what is there), or None."""
    if isinstance(around, list):
        number = _number_of(around, part)
        return number, around[number - 1] if number else None
    return None, around.get(part) if isinstance(around, dict) else None


def _number_of(elements: list[object], name: str) -> int | None:
    """Number, from 1, of the list's element that is called so."""
    for number, called in enumerate(element_names(elements), start=1):
        if name in (called, str(number)):
            return number
    return None
