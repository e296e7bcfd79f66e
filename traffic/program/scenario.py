# SPDX-License-Identifier: GPL-2.0-only
"""Any Linux program, unmodified, as sender and receiver: a component of the traffic (docs/howto/programs.md).

    kind: program
    path: n4->n1                            sender->receiver (default: the first path, in the acceptor's direction)
    sender:
      command: [iperf3, -c, "{peer_address}", -p, "{port}", -u, -b, 2M, -t, "{duration_s}"]
    receiver:
      command: [iperf3, -s, -1, -p, "{port}"]
      ready: tcp                            it is started before traffic, and has to listen on {port}
    patience: 10 s                          how long after its stop a program may take to end

Of each end also: environment {NAME: text}, files {name: {text: ...}, {bytes: 20 MB} or {copy_of: path of the user's}},
root (a tar archive of the file system of an image, in which it runs), setup (commands before it), optional (options
that it gets if its --help names them), keep (files that it leaves), ends (by-itself or at-stop), exit (statuses that
are right).
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator, Mapping

from testbed.core import fields, ip
from testbed.core.fields import FieldError
from testbed.core.files import sha256_of
from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.program.runner import PATH, output_names
from traffic.workload import records, routes
from traffic.workload.components import Component, Context, Flow, Prepared, Program

#: transport of its flows: what a program sends, and how, is its own business
TRANSPORT = "program"
_LARGEST_FILE_BYTES = 256 << 20
_LONGEST_FILE_TEXT = 100_000
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_FILE = rf"{_NAME}(/{_NAME})*"
_READY = rf"(tcp|udp)(:[0-9]{{1,5}})?|file:{_FILE}"
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
#: in commands and environments two braces stand for one
_OR_BRACE = re.compile(r"\{\{|\{([a-z_]+)\}")
#: filled in by the runner, which makes the folder
_AT_RUN_TIME = "folder"

_ARGUMENT = fields.text()


@dataclasses.dataclass(frozen=True)
class FileSection:
    """A file that a program finds in its folder."""
    text: str | None = fields.text(default=None, longest=_LONGEST_FILE_TEXT)
    bytes_bytes: int | None = fields.size(default=None, most=_LARGEST_FILE_BYTES)
    copy_of: str | None = fields.word(default=None)

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.text, self.bytes_bytes, self.copy_of)) != 1:
            raise FieldError("", "one of text, bytes and copy_of expected")


@dataclasses.dataclass(frozen=True)
class EndSection:
    """The program of one end."""
    command: tuple[str, ...] = fields.listing(_ARGUMENT, least=1, most=200)
    optional: tuple[str, ...] = fields.listing(fields.word(pattern="--?[A-Za-z0-9][^ ]*", example="--no-gso"),
                                               default=(), single=True, most=20)
    environment: dict[str, str] = fields.mapping(_ARGUMENT, keys="[A-Za-z_][A-Za-z0-9_]*", example="NAME", default={})
    files: dict[str, FileSection] = fields.mapping(fields.section(FileSection), keys=_FILE, example="x.conf",
                                                   default={}, most=100)
    root: str | None = fields.word(default=None)
    setup: tuple[tuple[str, ...], ...] = fields.listing(fields.listing(_ARGUMENT, least=1, most=200), default=(),
                                                        most=20)
    keep: tuple[str, ...] = fields.listing(fields.word(pattern=f"{_FILE}/?", example="x.log"), default=(),
                                           distinct=True, single=True)
    ready: str | None = fields.word(default=None, pattern=_READY, example="tcp")
    ends: str | None = fields.word(default=None, choices=("by-itself", "at-stop"))
    exit: tuple[int, ...] = fields.listing(fields.count(most=255), default=(0,), least=1, single=True)

    def __post_init__(self) -> None:
        kept = output_names("", self.keep)
        if len(set(kept.values())) < len(kept):
            raise FieldError("keep", "two would be kept under one name")

    @property
    def at_stop(self) -> bool:
        """Whether it is ended when its component stops: by default that is for who waits for others."""
        return (self.ends or ("at-stop" if self.ready else "by-itself")) == "at-stop"


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of a program component."""
    path: str | None = routes.path_field()
    sender: EndSection | None = fields.section(EndSection, default=None)
    receiver: EndSection | None = fields.section(EndSection, default=None)
    patience_us: int = fields.time(default=10_000_000)

    def __post_init__(self) -> None:
        if self.sender is None and self.receiver is None:
            raise FieldError("sender", "a sender or a receiver expected")

    def ends(self) -> Iterator[tuple[str, EndSection]]:
        """(sender or receiver, its section) of those that there are."""
        for role, end in (("receiver", self.receiver), ("sender", self.sender)):
            if end is not None:
                yield role, end


def inputs(section: Section) -> dict[str, str]:
    """{path: sha256} of the user's files."""
    found = {}
    for role, end in section.ends():
        given = {f"files.{name}.copy_of": file.copy_of for name, file in end.files.items()}
        for field, text in {**given, "root": end.root}.items():
            if text is not None:
                path = pathlib.Path(os.path.expanduser(text))
                try:
                    found[str(path)] = sha256_of(path)
                except OSError as problem:
                    raise FieldError(f"{role}.{field}", f"{path}: {problem.strerror}") from None
    return found


