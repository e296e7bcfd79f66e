# SPDX-License-Identifier: GPL-2.0-only
"""Parameters of a scenario: short names for fields, for --set and --sweep and for the scenario's own sweep.

    parameters: {k: traffic.flows, bw: topology.central.rate, rtt: [topology.left_delays.1, topology.left_delays.2]}

A name stands for one field or for several, which all get the same value.
"""
import re
from collections.abc import Collection, Iterable

from testbed.core.errors import UsageError
from testbed.core.yaml_file import YamlFile

_NAME = r"[a-z][a-z0-9_-]*"
_LONGEST_NAME = 60


class Parameters:
    """The short names of a scenario file."""

    def __init__(self, source: YamlFile, sections: Collection[str], settable: Collection[str]) -> None:
        """sections: all that a file may have; settable: those whose fields may have short names. ScenarioError."""
        self.names: dict[str, list[str]] = {}
        taken = {*sections, *source.mapping("choices")}
        for name, given in source.mapping("parameters").items():
            at = f"parameters.{name}"
            if not re.fullmatch(_NAME, name) or len(name) > _LONGEST_NAME:
                raise source.error(at, "a name of lower-case letters, digits, _ and - expected")
            if name in taken:
                raise source.error(at, "the name of a section or of a choice; another one expected")
            fields = given if isinstance(given, list) else [given]
            if not fields or not all(isinstance(field, str) and field for field in fields):
                raise source.error(at, "a field, or a list of fields, expected, such as topology.central.rate")
            for field in fields:
                if field.partition(".")[0] not in settable or "." not in field:
                    raise source.error(at, f"a field expected, such as topology.central.rate, not {field!r}")
            if len(set(fields)) < len(fields):
                raise source.error(at, "a field is there twice")
            self.names[name] = fields

    def fields(self, key: str) -> list[str]:
        """The fields that a key stands for: itself, unless it is a short name."""
        return self.names.get(key, [key])

    def distinct(self, option: str, keys: Iterable[str]) -> None:
        """UsageError if two keys of an option say something of the same field."""
        said: dict[str, str] = {}
        for key in keys:
            for field in self.fields(key):
                if field in said:
                    raise UsageError(f"{option} {key}: {said[field]} is {field}, too; which of them?")
                said[field] = key
