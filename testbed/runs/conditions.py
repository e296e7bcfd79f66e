# SPDX-License-Identifier: GPL-2.0-only
"""Conditions on runs: `scenario=access-link cca=cubic,bbr kernel>=6.12 load=85`.

All must hold. A field is one of FIELDS, a choice of the scenario (load, quick), or an axis of a sweep by its dotted
key or an end of it (limit). Several values mean any of them. A kernel is named by its release, by its tree or by its
hash.
"""
from __future__ import annotations

import contextlib
import dataclasses
import math
import operator
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from testbed.core.errors import UsageError
from testbed.runs.index import IndexedRun

#: of every run; docs/howto/queries.md says what they are
FIELDS = ("scenario", "cca", "seed", "engine", "kernel", "kernel_tree", "kernel_hash", "status", "verdict", "id",
          "experiment", "name", "listed", "pinned", "virtual_s", "wall_s")
_CONDITION = re.compile(r"([A-Za-z_][\w.-]*)(!=|>=|<=|=|>|<)(.+)", re.DOTALL)
_ORDERS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_FLAGS = ("listed", "pinned")
_NUMBERED = ("seed", "virtual_s", "wall_s")
_RELEASE = re.compile(r"[0-9]+(\.[0-9]+)*")
#: hexadecimal digits of a hash that are enough to name a kernel
_LEAST_OF_HASH = 6
#: fields that have no other values
_WORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_FLAGS, ("yes", "no")), "status": ("finished", "failed", "damaged"),
    "verdict": ("valid", "suspect", "invalid")}


@dataclasses.dataclass(frozen=True)
class Condition:
    """One condition; `values`: as they were typed."""
    field: str
    operator: str
    values: tuple[str, ...]


def parse(text: str) -> list[Condition]:
    """The conditions of a text. UsageError: bad syntax, or an unknown word."""
    try:
        words = shlex.split(text)
    except ValueError as problem:
        raise UsageError(f"{text!r}: {problem}") from None
    found = []
    for word in words:
        match = _CONDITION.fullmatch(word)
        if not match:
            raise UsageError(f"{word!r}: a condition expected, such as cca=cubic,bbr or kernel>=6.12")
        field, operator, value = match.groups()
        if value[0] in "=<>!":
            raise UsageError(f"{word!r}: one of = != < <= > >= expected, not {operator}{value[0]}")
        values = tuple(value.split(","))
        if "" in values:
            raise UsageError(f"{word!r}: an empty value")
        if operator not in ("=", "!=") and len(values) > 1:
            raise UsageError(f"{word!r}: one value expected after {operator}")
        if field in _WORDS and (operator not in ("=", "!=") or set(values) - set(_WORDS[field])):
            raise UsageError(f"{word!r}: {' or '.join(f'{field}={value}' for value in _WORDS[field])} expected")
        if field in _NUMBERED and operator in ("=", "!="):
            for value in values:
                if _number(value) is None:
                    raise UsageError(f"{word!r}: a number expected, not {value!r}")
        if field == "kernel" and operator not in ("=", "!="):
            if not _RELEASE.fullmatch(value):
                raise UsageError(f"{word}: a release expected, such as 6.12, as only releases have an order")
        elif operator not in ("=", "!=") and _number(value) is None:
            raise UsageError(f"{word!r}: only numbers have an order, and kernels; {value!r} is neither")
        found.append(Condition(field, operator, values))
    return found


def select(runs: Sequence[IndexedRun], conditions: Iterable[Condition]) -> list[IndexedRun]:
    """Those of the runs (testbed/runs/index.py) for which all conditions hold. UsageError for a field that none has."""
    chosen = list(runs)
    for condition in conditions:
        if condition.field not in FIELDS and runs:
            _check(condition, runs)
        if condition.field == "kernel" and runs:
            _check_kernels(condition, runs)
        chosen = [run for run in chosen if _holds(condition, run)]
    return chosen


def varied(runs: Iterable[IndexedRun]) -> list[str]:
    """The choices, settings and axes that any of these runs has, by their full names."""
    return list(dict.fromkeys(key for run in runs for key in _of_run(run)))


def value_of(run: IndexedRun, field: str) -> object:
    """What a run has of a field, None if nothing."""
    if field == "cca":
        return run["subject"]
    if field in _FLAGS:
        return "yes" if (run["pinned"] is not None if field == "pinned" else run["experiments"]) else "no"
    if field == "kernel_tree":
        return tree_name(run) or None
    if field == "kernel_hash":
        return kernel_hash(run) or None
    if field == "experiment":
        return list(run["experiments"])
    if field == "name":
        return list(dict.fromkeys(run["experiments"].values()))
    if field in FIELDS:
        return cast(Mapping[str, object], run)[field]
    return next((value for key, value in _of_run(run).items() if key == field or key.endswith("." + field)), None)