def validate(section: Section, component: Component, network: Network, _timing: Timing) -> None:
    routes.find(network, [] if section.path is None else [section.path], "path")
    names = [*_values(None, component, "sender"), _AT_RUN_TIME]
    for role, end in section.ends():
        texts = {"command": end.command, "optional": end.optional, "environment": end.environment.values(),
                 "setup": [word for command in end.setup for word in command]}
        for field, words in texts.items():
            for word in words:
                name: str
                for name in _OR_BRACE.findall(word):
                    if name and name not in names:
                        known = ", ".join(f"{{{one}}}" for one in names)
                        raise FieldError(f"{role}.{field}", f"no placeholder {{{name}}}; there are: {known}; two "
                                                            "braces {{ stand for one")


def _values(flow: Flow | None, component: Component, role: str) -> dict[str, str]:
    """{placeholder: what it stands for at one end}; flow: None if only the names matter."""
    ends = ("", "", "", "") if flow is None else (flow.src, flow.dst, flow.sender, flow.receiver)
    own, peer = (0, 1) if role == "sender" else (1, 0)
    port = flow.dport if flow else 0
    return {"address": ends[own], "peer_address": ends[peer], "endpoint": ip.endpoint(ends[own], port),
            "peer_endpoint": ip.endpoint(ends[peer], port), "node": ends[2 + own], "peer_node": ends[2 + peer],
            "port": str(port), "start_s": f"{component.start_us / 1e6:g}",
            "stop_s": f"{component.stop_us / 1e6:g}", "seed": str(component.seed),
            "duration_s": f"{(component.stop_us - component.start_us) / 1e6:g}"}


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """One: whatever passes between the two programs."""
    route, = routes.find(context.network, [] if section.path is None else [section.path], "path")
    return [Flow(**dataclasses.asdict(route), start_us=component.start_us, stop_us=component.stop_us,
                 transport=TRANSPORT, both_ways=True, chooses_cca=False)]


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """A job file for each end, and copies of the user's files. FieldError if a program is not installed."""
    flow, = flows
    programs = []
    for role, end in section.ends():
        _require(role, end)
        values = _values(flow, component, role)
        prefix = _prefix(component.name, role)
        node = flow.sender if role == "sender" else flow.receiver
        files: dict[str, dict[str, object]] = {}
        for name, file in end.files.items():
            if file.copy_of is not None:
                copied = f"{prefix}-given-{name.replace('/', '-')}"
                shutil.copy(os.path.expanduser(file.copy_of), context.work_dir / copied)
                files[name] = {"copy_of": f"{context.guest_dir}/{copied}"}
            else:
                files[name] = ({"bytes": file.bytes_bytes} if file.text is None else
                               {"text": _filled(file.text, values, _PLACEHOLDER)})
        root_bytes = 0
        if end.root is not None:
            archive = shutil.copy(os.path.expanduser(end.root), context.work_dir / f"{prefix}-root.tar")
            root_bytes = archive.stat().st_size
        job = {"what": f"{component.name}: {end.command[0]} ({role}, on {node})",
               "command": [_filled(word, values) for word in end.command],
               "optional": [_filled(word, values) for word in end.optional], "files": files,
               "environment": {name: _filled(text, values) for name, text in end.environment.items()},
               "setup": [[_filled(word, values) for word in command] for command in end.setup], "keep": list(end.keep),
               **({"root": f"{context.guest_dir}/{prefix}-root.tar"} if end.root is not None else {}),
               "ready": end.ready, "port": flow.dport, "at_stop": end.at_stop, "exit": list(end.exit),
               "start_us": component.start_us, "patience_us": section.patience_us,
               # who waits for others stays until they must have ended
               "stop_us": component.stop_us + (section.patience_us if end.ready else 0),
               "output": f"{context.guest_dir}/{prefix}"}
        (context.work_dir / f"{prefix}.json").write_text(json.dumps(job))
        programs.append(Program(node, "traffic.program.runner", [f"{context.guest_dir}/{prefix}.json"],
                                buffers_mb=-(-root_bytes >> 20)))
    return Prepared(programs, {"keep": {role: list(end.keep) for role, end in section.ends()}})


def _filled(text: str, values: Mapping[str, str], what: re.Pattern[str] = _OR_BRACE) -> str:
    """A text with what its placeholders stand for; others stay."""
    return what.sub(lambda match: "{" if match.group() == "{{" else values.get(match.group(1), match.group()), text)


def _prefix(component: str, role: str) -> str:
    return f"program-{component}-{role}"


def _require(role: str, end: EndSection) -> None:
    """FieldError unless the programs are there; what an image has is known in the run."""
    if end.root is not None:
        return
    for field, command in (("command", end.command), *(("setup", command) for command in end.setup)):
        if command[0] not in end.files and shutil.which(command[0], path=PATH) is None:
            raise FieldError(f"{role}.{field}", f"there is no program {command[0]!r} on this machine: install its "
                                                "package (packages.txt has those of docs/howto/programs.md)")


def collect(component: records.Component, _workload: records.Workload, context: Context, raw_dir: pathlib.Path) \
        -> Mapping[str, object]:
    """The programs' outputs and the files to keep go to raw/."""
    kept: dict[str, list[str]] = {}
    for role, keep in component.keep.items():
        kept[role] = list(output_names(_prefix(component.name, role), keep).values())
        for name in kept[role]:
            shutil.copyfile(context.work_dir / name, raw_dir / name)
    return {"files": kept}
