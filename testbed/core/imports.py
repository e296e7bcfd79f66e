# SPDX-License-Identifier: GPL-2.0-only
"""Which modules Python sources import, without importing anything.

To parse some 150 files takes longer than to import pandas, and every command wants to know: what was found can be kept
in a folder (`remember_in`), by the hash of the source and the version of Python.
"""
from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from testbed.core.files import write_text

#: of a statement: how many packages up it begins (`from .. import`: 2), the module, the names that are taken from it
_Statement = tuple[int, str, tuple[str, ...]]
#: so many sources are remembered; with more, only those that are asked for now
_MOST = 2000
#: what is no Python for one version may be for the next
_PYTHON = "{}.{}".format(*sys.version_info)
_MOST_LEVELS, _LONGEST = 20, 200        # of what could be a statement of ours
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def remember_in(folder: Callable[[], pathlib.Path]) -> None:
    """From now on what is found is remembered there: the folder that the function says when it is asked."""
    global _folder
    _folder = folder


def modules_of(source: bytes, package: Sequence[str]) -> set[str]:
    """Absolute names of the modules that a source imports, and of what may be modules: the names of `from a import b`.

    package: the parts of its package's name. A source that cannot be parsed imports nothing.
    """
    found = set()
    for level, module, names in _memory().statements(source):
        if not level and not names:
            found.add(module)
            continue
        above = package[:len(package) - level + 1] if level else ()
        base = ".".join([*above, *([module] if module else [])])
        found |= {base, *(f"{base}.{name}" for name in names)}
    return found


def files_of(module: str, project: pathlib.Path) -> Iterator[str]:
    """Paths below `project` that are there of a module, and of the packages around it."""
    if not module:
        return
    folder, path = f"{project}/", ""
    for part in module.split("."):
        # most of what is asked for is not ours. And no pathlib: thousands of paths are asked for
        if path and not os.path.isdir(folder + path):
            return
        path = f"{path}/{part}" if path else part
        if os.path.isfile(f"{folder}{path}/__init__.py"):
            yield f"{path}/__init__.py"
    if os.path.isfile(f"{folder}{path}.py"):
        yield f"{path}.py"


def save() -> None:
    """Keep for the next command what is known now, where that is possible."""
    _memory().save()


class _Memory:
    """{SHA-256 of a source: its statements}, in a file if there can be one."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self._path = path
        self._changed = False
        self._known: dict[str, object] = {}
        self._asked: dict[str, tuple[_Statement, ...]] = {}
        with contextlib.suppress(OSError, ValueError, RecursionError):
            known = json.loads(path.read_text(encoding="utf-8")) if path else None
            self._known = known if isinstance(known, dict) else {}

    def statements(self, source: bytes) -> tuple[_Statement, ...]:
        key = f"{hashlib.sha256(source).hexdigest()} {_PYTHON}"
        if key not in self._asked:
            found = _checked(self._known.get(key))
            if found is None:
                try:
                    found = _parsed(source)
                except (SyntaxError, ValueError, RecursionError):
                    return ()               # importing it will say so
                self._changed = True
            self._known[key] = self._asked[key] = found
        return self._asked[key]

    def save(self) -> None:
        if self._changed and self._path:
            self._changed = False
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_text(self._path, json.dumps(self._known if len(self._known) <= _MOST else self._asked))


_folder: Callable[[], pathlib.Path] | None = None


def _memory() -> _Memory:
    try:
        return _memory_in(_folder and _folder())
    except RuntimeError:                    # nobody's home
        return _memory_in(None)


@functools.cache
def _memory_in(folder: pathlib.Path | None) -> _Memory:
    return _Memory(folder and folder / "imports.json")


def _checked(value: object) -> tuple[_Statement, ...] | None:
    """What the cache says of a source; None if it says nothing that could be true."""
    try:
        found = tuple((level, module, tuple(names)) for level, module, names in cast(Iterable[_Statement], value))
    except (TypeError, ValueError):
        return None
    could_be = all(type(level) is int and 0 <= level <= _MOST_LEVELS and _is_name(module or "a")
                   and all(name == "*" or _is_name(name) for name in names) for level, module, names in found)
    return found if could_be else None


def _is_name(text: object) -> bool:
    return isinstance(text, str) and len(text) <= _LONGEST and all(part.isidentifier() for part in text.split("."))


def _parsed(source: bytes) -> tuple[_Statement, ...]:
    found: list[_Statement] = []
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
        elif isinstance(node, (ast.Module, ast.stmt, ast.ExceptHandler, ast.match_case)):
            for part in _BODIES:            # imports are statements: expressions have none in them
                inner = getattr(node, part, ())
                waiting += inner if isinstance(inner, list) else ()
    return tuple(found)
