# SPDX-License-Identifier: GPL-2.0-only
"""What the guest is told: job.json of a run's work folder, or of a session's (testbed/engines/_kernel_engine.py)."""
from collections.abc import Mapping, Sequence

from testbed.core.record import ListOf, Perhaps, Record, Within
from topologies.links.records import Network
from traffic.workload.records import Program, Variant

#: {setting of the kernel, or parameter of a module: value}
Settings = Mapping[str, int | str]


class Module(Record):
    """A congestion control to be loaded."""
    name: str
    #: in the work folder
    file: str
    parameters: Mapping[str, str]


class Session(Record):
    """What is said and done at a terminal."""
    interactive: bool
    #: what to do instead of asking
    commands: Sequence[str] | None
    #: its type
    terminal: str
    welcome: str


class Job(Record):
    """A run, or a session, which has no traffic."""
    network = Within(Network)
    #: how late timers may be; 0 in virtual time
    timer_period_us: int
    #: where the testbed's code lies
    project_dir: str
    #: a library that programs are started with
    preload: str | None = None
    # the congestion controls, and settings of nodes (testbed/runs/job_ccas.py)
    variants = ListOf(Variant)
    modules = ListOf(Module)
    #: of those that the kernel has itself: {module: parameters}
    builtin_parameters: Mapping[str, Mapping[str, str]]
    #: {node: settings}
    sysctls: Mapping[str, Settings]
    #: places in a host's table of connections
    connection_places: int
    #: {module that makes radios: its file in the work folder}
    air_modules: Mapping[str, str]
    # of runs
    seed: int = 1
    duration_us: int
    measure_from_us: int
    #: whether CPUs have to be kept from idling
    never_idle: bool
    #: {probe: its options}
    probes: Mapping[str, Mapping[str, object]]
    #: files in the work folder
    probe_modules: Sequence[str]
    programs = ListOf(Program)
    # of sessions
    session = Perhaps(Session)
