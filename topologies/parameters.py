# SPDX-License-Identifier: GPL-2.0-only
"""Checking the parameters of a topology as a scenario gives them."""
import re

EXAMPLES = {"bps": "100 Mbit/s", "us": "20 ms", "bytes": "1500 B", "percent": "1 %"}


class ParameterError(ValueError):
    """A parameter that makes no sense; `field` is its dotted name within the topology."""

    def __init__(self, field, message):
        super().__init__(message)
        self.field = field

    def inside(self, section):
        """The same error, seen from the section around it."""
        return ParameterError(f"{section}.{self.field}".rstrip("."), str(self))


def plain(name):
    """A field's name as the scenario file spells it: without the unit."""
    return re.sub(r"_(bps|us|bytes|percent)$", "", name)


def require_mapping(section, name):
    """`section` itself if it is a mapping, else a ParameterError for field `name`."""
    if not isinstance(section, dict):
        raise ParameterError(name, "a mapping expected")
    return section


def require_fields(section, types, required):
    """Check that `section` has only the fields of `types` ({name: type}), and all of `required`."""
    for name in section:
        if name not in types:
            for known in types:
                if plain(known) == plain(name) and known != name:
                    unit = known.rpartition("_")[2]
                    raise ParameterError(plain(name), f"a value with a unit such as '{EXAMPLES[unit]}' expected"
                                         if unit in EXAMPLES else "a number without a unit expected")
            raise ParameterError(plain(name), f"unknown field; fields are: {', '.join(map(plain, types))}")
    for name in required:
        if name not in section:
            raise ParameterError(plain(name), "is missing")
    for name, value in section.items():
        if not isinstance(value, types[name]) or isinstance(value, bool) and types[name] is not bool:
            raise ParameterError(plain(name), f"{value!r} is not what is expected here")
