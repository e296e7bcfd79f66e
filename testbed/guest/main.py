# SPDX-License-Identifier: GPL-2.0-only
"""One run, from orders to raw files."""
import ctypes
import json
import os
import sys
import time
from collections.abc import Mapping
from types import ModuleType
from typing import NamedTuple

from testbed import probes
from testbed.core.no_idle import prevent_idle
from testbed.guest import checks, congestion_controls, counters, late, sampler, tuning
from testbed.guest.job import Job
from testbed.guest.link_changes import LinkChanges
from testbed.guest.programs import Programs, processes
from testbed.guest.settings import MachineSettings
from testbed.guest.snmp import Snmp
from testbed.guest.traced_links import TracedLinks
from testbed.guest.urgent import urgent
from topologies.linux.network import Network
from traffic.io.clock import now_ns
from traffic.workload.records import Program

#: for the image of process 1 (testbed/runs/import_image.py): probes that most runs have
ALSO = ("testbed.probes.queue", "testbed.probes.sojourn", "testbed.probes.tcp_info")
_PR_SET_TIMERSLACK = 29
#: how long the network may take to run empty after the last program ended
_DRAIN_S = 10
#: programs end by themselves, those that count what arrives once the longest queues can be empty
_PATIENCE_S = 600
#: what is due at the end itself has been done by then
_AFTER_THE_END_S = 1e-6
#: a multiple of the tick, whatever its rate
_PHASE_NS = 100_000_000
#: how long connections may take to end whose programs were killed
_CLOSE_S = 2


def _air(job: Job, work_dir: str) -> ModuleType | None:
    """testbed.guest.air where a network has radios, which are then there; None where it has none."""
    if not job.network.cells:
        return None
    from testbed.guest import air
    air.load(job, work_dir)
    return air


class Output:
    """The run's work folder: complete files or none."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def json(self, name: str, value: object) -> None:
        path = os.path.join(self.folder, name)
        with open(path + ".part", "w", encoding="utf-8") as f:
            json.dump(value, f, indent=1)
        os.replace(path + ".part", path)

    def phase(self, name: str, t_us: int = 0) -> None:
        """Wall time is only known outside: the engine notes when each of these appears."""
        self.json("progress.json", {"phase": name, "t_us": t_us})


def run(job: Job, work_dir: str) -> None:
    """Carry out `job` and leave binary and JSON files in `work_dir`."""
    with MachineSettings() as machine, prevent_idle(job.never_idle):
        _run(job, work_dir, machine)


def _run(job: Job, work_dir: str, machine: MachineSettings) -> None:
    output = Output(work_dir)
    # sleep exactly as long as asked for, not up to 50 us longer
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    output.phase("network")
    description = job.network
    wanted = tuning.machine_sysctls(description, job.connection_places, job.timer_period_us == 0)
    found = {name: machine.sysctl(name, value) for name, value in wanted.items()}
    controls = congestion_controls.make_available(job, work_dir, machine)
    air = _air(job, work_dir)
    # shells are dear in a guest only
    with Network(description, job.sysctls, job.timer_period_us, shells=job.timer_period_us > 0) as network:
        output.json("network.json", description.content())
        output.phase("checks")
        for file in job.probe_modules:
            congestion_controls.load_module(os.path.join(work_dir, file), {})
        measured_before, of_devices = checks.measure(network, description, work_dir)
        measured_before |= {"sysctls_wanted": job.sysctls, "machine_sysctls_wanted": wanted, "machine_sysctls": found,
                            "congestion_controls": controls._asdict(), "timer_period_us": job.timer_period_us,
                            "tainted": late.tainted()}
        before = late.Before(of_devices, found, controls.parameters, late.kept_kb())
        output.json("checks.json", measured_before)
        output.phase("programs")
        modules = {name: probes.load(name) for name in job.probes}
        # what is sampled at one instant, counters at the end of the traffic included, is the state at that instant
        samplers = {name: modules[name].Sampler(modules[name].Options(**job.probes[name]), network, description,
                                                work_dir)
                    for name in sorted(modules, key=lambda name: not getattr(modules[name], "STARTS_PROCESSES", False))}
        programs = Programs(network, _processes(job), job.project_dir, work_dir, job.preload)
        try:
            measured = _measure(job, network, programs, samplers, air, output)
        except BaseException:
            programs.kill()
            # connections of killed programs reset each other; without a network they would keep their namespaces
            # for minutes
            time.sleep(_CLOSE_S)
            raise
        finally:
            programs.kill()
        time.sleep(_DRAIN_S)
        air_drained = air.settled(network) if air else None
        drained = counters.read_all(network)
        of_air = air.differences(measured.air_before, measured.air_at_end, air_drained) if air else {}
        measured.snmp.take("drained")
        notes = {name: probe.close() for name, probe in samplers.items()}
        output.json("counters.json", {"measure_from": counters.difference(measured.measure_from, measured.before),
                                      "at_end": counters.difference(measured.at_end, measured.before),
                                      "drained": counters.difference(drained, measured.before), **of_air})
        output.json("late.json", late.read(network, before, _of_modules(job)))
        output.json("snmp.json", measured.snmp.record())
        output.json("link_changes.json", measured.changes.rows)
        output.json("opportunities.json", measured.traces.rows)
        output.json("guest.json", {
            "t0_ns": measured.t0_ns, "kernel": os.uname().release, "python": sys.version.split()[0],
            "sampler_lateness_us": measured.lateness_us, "probes": notes, "accounts": measured.accounts})


def _of_modules(job: Job) -> list[str]:
    """Names of the congestion controls that are not the kernel's own. On a machine others allocate memory, too."""
    return [] if job.timer_period_us else sorted(
        {variant.kernel_cca for variant in job.variants if variant.module_sha256})


