# SPDX-License-Identifier: GPL-2.0-only
"""Variants of congestion controls: what stands behind a name given to `--cca`.

    cubic               a CCA of the kernel, with its usual settings
    newreno             a variant that comes with the testbed: the file ccas/newreno.yaml
    ./mine.yaml         a variant file of one's own
    ./tcp_mine.c        a module: a .c file, or a folder with a Kbuild or Makefile
    libra+bic           several variants that take turns in one run: odd flows libra, even flows bic
    new=./tcp_mine.c    any of them under a name of one's own, its label
    quic:quinn:cubic    a QUIC stack with one of its congestion controls, which takes the greedy flows
                        (testbed/scenario/quic_flows.py)

A CCA is a congestion control as the kernel names it. A variant is a CCA with the settings (sysctls,
module parameters, socket options) that make it what its name says. A subject is what one entry of `--cca` names: one
variant, or several that take turns. In parameters, `{bottleneck_bps}`, `{bottleneck_kbps}` and
`{bottleneck_mbps}` stand for the rate of the bottleneck of the variant's flows.
"""
import dataclasses
import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from kernel import KernelError
from testbed import PROJECT_DIR
from testbed.core import guesses
from testbed.core.errors import RunFailed, UsageError
from testbed.core.fields import FieldError
from testbed.core.quic_sender import QuicSender
from testbed.core.yaml_file import YamlFile
from testbed.scenario import socket_options
from testbed.scenario.socket_options import SocketOption
from topologies.links import end_hosts
from traffic.workload import assign, records

CCA_DIR = PROJECT_DIR / "ccas"
_SECTIONS = {"title", "source", "kernel_cca", "module", "sysctls", "parameters", "socket_options", "later_kernels"}
# names become parts of paths
_KERNEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,14}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_LABEL = re.compile(r"(?P<label>[^=/]*)=(?P<what>.*)")
_PARAMETER = re.compile(r"[a-z0-9_]{1,60}")
_PARAMETER_VALUE = re.compile(r"[A-Za-z0-9_.,:+-]+|\{bottleneck_(bps|kbps|mbps)\}")
#: those of the kernel that set TCP_CONG_NEEDS_ECN
_NEED_ECN = ("dctcp",)
#: begins what is no congestion control of the kernel: quic:STACK:CONTROL
_QUIC = "quic"
_PER_BIT_PER_S = {"bps": 1, "kbps": 1000, "mbps": 1_000_000}


class Part(Protocol):
    """One module as it is loaded."""
    @property
    def name(self) -> str: ...

    @property
    def file(self) -> pathlib.Path: ...


class Module(Protocol):
    """A module that was built and loaded on trial, or several of one folder; sha256: of the sources; renamed: {name
    that it registers: that in its source, which the kernel has}."""
    @property
    def file(self) -> pathlib.Path | None: ...

    @property
    def sha256(self) -> str: ...

    @property
    def congestion_controls(self) -> Sequence[str]: ...

    @property
    def renamed(self) -> Mapping[str, str]: ...

    @property
    def warnings(self) -> str: ...

    def part_name(self, congestion_control: str) -> str: ...

    def loaded_for(self, congestion_control: str) -> Sequence[Part]: ...


class _Capabilities(Protocol):
    @property
    def kernel(self) -> bool: ...


class Engine(Protocol):
    """What of an engine decides which variants it has (testbed/runs/engine.py)."""
    name: str

    @property
    def capabilities(self) -> _Capabilities: ...

    def kernel_release(self) -> str: ...

    def congestion_controls(self) -> Sequence[str]: ...

    def known_ccas(self) -> Sequence[str] | None: ...

    def refusal(self, variant: records.Variant) -> str: ...

    def build_module(self, source: str, report: Callable[[str], None]) -> Module: ...