def _of_run(run: IndexedRun) -> dict[str, object]:
    """{choice, setting or axis: value}. A sweep over a choice has it in both places; what holds is the point."""
    settings = run["parameters"].get("set")
    return {**{key: value for key, value in run["parameters"].items() if key != "set"},
            **(settings if isinstance(settings, dict) else {}), **run["point"]}


def _check(condition: Condition, runs: Sequence[IndexedRun]) -> None:
    keys = [key for key in varied(runs) if key == condition.field or key.endswith("." + condition.field)]
    if not keys:
        more = varied(runs)
        raise UsageError(f"no run has a field {condition.field}; there are: {', '.join(FIELDS)}"
                         + (f"; of these runs also {', '.join(more)}" if more else ""))
    if len(keys) > 1 and condition.field not in keys:
        raise UsageError(f"{condition.field}: which of {', '.join(keys)}?")


def _check_kernels(condition: Condition, runs: Sequence[IndexedRun]) -> None:
    """UsageError for a name that no kernel has: one of a release, such as 6.1, may well be that of none."""
    for name in condition.values:
        if not _RELEASE.fullmatch(name) and not any(_is_kernel(run, name) for run in runs):
            names = dict.fromkeys(f"{run['kernel']} {tree_name(run)} {kernel_hash(run)}" for run in runs
                                  if run["kernel"])
            raise UsageError(f"kernel={name}: no run has such a kernel; there are (release, tree, hash): "
                             f"{'; '.join(names) or 'none'}")


def kernel_hash(run: IndexedRun) -> str:
    """What tells a run's kernel from all others, '' of a run without one."""
    return str(run["kernel_key"] or "").rpartition("-")[2] if run["kernel"] else ""


def tree_name(run: IndexedRun) -> str:
    """The last part of the tree's path, or the package that a kernel was built from; '' where that is not known."""
    tree = str(run["kernel_tree"] or "")
    return os.path.basename(tree) if os.path.isabs(tree) else tree


def _is_kernel(run: IndexedRun, name: str) -> bool:
    """Whether a name is that of a run's kernel: its release, its tree or the last parts of its path, its hash."""
    release = str(run["kernel"] or "")
    if not release:
        return False
    if _RELEASE.fullmatch(name) and _release(release, name) == _numbers(name):
        return True
    if name in (release, run["kernel_key"], run["kernel_tree"], run["kernel_spec"], run["point"].get("kernel")):
        return True
    if len(name) >= _LEAST_OF_HASH and kernel_hash(run).startswith(name):
        return True
    tree = str(run["kernel_tree"] or "")
    return os.path.isabs(tree) and (tree.endswith(f"/{os.path.normpath(name)}")
                                    or os.sep in name and tree == os.path.realpath(name))


def _holds(condition: Condition, run: IndexedRun) -> bool:
    if condition.field == "kernel" and condition.operator in ("=", "!="):
        return any(_is_kernel(run, name) for name in condition.values) == (condition.operator == "=")
    has = value_of(run, condition.field)
    values = has if isinstance(has, list) else [] if has is None else [has]
    if condition.operator == "!=":
        return not any(_equal(value, wanted, condition.field) for value in values for wanted in condition.values)
    if condition.operator == "=":
        return any(_equal(value, wanted, condition.field) for value in values for wanted in condition.values)
    return any(_ordered(value, condition) for value in values)


def _equal(value: object, wanted: str, field: str) -> bool:
    if isinstance(value, bool):
        if wanted not in ("yes", "no"):
            raise UsageError(f"{field}={wanted}: {field}=yes or {field}=no expected")
        return wanted == ("yes" if value else "no")
    if str(value) == wanted:
        return True
    number, other = _number(value), _number(wanted)
    return number is not None and number == other


def _ordered(value: object, condition: Condition) -> bool:
    wanted, = condition.values
    order = condition.operator
    if condition.field == "kernel":
        return bool(_ORDERS[order](_release(str(value), wanted), _numbers(wanted)))
    one, other = _number(value), _number(wanted)
    if one is None or other is None:
        raise UsageError(f"{condition.field}{order}{wanted}: only numbers have an order, and kernels; "
                         f"{value} is neither")
    return bool(_ORDERS[order](one, other))


def _release(value: str, wanted: str) -> tuple[int, ...]:
    """As many numbers of a kernel's release as are asked about: 6.12.30 is 6.12."""
    return _numbers(value)[:len(_numbers(wanted))]


def _numbers(release: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", release)
    return tuple(map(int, match.group().split("."))) if match else ()


def _number(value: object) -> float | None:
    with contextlib.suppress(ValueError, TypeError):
        number = float(value)           # type: ignore[arg-type]
        return number if math.isfinite(number) else None
    return None
