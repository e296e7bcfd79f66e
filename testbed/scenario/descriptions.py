# SPDX-License-Identifier: GPL-2.0-only
"""Descriptions of scenarios: `{topology.central.rate}` stands for what the scenario has there, whatever was set.

A sentence about something that a setting took away is left out.
"""
from __future__ import annotations

import re
from collections.abc import Sequence

_PLACE = re.compile(r"\{([^{}]+)\}")
_SENTENCE = re.compile(r"(?<=[.?!])\s+")
#: a link may have its fields once, or for each direction
_DIRECTIONS = ("left_to_right", "right_to_left")
#: what a plain number counts
_COUNTED = {".queue.limit": "packets"}
_MOST_VALUES = 4


def filled(text: str, trees: Sequence[object]) -> str:
    """A description with the values of a scenario, or of all points of a sweep."""
    found = []
    for sentence in _SENTENCE.split(text.strip()):
        values = {place: list(dict.fromkeys(value for tree in trees for value in _values(tree, place)))
                  for place in _PLACE.findall(sentence)}
        if all(values.values()):
            found.append(_PLACE.sub(lambda match: _listed(match[1], values[match[1]]), sentence))
    return " ".join(found)


def places(text: str) -> list[str]:
    """The fields that a description names."""
    return _PLACE.findall(text)


def _values(tree: object, place: str) -> list[str]:
    """What a field has (of lists: by name, or counted from 1, as settings do): several values where directions differ;
    [] if it is not there."""
    at, *rest = place.split(".")
    if isinstance(tree, list):
        named = [item for item in tree if isinstance(item, dict) and item.get("name") == at]
        if not named and at.isdecimal():
            named = tree[int(at) - 1:int(at)]
        tree = {at: named[0]} if named else {}
    if not isinstance(tree, dict):
        return []
    if at not in tree:
        return [value for way in _DIRECTIONS if way in tree for value in _values(tree[way], place)]
    if rest:
        return _values(tree[at], ".".join(rest))
    return [str(tree[at])] if isinstance(tree[at], (str, int, float)) and not isinstance(tree[at], bool) else []


def _listed(place: str, values: list[str]) -> str:
    if len(values) > _MOST_VALUES:
        values = [*values[:_MOST_VALUES - 2], "...", values[-1]]
    unit = next((f" {unit}" for ending, unit in _COUNTED.items()
                 if f".{place}".endswith(ending) and values[-1].isdecimal()), "")
    return (values[0] if len(values) == 1 else f"{', '.join(values[:-1])} or {values[-1]}") + unit
