# SPDX-License-Identifier: GPL-2.0-only
"""A run and its repetition: with what it was made, and what is not the same."""
from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Mapping

from testbed import engines
from testbed.cli import _shared
from testbed.core.errors import TestbedError, UsageError
from testbed.core.run_files import Environment
from testbed.runs import plan
from testbed.runs.engine import EngineBase


def engine_for(arguments: argparse.Namespace, name: str, before: Environment, what: str) -> EngineBase:
    """The engine of a run, ready, with the kernel that the run had unless another one is asked for.

    UsageError if its runs cannot be repeated. what: the run, for messages.
    """
    options = argparse.Namespace(**vars(arguments))
    for option in engines.declared().get(name, ()):
        recorded = vars(before).get(option.recorded)
        if getattr(options, option.name) in (None, []) and isinstance(recorded, list if option.repeats else (str, int)):
            setattr(options, option.name, recorded)
    engine = engines.load(name, _shared.engine_options(options))
    if engine.capabilities.clock == "real":
        raise UsageError(f"{what}: a run of engine {engine.name} cannot be repeated to the byte, since it took "
                         "place on a wall clock: compare seeds instead")
    engine.prepare(_shared.reporter())
    return engine


def with_todays_code(was: plan.Plan, engine: EngineBase) -> plan.Plan:
    """The plan as it is carried out now: else a repetition could not be told from the run itself."""
    return dataclasses.replace(was, guest_code=engine.code_for(was.scenario.network), kernel_key=engine.kernel_key())


def different_files(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Names of the raw files whose hashes differ."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def environment_of(run_dir: pathlib.Path) -> Environment:
    try:
        value = json.loads((run_dir / "environment.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise TestbedError(f"{run_dir / 'environment.json'}: not readable") from None
    return Environment(value if isinstance(value, dict) else {}, str(run_dir / "environment.json"))


def differences(was: plan.Plan, now: plan.Plan, before: Environment, after: Environment) -> list[str]:
    """What is not the same in what the two runs were made from, in words."""
    found = []
    if was.guest_code != now.guest_code:
        found.append(f"the testbed's code that runs inside (was {was.guest_code[:12]}, is {now.guest_code[:12]})")
    if was.kernel_key != now.kernel_key:
        found.append(f"the kernel (was {was.kernel_key}, is {now.kernel_key})")
    for one, other in ((before.files_sha256 or {}, after.files_sha256 or {}),
                       (before.packages or {}, after.packages or {})):
        if isinstance(one, dict) and isinstance(other, dict):
            found += [f"{name} (was {str(one.get(name, 'none'))[:24]}, is {str(other.get(name, 'none'))[:24]})"
                      for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
    return found