@dataclasses.dataclass(frozen=True)
class Variant:
    """A CCA and the settings that make it what its name says.

    module: path of its sources, None if the kernel has it; kernel_cca: what TCP_CONGESTION
    calls it, None while only its module knows; module_name: as in lsmod, once it is built; needs_ecn: it is made
    for queues that mark; labelled: its name was given on the command line; quic: STACK:CONTROL of a QUIC program, whose
    kernel_cca is that of its hosts, which it does not use.
    """
    name: str
    kernel_cca: str | None
    title: str = ""
    source: str = ""
    module: str | None = None
    sysctls: dict[str, int | str] = dataclasses.field(default_factory=dict)
    parameters: dict[str, int | str] = dataclasses.field(default_factory=dict)
    socket_options: tuple[SocketOption, ...] = ()
    module_sha256: str | None = None
    # ((major, minor), title): what it is from that kernel on
    later_title: tuple[tuple[int, ...], str] | None = None
    module_name: str | None = None
    needs_ecn: bool = False
    labelled: bool = False
    quic: str = ""

    @property
    def named(self) -> bool:
        """False while its name is only a guess: that of a module's file, until it is known what it registers."""
        return self.labelled or self.kernel_cca is not None

    def on_kernel(self, release: str) -> "Variant":
        """The same, titled as what it is on a kernel such as '6.12.1-testbed'."""
        version = tuple(int(n) for n in re.findall(r"\d+", release)[:2])
        if self.later_title and version >= self.later_title[0]:
            return dataclasses.replace(self, title=self.later_title[1], later_title=None)
        return self

    def record(self) -> records.Variant:
        """What plan.json keeps of it: enough to make the run again, and to tell a reader what it was."""
        fields = dataclasses.asdict(self)
        del fields["later_title"], fields["labelled"]
        if not self.quic:
            del fields["quic"]
        return records.Variant(fields)


@dataclasses.dataclass(frozen=True)
class Subject:
    """What one run tests: one variant for all flows, or several that take turns. given: as written after --cca."""
    name: str
    variants: tuple[Variant, ...]
    given: str = ""

    def record(self) -> list[records.Variant]:
        return [v.record() for v in self.variants]


def names() -> list[str]:
    """Names of the variants that come with the testbed."""
    return sorted(p.stem for p in CCA_DIR.glob("*.yaml"))


def load(path: str | pathlib.Path) -> Variant:
    """The Variant of a YAML file; ScenarioError (file:line: field: ...) if it makes no sense."""
    path = pathlib.Path(path)
    file = YamlFile(path, _SECTIONS)
    tree = file.tree
    if not _NAME.fullmatch(path.stem):
        raise file.error("", "the file's name is the variant's: lower-case letters, digits and hyphens expected, not "
                             f"{path.stem!r}")
    kernel_cca, module = tree.get("kernel_cca"), tree.get("module")
    if kernel_cca is None and module is None:
        raise file.error("", "'kernel_cca' is missing")
    if kernel_cca is not None and not (isinstance(kernel_cca, str) and _KERNEL_NAME.fullmatch(kernel_cca)):
        raise file.error("kernel_cca", "a name such as 'reno' expected")
    if module is not None:
        if not isinstance(module, str):
            raise file.error("module", "the path of a .c file or folder expected")
        base = PROJECT_DIR if path.resolve().parent == CCA_DIR else path.resolve().parent
        module = base / os.path.expanduser(module)
        if not module.exists():
            raise file.error("module", f"{module} does not exist")
    sysctls, parameters = file.mapping("sysctls"), file.mapping("parameters")
    for name, value in sysctls.items():
        if not re.fullmatch(r"net\.ipv4(\.[a-z0-9_]+)+", str(name)):
            raise file.error(f"sysctls.{name}", "only net.ipv4.* can be set per host")
        if isinstance(value, bool) or not isinstance(value, (int, str)) or not str(value).isprintable():
            raise file.error(f"sysctls.{name}", "a number or words expected")
    for name, value in parameters.items():
        if not _PARAMETER.fullmatch(str(name)):
            raise file.error(f"parameters.{name}", "not a name of a module parameter")
        if not isinstance(value, (int, str)) or not _PARAMETER_VALUE.fullmatch(str(value)):
            raise file.error(f"parameters.{name}", "a number, a word, or {bottleneck_kbps} expected")
    return Variant(path.stem, kernel_cca, str(tree.get("title", "")), str(tree.get("source", "")),
                   str(module) if module else None, cast(dict[str, int | str], dict(sysctls)),
                   {k: _plain(v) for k, v in cast(dict[str, int | str], parameters).items()},
                   socket_options.read(file), later_title=_later_title(file))


