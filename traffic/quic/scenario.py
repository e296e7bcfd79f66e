# SPDX-License-Identifier: GPL-2.0-only
"""QUIC flows as a component of the traffic: our programs on a stack of others (docs/howto/quic.md).

    kind: quic
    stack: quinn:cubic          a folder of stacks/, and a congestion control of the stack
    receiver: quic-go           the stack of the receiver (default: the same)
    paths: [n4->n1]             sender->receiver (default: the first path, in the direction of the acceptor's data)
    bytes: 2 MB                 what each flow sends (default: until the end)
    start_within: 1 s           a random time below this one before each flow, from the run's seed (default: the base
                                RTT of its path)
    interval: 10 ms             between two rows of raw/quic_info.csv.gz, which is made from the senders' qlog
    keep_qlog: yes              keep the qlog, too, in raw/
    patience: 10 s              how long after its stop a program may take to end
"""
import dataclasses
import json
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from testbed.core import fields, raw_tables
from testbed.core.errors import RunFailed
from testbed.core.fields import FieldError
from testbed.core.quic_sender import QuicSender
from testbed.core.raw_files import write_table
from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.program import scenario as of_programs
from traffic.program.runner import output_names
from traffic.program.scenario import TRANSPORT, EndSection
from traffic.quic import programs, qlog
from traffic.workload import records, routes
from traffic.workload.components import Component, Context, Flow, Prepared

if TYPE_CHECKING:
    import pandas as pd

