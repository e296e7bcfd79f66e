# SPDX-License-Identifier: GPL-2.0-only
"""`--kernel 6.1,6.12,newest`: several kernels are the levels of a factor, in one experiment."""
from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from testbed import engines
from testbed.cli import _shared
from testbed.core.errors import UsageError
from testbed.runs import campaign
from testbed.runs.engine import EngineBase
from testbed.runs.experiment import KERNEL_AXIS
from testbed.scenario.scenario import Scenario

_OPTION = "kernel"


@dataclasses.dataclass(frozen=True)
class Level:
    """An engine, and what its kernel is called as a level of the factor; '' where there is but one kernel."""
    engine: EngineBase
    kernel: str = ""

    def points(self, points: Sequence[tuple[campaign.Point, Scenario]]) -> list[tuple[campaign.Point, Scenario]]:
        """Points of a sweep, with this kernel as one more coordinate."""
        if not self.kernel:
            return list(points)
        if any(KERNEL_AXIS in point for point, _ in points):
            raise UsageError(f"the sweep has an axis {KERNEL_AXIS} already: name one kernel, or give the choice "
                             "another name")
        return [({**point, KERNEL_AXIS: self.kernel}, scenario) for point, scenario in points]

    def said(self, subject: str) -> str:
        """A subject as it is called in messages: with its kernel, where there are several."""
        return f"{subject} (kernel {self.kernel})" if self.kernel else subject


def levels(arguments: argparse.Namespace) -> list[Level]:
    """What `--engine` and `--kernel` ask for: engines, or one engine with several kernels.

    `newest` becomes the version it is today, in `arguments` too; kernels that turn out to be the same are one.
    """
    asked = _specs(arguments.kernel)
    options = _shared.engine_options(arguments)
    if len(asked) > 1:
        import kernel
        asked = list(dict.fromkeys(str(kernel.resolve(spec, _shared.reporter())) for spec in asked))
        arguments.kernel = options[_OPTION] = ",".join(asked)
    if len(asked) < 2:
        if asked:
            arguments.kernel = options[_OPTION] = asked[0]
        return [Level(engine) for engine in engines.load_several(arguments.engine, options)]
    if len(engines.load_several(arguments.engine, {})) > 1:
        raise UsageError("several kernels in several engines: one of the two at a time")
    return [Level(_load(arguments.engine, options, spec), name) for spec, name in zip(asked, names(asked))]


def _load(engine: str, options: Mapping[str, object], spec: str) -> EngineBase:
    return engines.load_several(engine, {**options, _OPTION: spec})[0]


def _specs(text: str | None) -> list[str]:
    """'6.1,6.12' -> ['6.1', '6.12']; a path with a comma in its name is one."""
    if text is None or "," not in text or os.path.exists(text):
        return [] if text is None else [text]
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise UsageError(f"--kernel {text}: versions or paths separated by commas expected")
    return list(dict.fromkeys(found))


def names(specs: Sequence[str]) -> list[str]:
    """What kernels are called: a version by itself, a path by as many of its last parts as tell it from the others."""
    parts = [pathlib.PurePath(os.path.normpath(os.path.abspath(spec))).parts if os.sep in spec or os.path.exists(spec)
             else (spec,) for spec in specs]
    found = []
    for mine in parts:
        counts = range(1, len(mine) + 1)
        found.append(next((end for count in counts if sum(
            other[-count:] == mine[-count:] for other in parts) == 1 and (end := "/".join(mine[-count:]))),
            "/".join(mine)))
    return found