def _later_title(file: YamlFile) -> tuple[tuple[int, ...], str] | None:
    later = file.mapping("later_kernels")
    if not later:
        return None
    if set(later) != {"from", "title"} or not isinstance(later["from"], str) \
            or not re.fullmatch(r"\d+\.\d+", later["from"]):
        raise file.error("later_kernels", 'from: "6.17" (in quotes) and title: expected')
    return tuple(int(n) for n in later["from"].split(".")), str(later["title"])


def _plain(value: int | str) -> int | str:
    return int(value) if isinstance(value, bool) else value


def find(text: str) -> Variant:
    """The Variant that one name or path given to --cca stands for, with a label or without one. UsageError if there is
    none."""
    path = pathlib.Path(os.path.expanduser(text))
    label = _LABEL.fullmatch(text)
    if label and not path.exists():
        if not _NAME.fullmatch(label["label"]):
            raise UsageError(f"--cca {text}: a label has lower-case letters, digits, _ and -, at most 40: "
                             f"{label['label']!r} is none")
        if not label["what"]:
            raise UsageError(f"--cca {text}: what is called {label['label']}? {text}cubic or {text}./tcp_mine.c "
                             "expected")
        found = find(label["what"])
        if found.labelled:
            raise UsageError(f"--cca {text}: one label expected")
        if label["label"] in names() and label["label"] != found.name:
            raise UsageError(f"--cca {text}: {label['label']!r} is the name of another congestion control, and no "
                             f"label for {label['what']}")
        return dataclasses.replace(found, name=label["label"], labelled=True)
    if text.partition(":")[0] == _QUIC and not path.exists():
        return _of_quic(text)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UsageError(f"--cca {text}: no such file")
        return load(path)
    if path.suffix in (".c", ".ko", ".o") or "/" in text:
        if path.suffix in (".ko", ".o"):
            raise UsageError(f"--cca {text}: the sources expected (a .c file or a folder): modules are built for the "
                             "guest's kernel")
        if not path.exists():
            raise UsageError(f"--cca {text}: no such file or folder")
        if not path.is_file() and not path.is_dir():
            raise UsageError(f"--cca {text}: neither a regular file nor a folder")
        stem = path.resolve().stem.removeprefix("tcp_").lower()
        name = re.sub(r"[^a-z0-9_-]", "-", stem).lstrip("_-")[:40] or "module"
        return Variant(name, None, source=text, module=str(path.resolve()))
    if text in names():
        return load(CCA_DIR / f"{text}.yaml")
    if not _KERNEL_NAME.fullmatch(text) or text != text.lower():
        raise UsageError(f"--cca: {text!r} is not a name of a congestion control, nor the path of a module "
                         "(./tcp_mine.c)")
    return Variant(text, text)


def _of_quic(text: str) -> Variant:
    """A QUIC stack with one of its congestion controls. UsageError if there is none such."""
    from traffic.quic import programs
    sender = QuicSender.of(text.partition(":")[2])
    stack, control = sender
    if not stack or not control:
        raise UsageError(f"--cca {text}: {_QUIC}:STACK:CONTROL expected, such as quic:quinn:cubic; stacks: "
                         f"{', '.join(programs.names())}")
    try:
        found = programs.read(stack)
    except FieldError as problem:
        raise UsageError(f"--cca {text}: {problem}") from None
    if control not in found.ccas:
        raise UsageError(f"--cca {text}: {stack} has no {control}; it has {', '.join(found.ccas)}"
                         f"{guesses.question(control, found.ccas)}")
    return Variant(f"{_QUIC}-{stack}-{control}", assign.NEUTRAL_CCA, title=f"{control} of {found.title} (QUIC)",
                   quic=str(sender))


def parse(text: str) -> list[Subject]:
    """The Subjects of a comma-separated list; an entry that is there twice, letter by letter, counts once. UsageError.

    Modules without a label get their names when they are made ready.
    """
    entries = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    subjects = [_subject(tuple(map(find, _parts(entry))), entry) for entry in entries]
    if not subjects:
        raise UsageError("--cca: at least one congestion control is needed, such as --cca cubic")
    check_names([subject for subject in subjects if all(variant.named for variant in subject.variants)])
    return subjects


