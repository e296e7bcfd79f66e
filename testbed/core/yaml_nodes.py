# SPDX-License-Identifier: GPL-2.0-only
"""Reading YAML of anybody: bounded in size, nodes and depth, every value plain, every key once.

What comes out are dictionaries with text as keys, lists, and strings, numbers, yes or no, and nothing;
no dates, no sets, no NaN. A number as a key is its usual spelling, so that 1 and 01 are the same.
"""
import collections
import math
from collections.abc import Callable, Iterator
from typing import NoReturn, cast

import yaml

MOST_BYTES = 1_000_000
MOST_NODES = 10_000
MOST_DEPTH = 20
_MOST_INTEGER = 2**63 - 1
_LONGEST_KEY = 200

#: (line from 1, dotted field, message) -> the exception to raise
Refuse = Callable[[int, str, str], Exception]


class _Composer(yaml.composer.Composer, yaml.resolver.Resolver):        # type: ignore[misc]
    """Makes nodes of events."""

    def __init__(self, events: list[yaml.Event]) -> None:
        yaml.composer.Composer.__init__(self)
        yaml.resolver.Resolver.__init__(self)
        self._events = collections.deque(events)

    def check_event(self, *kinds: type) -> bool:
        return bool(self._events) and isinstance(self._events[0], kinds)

    def peek_event(self) -> yaml.Event:
        return self._events[0]

    def get_event(self) -> yaml.Event:
        return self._events.popleft()


#: {what the parser says: what would be right}
_REMEDIES = {
    "mapping values are not allowed here": ": one 'name: value' a line expected; a value with ': ' in it needs quotes",
    "found character '\\t' that cannot start any token": ": spaces expected, no tab",
}


class Nodes:
    """The nodes of a YAML text, checked; `lines` and `texts` are filled while a value is made of them."""

    def __init__(self, text: str, refuse: Refuse) -> None:
        self._refuse = refuse
        self._sizes: dict[int, int] = {}
        self._open: set[int] = set()
        self.lines: dict[str, int] = {}
        self.texts: dict[str, str] = {}             # scalars as they are written
        try:
            self.root = _Composer(self._events(text)).get_single_node()
        except yaml.reader.ReaderError as problem:
            line = text.count("\n", 0, problem.position) + 1
            self._fail(line, "", f"character #x{problem.character:04x} is not allowed"
                       if isinstance(problem.character, int) else str(problem.reason))
        except yaml.MarkedYAMLError as problem:
            mark = problem.problem_mark or problem.context_mark
            words = str(problem.problem or "")
            self._fail(mark.line + 1 if mark else 1, "", f"{problem.context}, {words}" if words.startswith("but ") else
                       words + _REMEDIES.get(words, "") or str(problem.context))
        except ValueError as problem:               # an escape that is no character
            self._fail(1, "", str(problem))
        if self.root is not None:
            self._count_expanded(self.root)
        self._loader = yaml.SafeLoader("")

    def _fail(self, line: int, field: str, message: str) -> NoReturn:
        raise self._refuse(line, field, message) from None

    def _events(self, text: str) -> list[yaml.Event]:
        """Nothing recursive has seen the text yet: here it may still be of any depth and length."""
        nodes = depth = 0
        events = []
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            events.append(event)
            if isinstance(event, yaml.NodeEvent):
                nodes += 1
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MOST_DEPTH:
                self._fail(event.start_mark.line + 1, "", f"nested more than {MOST_DEPTH} deep")
            if nodes > MOST_NODES:
                self._fail(event.start_mark.line + 1, "", f"more than {MOST_NODES} values")
        return events

    def _count_expanded(self, node: yaml.Node) -> int:
        """Values of a node with every alias written out."""
        line = node.start_mark.line + 1
        if id(node) in self._open:
            self._fail(line, "", "an alias inside of what it stands for")
        self._open.add(id(node))
        size = 1
        for child in _children(node):
            size += self._sizes.get(id(child)) or self._count_expanded(child)
            if size > MOST_NODES:
                self._fail(line, "", f"more than {MOST_NODES} values, with aliases written out")
        self._open.discard(id(node))
        self._sizes[id(node)] = size
        return size

    def value(self, node: yaml.Node, field: str, depth: int = 0) -> object:
        """The value of a node; `field`: its dotted name."""
        line = node.start_mark.line + 1
        if depth > MOST_DEPTH:
            self._fail(line, field, f"nested more than {MOST_DEPTH} deep")
        self.lines.setdefault(field, line)
        if isinstance(node, yaml.MappingNode):
            if node.tag != "tag:yaml.org,2002:map":
                self._fail(line, field, f"a plain mapping expected, not {node.tag}")
            return self._mapping(node, field, depth)
        if isinstance(node, yaml.SequenceNode):
            if node.tag != "tag:yaml.org,2002:seq":
                self._fail(line, field, f"a plain list expected, not {node.tag}")
            return [self.value(item, f"{field}.{number}", depth + 1) for number, item in enumerate(node.value, start=1)]
        return self._scalar(node, field, line)

    def _mapping(self, node: yaml.Node, field: str, depth: int) -> dict[str, object]:
        merged: dict[str, object] = {}
        own: dict[str, object] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == "tag:yaml.org,2002:merge":
                for given in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                    if not isinstance(given, yaml.MappingNode):
                        self._fail(line, field, "<< expects a mapping")
                    merged = {**cast(dict[str, object], self.value(given, field, depth + 1)), **merged}
                continue
            key = self._key(key_node, field)
            name = f"{field}.{key}".lstrip(".")
            if key in own:
                self._fail(line, name, f"is there a second time; the first is in line {lines[key]}")
            lines[key] = self.lines[name] = line
            own[key] = self.value(value_node, name, depth + 1)
        return {**merged, **own}

    def _key(self, node: yaml.Node, field: str) -> str:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode) or not node.value or not node.value.isprintable() \
                or len(node.value) > _LONGEST_KEY or node.tag == "tag:yaml.org,2002:null":
            self._fail(line, field, "a name expected in front of the colon")
        text = str(node.value)
        return str(self._scalar(node, field, line)) if node.tag == "tag:yaml.org,2002:int" else text

    def _scalar(self, node: yaml.Node, field: str, line: int) -> object:
        try:
            value = self._loader.construct_object(node)
        except yaml.MarkedYAMLError as problem:
            self._fail(line, field, str(problem.problem))
        except (ValueError, OverflowError, KeyError, IndexError, AttributeError) as problem:
            # a date that is none, an integer of thousands of digits, !!bool of something else
            self._fail(line, field, f"{_short(node.value)} is not a value ({problem})".replace("\n", " "))
        if value is not None and not isinstance(value, (str, int, float, bool)):
            self._fail(line, field, f"{_short(node.value)} would be a {type(value).__name__}; put text in quotes")
        if isinstance(value, float) and not math.isfinite(value):
            self._fail(line, field, f"a finite number expected, not {_short(node.value)}")
        if isinstance(value, int) and abs(value) > _MOST_INTEGER:
            self._fail(line, field, f"{_short(node.value)} is too large")
        if isinstance(value, (int, float)) and ":" in node.value:
            self._fail(line, field, f"{_short(node.value)} is a number of base 60 to YAML, {value}; put text in quotes")
        self.texts[field] = str(node.value)
        return value


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