def _processes(job: Job) -> list[list[Program]]:
    """Which programs of a job are one process: none where computing takes time."""
    return [[program] for program in job.programs] if job.timer_period_us else processes(job.programs)


class _Measured(NamedTuple):
    """Of the time from before the experiment until its programs have ended: counters then, when measuring began and at
    the end of the traffic (of links, of stations), what else was noted, how late samples were, what programs account
    for."""
    t0_ns: int
    before: dict[str, counters.Counts]
    measure_from: dict[str, counters.Counts]
    at_end: dict[str, counters.Counts]
    air_before: object
    air_at_end: object
    snmp: Snmp
    changes: LinkChanges
    traces: TracedLinks
    lateness_us: dict[str, int]
    accounts: list[dict[str, object]]


def _measure(job: Job, network: Network, programs: Programs, samplers: Mapping[str, probes.Sampler],
             air: ModuleType | None, output: Output) -> _Measured:
    """Start the programs and sample, until they have ended by themselves."""
    description = network.description
    programs.wait_until_ready()
    for probe in samplers.values():
        probe.open()
    air_before = air.settled(network) if air else None
    before, snmp = counters.read_all(network), Snmp(network, job.measure_from_us, job.duration_us)
    measuring = counters.WhenMeasuringBegins(network, job.measure_from_us, job.duration_us)
    changes = LinkChanges(network, description, job.timer_period_us)
    traces = TracedLinks(network, description, job.duration_us)
    # in a second, and where the ticks of TCP's timers always are: what was measured before moves no instant
    t0_ns = (time.monotonic_ns() // _PHASE_NS + 1) * _PHASE_NS + 1_000_000_000
    for probe in samplers.values():
        if starts := getattr(probe, "starts", None):
            starts(t0_ns, job.measure_from_us, job.duration_us)
    programs.start(t0_ns)

    def every_second(t_us: int) -> None:
        output.phase("traffic", t_us)
        programs.check()

    def settle() -> None:
        """A packet whose timer expires in the same step of the virtual clock as ours is moved by a soft interrupt,
        which may be put off until a system call lets it in. This one does, so that no packet moves between the last
        samples and the counters, which have to agree."""
        counters.read_all(network)

    with urgent(True):
        lateness_us = sampler.run([*samplers.values(), snmp, measuring, changes, traces], t0_ns, job.duration_us,
                                  every_second, settle)
    output.phase("finish")
    at_end = counters.read_all(network)
    air_at_end = air.read(network) if air else None
    snmp.take("at_end")
    # what leaves from now on is no part of the run: not of its last instant either
    time.sleep(max(0, t0_ns + job.duration_us * 1000 - now_ns()) / 1e9 + _AFTER_THE_END_S)
    changes.release()
    traces.release()
    accounts = programs.finish(_PATIENCE_S + sum(link.capacity_us for link in description.links) / 1e6)
    return _Measured(t0_ns, before, measuring.links, at_end, air_before, air_at_end, snmp, changes, traces,
                     dict(zip(samplers, lateness_us.values())), accounts)
