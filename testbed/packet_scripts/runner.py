# SPDX-License-Identifier: GPL-2.0-only
"""Boots guests that carry out packet scripts, and collects what became of them.

Scripts with the same congestion control share a guest: booting one takes a second, a script a tenth of that.
"""
from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import kernel
from kernel import crash, guest
from testbed import PROJECT_DIR, engines
from testbed.core.errors import EnvironmentProblem, RunFailed, UsageError
from testbed.core.files import read_regular, write_json
from testbed.engines import _watch as watch
from testbed.packet_scripts import parser
from testbed.packet_scripts.language import Script
from testbed.packet_scripts.results import Outcome, Told
from testbed.runs.engine import EngineBase
from testbed.scenario import ccas

#: kernel options that every guest has that carries out scripts
KERNEL_OPTIONS = ("tun", "ipv6")
#: our scripts
FOLDER = PROJECT_DIR / "packet-scripts"
_INIT = "testbed/packet_scripts/init.py"
#: what of the testbed runs inside
_CODE = ("testbed/__init__.py", *(f"testbed/core/{name}.py" for name in ("__init__", "errors", "guesses", "record")))
_MEMORY_MB = 512
Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Source:
    """A script on disk. script: as it was read with these options."""
    path: pathlib.Path
    text: str
    script: Script
    given: Mapping[str, str]
    defines: tuple[tuple[str, str], ...]


def read(path: str, given: Mapping[str, str], defines: Sequence[tuple[str, str]]) -> Source:
    """A script as a file. UsageError."""
    try:
        text = read_regular(path, parser.MOST_BYTES).decode()
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path}: a text in UTF-8 expected, byte {problem.start} is none") from None
    return Source(pathlib.Path(path), text, parser.parse(text, path, given, defines), given, tuple(defines))


