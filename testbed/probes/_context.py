# SPDX-License-Identifier: GPL-2.0-only
"""What a probe's `collect` is told of its run."""
import dataclasses
from collections.abc import Sequence
from typing import Generic, TypeVar

from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.workload.records import Flow

_Options = TypeVar("_Options")


@dataclasses.dataclass(frozen=True)
class Context(Generic[_Options]):
    """options: the probe's own; t0_ns: the clock's reading (CLOCK_MONOTONIC) when traffic began."""
    options: _Options
    network: Network
    flows: Sequence[Flow]
    t0_ns: int
    timing: Timing