def _parts(entry: str) -> list[str]:
    """What takes turns; a path may have a + in it."""
    label = _LABEL.fullmatch(entry)
    for path in (entry, label["what"] if label else ""):
        if "/" in path and os.path.exists(os.path.expanduser(path)):
            return [entry]
    return entry.split("+")


def _subject(variants: tuple[Variant, ...], given: str) -> Subject:
    return Subject("+".join(variant.name for variant in variants), variants, given)


def check_names(subjects: Sequence[Subject]) -> None:
    """UsageError if two subjects have one name: runs, tables and figures are told apart by it."""
    known: dict[str, Subject] = {}
    for subject in subjects:
        other = known.setdefault(subject.name, subject)
        if other is not subject:
            what = subject.given.removeprefix(f"{subject.name}=")       # a label is not put before a label
            example = f"new={what}" if len(subject.variants) == 1 else "new=./tcp_mine.c"
            raise UsageError(f"--cca: {other.given} and {subject.given} are both called {subject.name}: give one of "
                             f"them a label, such as {example}")


def make_ready(subject: Subject, engine: Engine, report: Callable[[str], None]) -> Subject:
    """The Subject with its modules built and all names known; RunFailed or UsageError if that cannot be."""
    release = engine.kernel_release()
    variants = tuple(_ready(v.on_kernel(release), engine, report) for v in subject.variants)
    for place, variant in enumerate(variants):
        if variant.name in [other.name for other in variants[:place]]:
            raise UsageError(f"--cca {subject.given or subject.name}: two variants are called {variant.name}: give one "
                             "of them a label, such as new=./tcp_mine.c")
    check_together([variant.record() for variant in variants])
    return _subject(variants, subject.given)


def check_together(variants: Sequence[records.Variant]) -> None:
    """UsageError if variants cannot be in one kernel: a name is registered once, and a module of a name loaded once."""
    for of, words, mend in (
            ("kernel_cca", "register {}, and a kernel takes one of a name", "compare them in runs of their own"),
            ("module_name", "are modules called {}, and a kernel takes one of a name", "rename one of the files")):
        known: dict[str, records.Variant] = {}
        for variant in variants:
            called = variant.kernel_cca if of == "kernel_cca" else variant.module_name
            other = known.setdefault(called, variant) if called else variant
            both = f"--cca: {other.name} and {variant.name} cannot be in one run: both "
            if other.module_sha256 != variant.module_sha256:
                raise UsageError(both + f"{words.format(called)}: {mend}")
            if other.parameters != variant.parameters:
                raise UsageError(both + f"are {called}, which has one set of parameters in a kernel, and they "
                                        "want two sets of parameters: compare them in runs of their own")


def _ready(variant: Variant, engine: Engine, report: Callable[[str], None]) -> Variant:
    if variant.module is None:
        available = engine.congestion_controls()
        if variant.kernel_cca not in available:
            raise _not_there(variant, available, engine)
        if refusal := engine.refusal(records.Variant(variant.record())):
            raise RunFailed(f"{refusal}, which {variant.name} needs")
        if variant.quic:
            _require_program(QuicSender.of(variant.quic).stack)
        return dataclasses.replace(variant, needs_ecn=variant.kernel_cca in _NEED_ECN)
    try:
        module = engine.build_module(variant.module, report)
    except KernelError as problem:
        raise RunFailed(str(problem)) from None
    if module.warnings:
        report(f"compiler warnings: {module.warnings}")
    for name in module.congestion_controls:
        if not _KERNEL_NAME.fullmatch(name):
            raise RunFailed(f"{variant.module} registers {_plain_text(name)}: a name of at most 15 letters, digits, _ "
                            "and - expected")
    in_source = {taken: name for name, taken in module.renamed.items()}
    kernel_cca = in_source.get(variant.kernel_cca, variant.kernel_cca) if variant.kernel_cca else _only(module, variant)
    if kernel_cca not in module.congestion_controls:
        raise RunFailed(f"{variant.module} registers {', '.join(module.congestion_controls)}, not {kernel_cca}")
    name = variant.name if variant.named else kernel_cca.lower()
    if not variant.named and name != kernel_cca and name in {*names(), *engine.congestion_controls()}:
        raise UsageError(f"--cca {variant.source}: it registers {kernel_cca}, and {name} is another congestion "
                         f"control: give it a label, such as new={variant.source}")
    return dataclasses.replace(variant, name=name, kernel_cca=kernel_cca, module_sha256=module.sha256,
                               module_name=module.part_name(kernel_cca), needs_ecn=_asks_for_ecn(module))