class Runner:
    """Carries out scripts on one kernel."""

    def __init__(self, engine: EngineBase, report: Report, spec: str | None, hz: int, options: Sequence[str]) -> None:
        self._engine, self._report = engine, report
        self.kernel = kernel.ensure(spec, report, hz, options)
        if not engine.find():
            raise EnvironmentProblem("the guest kernel has gone from the cache; the same command builds it again")

    def run(self, sources: Sequence[Source], cca: str | None) -> Iterator[Outcome]:
        """cca: of the sockets of all scripts, as --cca takes it; else what each script says. What is wrong with these
        is said at once, before anything runs: UsageError, RunFailed."""
        wanted: dict[str, list[Source]] = {}
        skipped: list[Outcome] = []
        for source in sources:
            lacking = [name for name in source.script.options.needs if name not in self.kernel.features]
            if lacking:
                skipped.append(Outcome(str(source.path), skipped=f"needs {', '.join(lacking)}, which "
                                                                 f"{self.kernel.release} lacks"))
                continue
            wanted.setdefault(cca or _own_cca(source), []).append(source)
        variants = {name: self._variant(name) for name in wanted}
        return itertools.chain(skipped, itertools.chain.from_iterable(
            self._boot(group, variants[name]) for name, group in wanted.items()))

    def _variant(self, name: str) -> ccas.Variant | None:
        """The congestion control of a name, its module built; None for no name."""
        if not name:
            return None
        subjects = ccas.parse(name)
        if len(subjects) != 1 or len(subjects[0].variants) != 1:
            raise UsageError(f"--cca {name}: one congestion control expected")
        ccas.check_known(subjects[0].variants, self._engine)
        return ccas.make_ready(subjects[0], self._engine, self._report).variants[0]

    def _boot(self, group: Sequence[Source], variant: ccas.Variant | None) -> Iterator[Outcome]:
        with tempfile.TemporaryDirectory(prefix="testbed-scripts-") as name:
            scratch = pathlib.Path(name)
            code, work = scratch / "code", scratch / "work"
            work.mkdir()
            folders = list(dict.fromkeys(str(source.path.resolve().parent) for source in group))
            self._lay_out(code, group, folders, variant)
            ended = self._run(code, work, folders)
            told = _read_results(work / "results.jsonl")
        for place, source in enumerate(group):
            if place in told:
                yield Outcome.of(str(source.path), told[place])
            elif place == len(told):
                yield Outcome(str(source.path), (f"{source.path}: {ended}",))
            else:
                yield Outcome(str(source.path), (f"{source.path}: not run: the guest ended before",))

    def _lay_out(self, code: pathlib.Path, group: Sequence[Source], folders: Sequence[str],
                 variant: ccas.Variant | None) -> None:
        """The folder with code and orders that the guest reads."""
        for file in (*_CODE, *(str(path.relative_to(PROJECT_DIR)) for path in
                               sorted(pathlib.Path(__file__).parent.glob("*.py")))):
            (code / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT_DIR / file, code / file)
        modules = []
        if variant and variant.module_sha256:
            built = kernel.find_module(self.kernel.key, variant.module_sha256)
            if built is None:
                raise EnvironmentProblem(f"{variant.name}: its module has gone from the cache; the same command builds "
                                         "it")
            shutil.copyfile(built.file, code / "module.ko")
            for key, value in variant.parameters.items():
                if str(value).startswith("{"):
                    raise UsageError(f"--cca {variant.name}: its parameter {key} is the rate of a bottleneck, and a "
                                     "packet script has none")
            modules.append({"file": "module.ko",
                            "parameters": " ".join(f"{key}={value}" for key, value in variant.parameters.items())})
        write_json(code / "job.json", {
            "ticks_per_s": self.kernel.hz, "cca": variant.kernel_cca if variant else "", "modules": modules,
            "socket_options": [dataclasses.asdict(one) for one in (variant.socket_options if variant else ())],
            "sysctls": dict(variant.sysctls) if variant else {}, "folders": list(folders),
            "scripts": [{"file": str(source.path), "text": source.text, "given": dict(source.given),
                         "defines": [list(pair) for pair in source.defines],
                         "folder": folders.index(str(source.path.resolve().parent))} for source in group]})

    def _run(self, code: pathlib.Path, work: pathlib.Path, folders: Sequence[str]) -> str:
        """How the guest ended. What it takes of the wall time does not matter, as long as it gets on."""
        memory = guest.memory_dir(_MEMORY_MB)
        cpus = sorted(os.sched_getaffinity(0))
        command = guest.command(self.kernel.program, code, [_INIT], work, memory, memory_mb=_MEMORY_MB,
                                cpu=cpus[os.getpid() % len(cpus)],
                                options=["seccomp=auto"] if "seccomp" in self.kernel.features else [])
        # scripts start programs that lie beside them
        at = command.index("--")
        command[at:at] = [word for folder in folders for word in ("--read", folder)]
        log_path = work.parent / "log.txt"
        with open(log_path, "wb") as log:
            process = subprocess.Popen(command, cwd=work, env=guest.environment(memory), stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            watch.watch(process, self.kernel.build_dir / "System.map", work, log_path, lambda *_: None)
        except watch.Stalled as problem:
            return f"{problem}{watch.last_words(log_path)}"
        except watch.Buggy:
            pass                                # the log says more
        finally:
            guest.kill_session(process)
        said = log_path.read_text("utf-8", "replace").replace("\r", "")
        return "the guest ended: " + (crash.describe(said) or said.strip()[-1500:])


def _own_cca(source: Source) -> str:
    """The congestion control that a script asks for; paths count from its folder."""
    name = source.script.options.cca
    return str(source.path.parent / name) if "/" in name else name


def runner(options: dict[str, object], report: Report) -> Runner:
    """A Runner for the kernel of these options of the default engine, built if need be. EnvironmentProblem."""
    if importlib.util.find_spec("scapy") is None:
        raise EnvironmentProblem("scapy is missing, which makes and reads packets: apt-get install python3-scapy")
    engine = engines.load(engines.DEFAULT, options)
    engine.require(KERNEL_OPTIONS)
    spec, hz = options.get("kernel"), options.get("hz", kernel.USUAL_HZ)
    return Runner(engine, report, str(spec) if spec else None, int(str(hz)), engine.options["kernel_options"])


def _read_results(path: pathlib.Path) -> dict[int, Told]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    found = {}
    for line in text.splitlines():
        told = Told(json.loads(line), path.name)
        found[told.script] = told
    return found


__all__ = ["FOLDER", "KERNEL_OPTIONS", "RunFailed", "Runner", "Source", "read", "runner"]