_QLOG = "sender.qlog"
_CERTIFICATE = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                "/CN=server", "-keyout", "key.pem", "-out", "cert.pem")
#: of all programs: Go starts as many threads as the machine has CPUs otherwise
_ENVIRONMENT = {"GOMAXPROCS": "1"}
_MOST_FLOWS = 100
_STACK = r"[a-z0-9][a-z0-9-]*"


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of a QUIC component."""
    stack: str = fields.word(pattern=f"{_STACK}:{_STACK}", example="quinn:cubic")
    receiver: str | None = fields.word(default=None, pattern=_STACK, example="quinn")
    paths: tuple[str, ...] = routes.paths_field()
    bytes_bytes: int | None = fields.size(default=None, least=1)
    start_within_us: int | None = fields.time(default=None)
    interval_us: int = fields.time(default=10_000, least=100)
    keep_qlog: bool = fields.flag(default=False)
    patience_us: int = fields.time(default=10_000_000)

    @property
    def sender(self) -> QuicSender:
        return QuicSender.of(self.stack)

    @property
    def receives_by(self) -> str:
        """The stack of the receiver."""
        return self.receiver or self.sender.stack


def validate(section: Section, component: Component, network: Network, _timing: Timing) -> None:
    found = routes.find(network, section.paths)
    if len(found) > _MOST_FLOWS:
        raise FieldError("paths", f"at most {_MOST_FLOWS} expected")
    for field, name in (("stack", section.sender.stack), ("receiver", section.receives_by)):
        try:
            stack = programs.read(name)
        except FieldError as problem:
            raise FieldError(field, str(problem)) from None
        if field == "stack" and section.sender.control not in stack.ccas:
            raise FieldError(field, f"{name} has no {section.sender.control}; it has {', '.join(stack.ccas)}")
    routes.in_time(component.start_us + (section.start_within_us or 0) - 1, component.stop_us, "start_within")


def bulk_routes(section: Section, network: Network) -> list[routes.Route]:
    return routes.find(network, section.paths) if section.bytes_bytes is None else []


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """One for each path, each with its start."""
    chosen = routes.find(context.network, section.paths)
    left_us = component.stop_us - component.start_us
    within_us = [max(1, min(left_us, route.base_rtt_us if section.start_within_us is None else section.start_within_us))
                 for route in chosen]
    offsets_us = np.random.default_rng(component.seed).integers(0, within_us).tolist()
    return [Flow(**dataclasses.asdict(route), start_us=component.start_us + offset_us, stop_us=component.stop_us,
                 bytes=section.bytes_bytes, transport=TRANSPORT, both_ways=True, chooses_cca=False)
            for route, offset_us in zip(chosen, offsets_us)]


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """A job for each end of each flow, and the programs. NotBuilt if a program cannot be made."""
    found = []
    for flow in flows:
        one = dataclasses.replace(component, name=_name(component.name, flow.flow), start_us=flow.start_us)
        made = of_programs.prepare(_as_programs(section, flow, context), one, [flow], context)
        found += made.programs
    for path in context.work_dir.glob(f"program-{component.name}-*-given-{programs.PROGRAM}"):
        path.chmod(0o755)
    return Prepared(found, {"stack": section.stack, "interval_us": section.interval_us, "keep_qlog": section.keep_qlog,
                            "rtt_unit": programs.read(section.sender.stack).rtt_unit})


def _name(component: str, flow: int) -> str:
    return f"{component}-{flow}"


def _as_programs(section: Section, flow: Flow, context: Context) -> of_programs.Section:
    """The two programs of a flow, as traffic of kind `program` has them."""
    how_long = ["--seconds", "{duration_s}"] if section.bytes_bytes is None else ["--bytes", str(section.bytes_bytes)]
    address = ["--port", "{port}"]
    sender = _end(section.sender.stack, context, keep=(_QLOG,), arguments=[
        "send", "--address", "{peer_address}", *address, "--cca", section.sender.control, *how_long, "--qlog", _QLOG])
    receiver = _end(section.receives_by, context, ready="udp", setup=(_CERTIFICATE,), arguments=[
        "receive", "--address", "{address}", *address, "--certificate", "cert.pem", "--key", "key.pem"])
    return of_programs.Section(path=f"{flow.sender}->{flow.receiver}", sender=sender, receiver=receiver,
                               patience_us=section.patience_us)


def _end(stack: str, context: Context, arguments: list[str], **more: object) -> EndSection:
    path = programs.program(stack, context.report)
    given: dict[str, object] = {
        "command": [*programs.command(stack), *arguments],
        "environment": {**_ENVIRONMENT, **programs.read(stack).environment},
        "files": {programs.PROGRAM: {"copy_of": str(path)}}}
    return fields.decode(EndSection, given | more)


def collect(component: records.Component, workload: records.Workload, context: Context, raw_dir: pathlib.Path) \
        -> Mapping[str, object]:
    """What the programs printed goes to raw/. RunFailed if a sender's qlog is none."""
    ours = [one for one in workload.components if one.kind == component.kind]
    if component.name == ours[0].name:              # one table for all of them
        write_table(_tables(ours, workload, context), raw_dir, "quic_info")
    kept: dict[str, list[str]] = {"receiver": [], "sender": []}
    ends = []
    for flow in _flows(component, workload):
        said: dict[str, object] = {"flow": flow.flow}
        for role, names in kept.items():
            keep = [_QLOG] if role == "sender" and component.keep_qlog else []
            outputs = output_names(f"program-{_name(component.name, flow.flow)}-{role}", keep)
            for name in outputs.values():
                shutil.copyfile(context.work_dir / name, raw_dir / name)
            names += outputs.values()
            said |= _last_word(raw_dir / outputs[""])
        if flow.bytes is not None and said.get("received_bytes") != flow.bytes:
            raise RunFailed(f"{component.name}: the receiver of flow {flow.flow} got {said.get('received_bytes')} of "
                            f"{flow.bytes} bytes")
        ends.append(said)
    return {"files": kept, "quic": ends}


def _flows(component: records.Component, workload: records.Workload) -> Iterator[records.Flow]:
    return (flow for flow in workload.flows if flow.component == component.name)


def _tables(components: list[records.Component], workload: records.Workload, context: Context) \
        -> "Iterator[pd.DataFrame]":
    """Rows of quic_info, a table for each flow."""
    import pandas as pd
    columns = raw_tables.TABLES["quic_info"].names()
    yield pd.DataFrame(columns=columns)
    for component in components:
        for flow in _flows(component, workload):
            name = output_names(f"program-{_name(component.name, flow.flow)}-sender", [_QLOG])[_QLOG]
            try:
                rows = qlog.read(context.work_dir / name, flow.flow, flow.start_us, component.rtt_unit,
                                 component.interval_us)
            except (qlog.QlogError, OSError) as problem:
                said = problem.strerror if isinstance(problem, OSError) else problem
                raise RunFailed(f"{component.name}: {name}: {said}") from None
            yield pd.DataFrame(rows, columns=columns)


def _last_word(path: pathlib.Path) -> dict[str, int]:
    """{received_bytes or sent_bytes: of the connection} as a program printed it; {} if it did not."""
    found: dict[str, int] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(said, dict):
                found |= {name: count for name in ("received_bytes", "sent_bytes")
                          if isinstance(count := said.get(name), int) and 0 <= count < 1 << 60}
    return found
