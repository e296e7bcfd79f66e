# SPDX-License-Identifier: GPL-2.0-only
"""A run folder (docs/reference/run-folder.md), read lazily.

Times are integer microseconds of experiment time throughout.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from testbed.core import derived, raw_tables, shapes
from testbed.core.errors import AnalysisError, TestbedError
from testbed.core.record import Record
from testbed.core.run_files import Environment, Labels, ListedRun, Plan, RunRecord, Scenario
from topologies.links.records import Link, Network
from traffic.workload.records import Component, Flow, Variant, Workload

__all__ = ["AnalysisError", "Array", "Interval", "Run", "State", "read_frame"]

Array = np.ndarray
_Kind = TypeVar("_Kind", bound=Record)
_DTYPES = {raw_tables.INTEGER: "int64", raw_tables.NUMBER: "float64", raw_tables.TEXT: "category"}
_OF_SOCKETS = {"state", "ssthresh", "rttvar_us", "min_rtt_us", "rto_us", "delivered", "delivery_rate_bps",
               "pacing_rate_bps", "app_limited"}
#: columns that no metric or figure here reads: not read either, since some tables have millions of rows, and a run
#: made before the column was may lack it
UNUSED = {
    "sojourn": {"dropped_us"},
    "tcp_info": _OF_SOCKETS,
    "tcp_info_often": _OF_SOCKETS,
    "tcp_probe": {"mark", "rcv_wnd", "sock_cookie"},
    "connections": {"adus_asked", "adus_delivered"},
    "adus": {"index"},
}


class Interval(NamedTuple):
    """Half-open interval [start_us, end_us) of experiment time."""

    start_us: int
    end_us: int

    @property
    def seconds(self) -> float:
        return (self.end_us - self.start_us) / 1e6


class State(NamedTuple):
    """Whether a run can be used: finished, failed, missing or damaged, and why."""

    kind: str
    message: str = ""


def read_frame(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """Columns {name: kind} of a gzipped CSV; AnalysisError if missing or corrupt."""
    dtypes = {name: _DTYPES[kind] for name, kind in columns.items()}
    try:
        return pd.read_csv(path, usecols=list(columns), dtype=dtypes, compression="gzip")
    except FileNotFoundError:
        raise AnalysisError(f"{path}: file is missing") from None
    except EOFError as error:
        raise AnalysisError(f"{path}: gzip stream ends too early (half-written?)") from error
    except pd.errors.EmptyDataError as error:
        raise AnalysisError(f"{path}: no header line") from error
    except (OSError, zlib.error, UnicodeDecodeError, ValueError, OverflowError) as error:
        raise AnalysisError(f"{path}: {error}") from error


class Run:
    """One run folder.  Files are read when first asked for, then kept.

    `listed` is the run's entry in an experiment: a run can be in several, under other names.
    """

    def __init__(self, path: Path | str, listed: ListedRun | None = None) -> None:
        self.path = Path(path)
        self._listed = listed
        self._frames: dict[tuple[str, ...], pd.DataFrame | None] = {}

    def within(self, interval: Interval) -> Run:
        """The same run, with a part of its measurement interval instead of all of it."""
        part = Run(self.path, self._listed)
        part.interval = interval
        return part

    @property
    def name(self) -> str:
        """As the experiment names it, else the id."""
        return self._listed.name if self._listed else self.path.name

    @property
    def subject(self) -> str:
        """What was tested: a variant, or several joined by + that took turns."""
        return self._listed.subject if self._listed else self.plan.subject

    @property
    def seed(self) -> int:
        return self._listed.seed if self._listed else self.plan.seed

    @property
    def point(self) -> dict[str, str]:
        """{axis: value} in a sweep."""
        point = self._listed.point if self._listed else self.labels.point
        return dict(point) if isinstance(point, dict) else {}

    @cached_property
    def plan(self) -> Plan:
        return shapes.read(Plan, self.path / "plan.json")

    @property
    def scenario(self) -> Scenario:
        """The scenario as resolved."""
        return self.plan.scenario

    @property
    def labels(self) -> Labels:
        """name, title, source, description, parameters of the scenario."""
        return self.plan.labels

    @cached_property
    def variants(self) -> list[Variant]:
        """Records of the variants in this run."""
        return shapes.listed(Variant, self.plan.variants, str(self.path / "plan.json"), "variants")

    @property
    def engine(self) -> str:
        return self.plan.engine

    @cached_property
    def status(self) -> RunRecord:
        """run.json"""
        return shapes.read(RunRecord, self.path / "run.json")

    @cached_property
    def environment(self) -> Environment:
        return shapes.read(Environment, self.path / "environment.json")

    @property
    def kernel(self) -> str:
        """Release of the kernel under test, '' where there was none."""
        return self.environment.kernel_release or ""

    @cached_property
    def network(self) -> Network:
        return shapes.read(Network, self.path / "raw" / "network.json")

    @cached_property
    def workload(self) -> Workload:
        return shapes.read(Workload, self.path / "raw" / "workload.json")

    @property
    def components(self) -> Sequence[Component]:
        """The components of the traffic, with what each says of itself."""
        return self.workload.components

    @property
    def flows(self) -> Sequence[Flow]:
        """The flow records of all components (docs/reference/run-folder.md)."""
        return self.workload.flows

    def record(self, kind: type[_Kind], name: str) -> _Kind | None:
        """raw/<name>; None when the run has none."""
        path = self.path / "raw" / name
        return shapes.read(kind, path) if path.exists() else None

    @cached_property
    def state(self) -> State:
        """Whether the run finished and its files are as it left them; reads all JSON files."""
        if not self.path.is_dir():
            return State("missing", "the run is not there: its command was interrupted, or it was removed. The same "
                         "command makes it; `testbed runs drop` takes it off the list")
        try:
            status = self.status
            if not status.status:
                return State("damaged", f"{self.path / 'run.json'}: key 'status' is missing")
            if status.status != "finished":
                return State("failed", status.error or f"the run is {status.status}")
            wanted = self._listed.id if self._listed else status.id
            for file, found in (("run.json", status.id), ("plan.json", self.plan.id)):
                if found != wanted:
                    return State("damaged", f"{self.path / file}: this is run {found!r}, not {wanted}")
            derived.check_raw(self.path, status)
            self._check()
        except TestbedError as error:
            return State("damaged", str(error))
        return State("finished")

    def _check(self) -> None:
        """Read what everything else depends on."""
        _ = self.environment.clock, self.interval, self.bottlenecks, self.flows

    @property
    def finished(self) -> bool:
        return self.state.kind == "finished"

    @cached_property
    def interval(self) -> Interval:
        """The measurement interval: after prefill and warm-up, to the end."""
        timed = self.scenario.timing
        start, end = timed.measure_from_us, timed.duration_us
        if end <= start:
            raise AnalysisError(f"{self.path / 'plan.json'}: nothing to measure, the run ends at {end} us "
                                f"and warm-up at {start} us")
        return Interval(start, end)

    @cached_property
    def bottlenecks(self) -> dict[str, Link]:
        """Bottleneck links by name: targets of a load first, then those that flows send over."""
        links = {link.name: link for link in self.network.links if link.bottleneck}
        rank = {name: place for place, name in reversed(list(enumerate(self._loaded())))}
        # without either, the heavier direction of the suite leads
        return dict(sorted(links.items(), key=lambda item: (
            rank.get(item[0], len(rank)), item[1].direction != "right_to_left")))

    def _loaded(self) -> list[str]:
        """Names of the links that the workload is meant for, the most important first."""
        return self._named + [name for flow in self.flows for name in flow.hops]

    @property
    def _named(self) -> list[str]:
        return [name for component in self.components for name in component.target_links]

    @property
    def targets(self) -> list[str]:
        """Bottleneck links that components name as targets of their load; without, those that flows send over."""
        loaded = set(self._named or self._loaded())
        return [name for name in self.bottlenecks if name in loaded]

    def frame(self, name: str, *more: str) -> pd.DataFrame | None:
        """raw/<name>.csv.gz, None when the run has none; `more`: columns that are left out otherwise."""
        key = (name, *more)
        if key not in self._frames:
            path = self.path / "raw" / f"{name}.csv.gz"
            left_out = UNUSED.get(name, set()) - set(more)
            columns = {column: kind for column, kind in raw_tables.TABLES[name].columns.items()
                       if column not in left_out}
            self._frames[key] = read_frame(path, columns) if path.exists() else None
        return self._frames[key]

    def direction_between(self, sender: str, receiver: str) -> str:
        """Direction of data between two hosts: that of the links on its path, else by the hosts' sides.

        left_to_right, right_to_left, or "" where the topology knows no sides.
        """
        by_sides = _ACROSS.get((self._sides.get(sender, ""), self._sides.get(receiver, "")), "")
        return self._directions.get((sender, receiver), by_sides)

    @cached_property
    def _sides(self) -> dict[str, str]:
        return {node.name: node.side for node in self.network.nodes}

    @cached_property
    def _directions(self) -> dict[tuple[str, str], str]:
        of_link = {link.name: link.direction for link in self.network.links}
        found: dict[tuple[str, str], str] = {}
        for path in self.network.paths:
            ends = path.initiator, path.acceptor
            for pair, hops in ((ends, path.hops), (ends[::-1], path.hops_back)):
                ways = {of_link.get(name, "") for name in hops} - {""}
                if len(ways) == 1:
                    found[pair] = ways.pop()
        return found

    @cached_property
    def owners(self) -> dict[str, str]:
        """{address: name of its node}"""
        return {address: node.name for node in self.network.nodes for address in node.addresses}

    def directions(self) -> dict[int, tuple[str, str]]:
        """source -> (direction of the initiator's data, of the acceptor's data).

        initiator_to_acceptor / acceptor_to_initiator where the topology knows no sides.
        """
        connections = self.frame("connections")
        if connections is None:
            return {}
        ends = connections[["source", "initiator", "acceptor"]].drop_duplicates("source")
        return {int(source): (self.direction_between(initiator, acceptor) or "initiator_to_acceptor",
                              self.direction_between(acceptor, initiator) or "acceptor_to_initiator")
                for source, initiator, acceptor in ends.itertuples(index=False, name=None)}


_ACROSS = {("left", "right"): "left_to_right", ("right", "left"): "right_to_left"}