def _require_program(stack: str) -> None:
    """RunFailed unless the program of a QUIC stack is there, or can be made."""
    from traffic.quic import programs
    if not programs.is_built(stack) and (lacks := programs.missing(stack)):
        raise RunFailed(f"{stack}: {lacks}")


def _not_there(variant: Variant, available: Sequence[str], engine: Engine) -> UsageError:
    name = str(variant.kernel_cca)
    if not engine.capabilities.kernel:
        return UsageError(f"engine {engine.name} has no congestion control {name!r}; it has: {', '.join(available)}"
                          + guesses.question(name, available))
    return UsageError(f"no congestion control {name!r} in this kernel; "
                      f"{guesses.alternatives(name, sorted({*available, *names()}))} (or give the sources of a module: "
                      "./tcp_mine.c)")


def check_known(variants: Sequence[Variant], engine: Engine) -> None:
    """UsageError if an engine that is not ready yet will not have the CCA of a variant, as far as that is known."""
    available = engine.known_ccas()
    for variant in variants:
        if available is not None and variant.module is None and variant.kernel_cca not in available:
            raise _not_there(variant, available, engine)


def _asks_for_ecn(module: Module) -> bool:
    """Whether the sources of a module, which lie beside it, have the flag that makes its connections ask for ECN."""
    return module.file is not None and any(
        b"TCP_CONG_NEEDS_ECN" in path.read_bytes() for path in sorted(module.file.parent.rglob("*.[ch]"))
        if not path.name.endswith(".mod.c"))


def contradiction(variant: Variant, hosts: Mapping[str, object], given: Mapping[str, object]) -> tuple[str, str] | None:
    """(field of `hosts`, what is wrong) if a variant's settings are not what a scenario says in so many words.

    hosts: the section with all defaults; given: what the file and options have of it.
    """
    said = {f"net.ipv4.tcp_{name}": (name, hosts[name]) for name in end_hosts.FIELDS_OF_SYSCTLS
            if given.get(name) is not None}
    sysctls = cast(Mapping[str, object], hosts["sysctls"])
    said.update((name, (f"sysctls.{name}", value)) for name, value in sysctls.items())
    for sysctl, wanted in variant.sysctls.items():
        if sysctl in said and _words(said[sysctl][1]) != _words(wanted):
            field, value = said[sysctl]
            return field, (f"{_words(value)} contradicts {variant.name}, of which {sysctl} = {_words(wanted)} is a "
                           "part: leave it out, or name a congestion control without that setting")
    return None


def _words(value: object) -> str:
    return " ".join(str(int(value) if isinstance(value, bool) else value).split())


def _plain_text(name: str) -> str:
    """A name from a module, fit for a terminal."""
    return ascii(str(name)[:40])


def _only(module: Module, variant: Variant) -> str:
    """The CCA that is meant when a module is given without a variant file."""
    if len(module.congestion_controls) == 1:
        return str(module.congestion_controls[0])
    meant = [name for name in module.congestion_controls if name.lower() == variant.name]
    if len(meant) == 1:
        return meant[0]
    found = ", ".join(module.congestion_controls) or "no congestion control"
    labels = ",".join(f"{name.lower()}={variant.source}" for name in module.congestion_controls)
    raise RunFailed(f"{variant.module} registers {found}: say which by a label that is its name, such as --cca "
                    f"{labels}; or in a variant file (kernel_cca: and module:)")


def fill_in(parameters: Mapping[str, object], rate_bps: Callable[[], int]) -> dict[str, str]:
    """Module parameters with the rate of the bottleneck in place of its name; rate_bps: asked for it if need be."""
    values = {}
    for name, value in parameters.items():
        unit = re.fullmatch(r"\{bottleneck_(\w+)\}", str(value))
        values[name] = str(round(rate_bps() / _PER_BIT_PER_S[unit.group(1)]) if unit else value)
    return values
