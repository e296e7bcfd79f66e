# SPDX-License-Identifier: GPL-2.0-only
"""What stands beside raw/ in a run's folder, and in that of an experiment: plan.json, environment.json, run.json,
verdict.json and experiment.json (docs/reference/run-folder.md).

testbed/runs writes all but verdict.json, which is the checks' (testbed/checks); checks and analysis read them.
"""
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypedDict

from testbed.core.record import Inner, ListOf, Perhaps, Record, Within
from testbed.core.timing import Timing

# -- plan.json -----------------------------------------------------------------------------------


class ProbeSettings(Record):
    """What a scenario says of a probe."""
    interval_us: int | None = None
    #: of `queue`: that of the links that are no bottlenecks
    edge_interval_us: int | None = None
    #: of `tcp_info_often`
    hosts: Sequence[str] = ()


class _Times(Record):
    prefill_us: int
    warmup_us: int
    duration_us: int


class _Timing(Inner[_Times]):
    """When measuring begins and ends."""

    def __get__(self, record: Record, owner: type[Record]) -> Timing:
        times = self.kind(self._raw(record), record._file)
        return Timing(prefill_us=times.prefill_us, warmup_us=times.warmup_us,
                      test_us=times.duration_us - times.prefill_us - times.warmup_us)


class Scenario(Record):
    """A scenario as resolved. Its sections topology and hosts are those of the user; network: as network.json."""
    timing = _Timing(_Times)
    #: {name: settings}
    probes: Mapping[str, Annotated[Mapping[str, object], ProbeSettings] | None] = {}
    #: sections of components, as the kind of each has them
    traffic: Sequence[Mapping[str, object]]

    def probe(self, name: str) -> ProbeSettings:
        """The settings of a probe; empty ones if the scenario has none."""
        return ProbeSettings(self.probes.get(name) or {}, self._file)


class Labels(Record):
    """What people call a run."""
    name: str = ""
    title: str = ""
    source: str = ""
    description: str = ""
    #: choices and fields that were given
    parameters: Mapping[str, object] = {}
    #: {axis of a sweep: value}
    point: Mapping[str, str] | None = None


class Plan(Record):
    """plan.json; `variants` has the records of traffic/workload/records.py."""
    schema: Literal[2]
    id: str
    subject: str
    seed: int
    engine: str
    scenario = Within(Scenario)
    labels = Within(Labels)
    variants: Sequence[Mapping[str, object]]
    kernel_key: str = ""
    guest_code: str = ""
    #: {path: SHA-256}
    inputs: Mapping[str, str] = {}


# -- environment.json ----------------------------------------------------------------------------


class Environment(Record):
    """What a run took place in. An engine adds what it knows of itself."""
    engine: str
    #: virtual, real or simulated
    clock: str
    capabilities: Mapping[str, object] | None = None
    code_version: str | None = None
    testbed_version: str | None = None
    kernel_release: str | None = None
    kernel_source: str | None = None
    kernel_key: str | None = None
    #: as given to --kernel
    kernel_spec: str | None = None
    kernel_options: Sequence[str] = ()
    kernel_hz: int | None = None
    simulator: str | None = None
    #: {file that the run is made with: SHA-256}, {package: version}
    files_sha256: Mapping[str, str] | None = None
    packages: Mapping[str, str] | None = None


# -- run.json ------------------------------------------------------------------------------------


class RunRecord(Record):
    """How a run went; written when it is sealed."""
    schema: Literal[2]
    id: str = ""
    #: finished or failed; nothing in a damaged one
    status: str = ""
    error: str | None = None
    virtual_s: float | None = None
    ended_at: float = 0.0
    wall_s: float | None = None
    largest_process_bytes: int | None = None
    #: of raw/, all of it and each file
    raw_sha256: str | None = None
    raw_files_sha256: Mapping[str, str] | None = None


# -- verdict.json --------------------------------------------------------------------------------


class CheckResult(TypedDict):
    """A finding of a check: level ok, suspect, invalid or not applicable."""
    check: str
    level: str
    message: str


class Verdict(TypedDict):
    """valid, suspect or invalid, why, and what all checks found; errors: {where, traceback} of checks that failed."""
    verdict: str
    reasons: list[CheckResult]
    checks: list[CheckResult]
    errors: list[dict[str, str]]


# -- experiment.json -----------------------------------------------------------------------------


class ListedRun(Record):
    """A run as an experiment lists it."""
    id: str
    name: str
    subject: str
    seed: int
    #: {axis: value}
    point: Mapping[str, str]
    #: of one that somebody took off the list
    why: str | None = None


class KnownRun(Record):
    """What the index of a results folder knows of a run (testbed/runs/index.py)."""
    id: str
    status: str
    #: "" or None: not judged
    verdict: str | None = None
    kernel: str | None = None


class ExpectedWindow(Record):
    """A part of the measurement (testbed/core/expectations.py)."""
    from_us: int | None = None
    to_us: int | None = None
    after: str = ""


class Expected(Record):
    """What the scenario expects of a metric (testbed/core/expectations.py)."""
    metric: str
    scope: str
    comparison: str
    limit: Annotated[float, (-1e300, 1e300)]
    unit: str
    ccas: Sequence[str]
    window = Perhaps(ExpectedWindow)


class ExperimentRecord(Record):
    """Which runs belong together."""
    schema: Literal[2]
    #: hash of what its runs have in common
    key: str | None = None
    name: str
    scenario: str = ""
    title: str = ""
    source: str = ""
    description: str = ""
    parameters: Mapping[str, object] = {}
    engine: str | None = None
    kernel_spec: str | None = None
    kernels: Sequence[str] = ()
    command: Sequence[str] = ()
    #: that listed further runs, the oldest first
    earlier_commands: Sequence[Sequence[str]] = ()
    axes: Mapping[str, Sequence[str]] = {}
    #: of axes whose values are numbers without one
    units: Mapping[str, str] = {}
    subjects: Sequence[str] = ()
    seeds: Sequence[int] = ()
    runs = ListOf(ListedRun, least=1)
    idle = ListOf(ListedRun, ())
    #: that others with the same subject, seed and point have replaced
    superseded = ListOf(ListedRun, ())
    #: that somebody took off the list, each with `why`
    dropped = ListOf(ListedRun, ())
    expect = ListOf(Expected, ())
