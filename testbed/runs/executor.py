# SPDX-License-Identifier: GPL-2.0-only
"""What every executor offers: carrying out jobs that do not depend on each other."""
from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence

from testbed.runs.engine import EngineBase
from testbed.runs.run import Job, Outcome
from testbed.runs.store import Store


@dataclasses.dataclass(frozen=True)
class Listener:
    """Who wants to know how the jobs go: each is called with the number of a job in its list."""
    started: Callable[[int], None]
    progress: Callable[[int, str, int], None]       # phase, experiment time in us
    ended: Callable[[int, Outcome], None]


class ExecutorBase(abc.ABC):
    """Carries out jobs; one instance serves one command."""

    @abc.abstractmethod
    def __init__(self, engine: EngineBase, store: Store, jobs_at_a_time: int | None) -> None:
        """jobs_at_a_time: None for as many as suits the engine and the machine."""

    @abc.abstractmethod
    def run(self, jobs: Sequence[Job], listener: Listener) -> None:
        """Carry out all jobs. A job that fails, or whose process is killed, does not stop the others; when
        this is interrupted, all that goes on is ended and cleaned up."""
