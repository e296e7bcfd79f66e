# SPDX-License-Identifier: GPL-2.0-only
"""YAML files of a user, with the line of every field: errors name file, line and field."""
import copy
import re

import yaml

from testbed import units
from testbed.errors import ScenarioError


class YamlFile:
    """A YAML file as a tree, and where each of its fields stands."""

    def __init__(self, path, sections):
        """sections: names of the top-level fields it may have. Raises ScenarioError."""
        self.path = path
        self.sections = sections
        self._lines = {}
        self._origin = {}
        try:
            node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
            if not isinstance(node, yaml.MappingNode):
                raise ScenarioError(f"{path}:1: a mapping of sections expected")
            self._note_lines(node, "", depth=0)
            self.tree = yaml.SafeLoader("").construct_document(node)
            for key in self.tree:
                if key not in sections:
                    raise self.error(key, f"unknown section; sections are: {', '.join(sorted(sections))}")
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
        if sections and sections[0] not in self.sections or not sections and key not in self.sections:
            self._origin[key] = origin
            raise self.error(key, f"no such section; sections are: {', '.join(sorted(self.sections))}")
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
