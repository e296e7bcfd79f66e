# SPDX-License-Identifier: GPL-2.0-only
"""The verdict: can this run be trusted?

Every file here is one check, found by listing: `check(evidence)` yields `Finding`s. The verdict is the
worst of them. docs/reference/verdict.md lists what each sees, and its tolerance. A check that cannot see its evidence
says so as `suspect`; none may pass for want of data.

A check may say what it needs: `NEEDS = ("kernel",)` are names of capabilities (testbed/runs/engine.py),
`NEEDS = ("counters.json",)` are raw files. A kernel's runs leave every raw file, so that a missing one is bad there;
what another engine does not leave cannot be checked. A check that lacks what it needs is listed as "not
applicable" and does not count; so is a finding of that level, of a part of a check.
A check that raises is kept with its traceback and makes the verdict suspect at best; the others count all the same.
"""
from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import pathlib
import re
import traceback
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from testbed.checks import _tables
from testbed.core import derived, ending, raw_tables, shapes
from testbed.core.errors import DamagedRun
from testbed.core.guest_files import Checks, Counters, Guest, Late, Snmp
from testbed.core.record import Record
from testbed.core.run_files import CheckResult, Environment, Plan, RunRecord, Scenario, Verdict
from testbed.core.timing import Timing
from topologies import standards
from topologies.links.records import Network
from traffic.workload.records import Flow, Variant, Workload

if TYPE_CHECKING:
    import pandas as pd

LEVELS = ("ok", "suspect", "invalid")
VERDICTS = {"ok": "valid", "suspect": "suspect", "invalid": "invalid"}
NOT_APPLICABLE = "not applicable"
NAME = "verdict.json"
#: what engines can do if nothing says otherwise
_ALL: Mapping[str, object] = {"kernel": True, "modules": True, "parallel": True, "probes": None}
#: of a JSON file that is kept for all checks; those of thousands of hosts have more
_KEPT_JSON = 1_000_000

#: in what pandas says of columns that were asked for
_NOT_FOUND, _WORD = re.compile(r"columns expected but not found: \[(?P<columns>.*)\]"), re.compile(r"\w+")

_Kind = TypeVar("_Kind", bound=Record)
#: columns of a table: their names, or what chooses them; None for all
_Chosen = Sequence[str] | Callable[[str], bool] | None


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one check found; `level` is ok, suspect, invalid or not applicable."""
    level: str
    message: str


def _keys(value: object) -> set[str]:
    """All keys of what is in a JSON file."""
    if isinstance(value, list):
        return set().union(*map(_keys, value))
    return {*value}.union(*map(_keys, value.values())) if isinstance(value, dict) else set()


def _texts(value: object) -> set[str]:
    """All texts of what is in a JSON file."""
    if isinstance(value, (list, dict)):
        return set().union(*map(_texts, value.values() if isinstance(value, dict) else value))
    return {value} if isinstance(value, str) else set()


def _lacks(table: str, columns: str) -> str:
    return f"raw/{table}.csv.gz: column {columns} is missing"


@dataclasses.dataclass
class Evidence:
    """A run's files, as far as the checks need them.

    scenario: as resolved; clock: virtual, real or simulated; variants: records of the variants;
    capabilities: those of the engine.
    """
    run_dir: pathlib.Path
    scenario: Scenario
    clock: str
    variants: Sequence[Variant]
    capabilities: Mapping[str, object] = dataclasses.field(default_factory=lambda: dict(_ALL))
    _kept: dict[str, "_tables.KeptTable | None"] = dataclasses.field(default_factory=dict, init=False, repr=False,
                                                                     compare=False)
    _json: dict[str, Mapping[str, object]] = dataclasses.field(default_factory=dict, init=False, repr=False,
                                                               compare=False)
    _columns: dict[str, set[str]] = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)

    def can(self, need: str) -> bool:
        """True if the engine has a capability, or leaves a raw file. What a kernel left is read in any case."""
        if "." in need:
            return bool(self.capabilities.get("kernel")) or (self.run_dir / "raw" / need).exists()
        return bool(self.capabilities.get(need))

    def _object(self, kind: type[Record], name: str) -> Mapping[str, object]:
        """A JSON file of the run's raw folder. Not to be changed: a small one is read once for all checks.

        DamagedRun if it is missing, or has something else than its record declares.
        """
        if name in self._json:
            return self._json[name]
        path = self.run_dir / "raw" / name
        value = shapes.read_json(path, f"raw/{name}")
        shapes.check(value, shapes.of(kind), f"raw/{name}")
        if path.stat().st_size <= _KEPT_JSON:
            self._json[name] = value
        return value

    def has_rows(self, table: str) -> bool:
        """True if the run has this table, and there is something in it."""
        kept = self._kept.get(table)
        first = None if kept else self.table(table, nrows=1)
        return kept.rows > 0 if kept else first is not None and not first.empty

    def table(self, name: str, usecols: _Chosen = None, nrows: int | None = None, low_memory: bool = True) \
            -> pd.DataFrame | None:
        """A CSV file of the run's raw folder as a pandas table, or None if the run has none.

        usecols, nrows, low_memory: as of pandas.read_csv. A table is read once for all checks; each gets one
        of its own.
        DamagedRun if it cannot be read, or has words where numbers belong.
        """
        path = self._path(name)
        if not path.exists():
            return None
        try:
            frame = self._read_table(path, name, usecols, nrows, low_memory)
        except (OSError, EOFError, ValueError, zlib.error) as problem:
            words = " ".join(str(problem).split())
            if missing := _NOT_FOUND.search(words):
                raise DamagedRun(_lacks(name, missing["columns"].replace("'", ""))) from problem
            raise DamagedRun(f"raw/{path.name} cannot be read: {words}") from problem
        kinds = raw_tables.TABLES[name].columns
        self._columns[name] = set(frame)
        for column in () if frame.empty else frame:
            if frame[column].dtype == object and kinds.get(column) != raw_tables.TEXT:
                raise DamagedRun(f"raw/{path.name}: column {column}: numbers expected that fit into 64 bits")
        return frame

    def _read_table(self, path: pathlib.Path, name: str, wanted: _Chosen, nrows: int | None, low_memory: bool) \
            -> pd.DataFrame:
        import pandas as pd
        if nrows is None and name not in self._kept:
            self._kept[name] = _tables.keep(path)
        kept = self._kept.get(name)
        if nrows is not None or kept is None:
            return pd.read_csv(path, usecols=wanted, nrows=nrows, low_memory=low_memory)
        if wanted is None or callable(wanted):
            return kept.table([column for column in kept.names() if wanted is None or wanted(column)])
        chosen = [column for column in kept.names() if column in wanted]
        if len(chosen) < len(set(wanted)):
            return pd.read_csv(path, usecols=wanted)        # it says what is missing
        return kept.table(chosen)

    def lacking(self, problem: KeyError) -> str:
        """Which file has not what was looked for: a table without one of its columns, JSON in which the same key is at
        another place, or JSON with the name of something that is nowhere. Nothing if none of them can be meant."""
        words = _WORD.findall(str(problem)) or [""]
        found = [_lacks(name, column) for name, there in self._columns.items()
                 for column in raw_tables.TABLES[name].columns if column not in there and column in words]
        files = sorted(f"raw/{name}" for name, value in self._json.items() if words[0] in _keys(value))
        if not found and files:
            found = [f"{' or '.join(files)}: key {words[0]!r} is missing"]
        name = problem.args[0] if problem.args else None
        return "; ".join(found or [f"raw/{file}: there is no {name!r}" for file, value in sorted(self._json.items())
                                   if name in _texts(value)])

    def _path(self, table: str) -> pathlib.Path:
        if table not in raw_tables.TABLES:
            raise ValueError(f"no table {table!r}; there are: {', '.join(raw_tables.TABLES)}")
        return self.run_dir / "raw" / f"{table}.csv.gz"

    def _record(self, kind: type[_Kind], name: str) -> _Kind:
        return kind(self._object(kind, name), f"raw/{name}")

    @functools.cached_property
    def network(self) -> Network:
        """Nodes, links and paths as they were built."""
        return self._record(Network, "network.json")

    @functools.cached_property
    def workload(self) -> Workload:
        """Components of the traffic, and flow records."""
        return self._record(Workload, "workload.json")

    @property
    def measured(self) -> Checks:
        """What was measured and read back before the traffic."""
        return self._record(Checks, "checks.json")

    @property
    def counters(self) -> Counters:
        """What links and radios counted."""
        return self._record(Counters, "counters.json")

    @property
    def snmp(self) -> Snmp:
        """What the stacks of all nodes counted."""
        return self._record(Snmp, "snmp.json")

    @property
    def guest(self) -> Guest:
        """What programs, traffic and probes account for."""
        return self._record(Guest, "guest.json")

    @property
    def late(self) -> Late:
        """What was another after the traffic."""
        return self._record(Late, "late.json")

    @property
    def timing(self) -> Timing:
        """When measuring begins and ends."""
        return self.scenario.timing

    @property
    def flows(self) -> Sequence[Flow]:
        """Records of all flows."""
        return self.workload.flows if self.workload.has("flows") else []


def names() -> list[str]:
    """Names of all checks."""
    return sorted({file.stem for folder in __path__ for file in pathlib.Path(folder).glob("[a-z]*.py")})


def judge(evidence: Evidence) -> Verdict:
    """All checks on a run -> the contents of verdict.json."""
    importlib.invalidate_caches()
    checks: list[CheckResult] = []
    errors: list[dict[str, str]] = []
    for name in names():
        try:
            module = importlib.import_module(f"testbed.checks.{name}")
            missing = [need for need in getattr(module, "NEEDS", ()) if not evidence.can(need)]
            if missing:
                checks.append(_entry(name, NOT_APPLICABLE, f"the engine has no {', '.join(missing)}"))
                continue
            for finding in module.check(evidence):
                if finding.level not in (*LEVELS, NOT_APPLICABLE):
                    raise ValueError(f"level {finding.level!r} is none of {', '.join((*LEVELS, NOT_APPLICABLE))}")
                checks.append(_entry(name, finding.level, finding.message))
        except DamagedRun as problem:           # as many checks as need the file say the same
            checks.append(_entry(name, "suspect", str(problem)))
            errors.append({"where": f"check {name}", "traceback": traceback.format_exc()})
        except KeyError as problem:
            message = evidence.lacking(problem) or f"the check itself failed: KeyError: {problem}"
            checks.append(_entry(name, "suspect", message))
            errors.append({"where": f"check {name}", "traceback": traceback.format_exc()})
        except Exception as problem:            # the fault of the check, or of what it was given to read
            ending.if_asked()
            words = " ".join(str(problem).split())
            checks.append(_entry(name, "suspect", f"the check itself failed: {type(problem).__name__}: {words}"))
            errors.append({"where": f"check {name}", "traceback": traceback.format_exc()})
    worst = max((LEVELS.index(c["level"]) for c in checks if c["level"] in LEVELS), default=1)
    return {"verdict": VERDICTS[LEVELS[worst]], "reasons": [c for c in checks if c["level"] in LEVELS[1:]],
            "checks": checks, "errors": errors}


def _entry(check: str, level: str, message: str) -> CheckResult:
    return {"check": check, "level": level, "message": message}


def judge_run(run_dir: pathlib.Path) -> Verdict:
    """Judge a sealed run and write its verdict.json; returns the verdict.

    DamagedRun if the run's files are not what it left; OSError if the verdict cannot be written.
    """
    record, verdict = _judged(run_dir)
    derived.keep(run_dir, NAME, json.dumps(verdict, indent=1) + "\n", _code(), str(record.raw_sha256))
    return verdict


def judge_edited(run_dir: pathlib.Path) -> tuple[list[str], Verdict]:
    """(files of raw/ that are not what the run left, the verdict on what is there now); nothing is written.

    DamagedRun if a record beside raw/ cannot be read.
    """
    record, evidence = _evidence(run_dir)
    return derived.edited_files(run_dir, record), judge(evidence)


def read_verdict(run_dir: pathlib.Path, metric_errors: list[dict[str, str]] | None = None) -> Verdict:
    """The verdict on a run: of verdict.json, or made again if that is not the work of these checks on this data.

    Metrics that could not be computed count here, too: metric_errors, or what derived.json notes of them.
    DamagedRun if the run's files are not what it left.
    """
    record = shapes.read(RunRecord, run_dir / "run.json")
    if derived.fresh(run_dir, NAME, _code(), str(record.raw_sha256)):
        verdict = cast(Verdict, shapes.read_json(run_dir / NAME))
    else:
        record, verdict = _judged(run_dir)
        try:
            derived.keep(run_dir, NAME, json.dumps(verdict, indent=1) + "\n", _code(), str(record.raw_sha256))
        except OSError:                         # somebody else's results, or a full disk: the verdict is what counts
            pass
    if metric_errors is None:
        metric_errors = derived.errors_of(derived.noted(run_dir, "metrics.csv"))
    return _with_metrics(verdict, metric_errors)


def _with_metrics(verdict: Verdict, errors: list[dict[str, str]]) -> Verdict:
    """A verdict that also knows of metrics that failed."""
    if not errors:
        return verdict
    found = [_entry("metrics", "suspect", f"{error['where']} failed: {error['message']}") for error in errors]
    return {"verdict": "suspect" if verdict["verdict"] == "valid" else verdict["verdict"],
            "reasons": [*verdict["reasons"], *found], "checks": [*verdict["checks"], *found],
            "errors": [*verdict["errors"], *errors]}


def _judged(run_dir: pathlib.Path) -> tuple[RunRecord, Verdict]:
    """(run.json, verdict)"""
    record, evidence = _evidence(run_dir)
    derived.check_raw(run_dir, record)
    return record, judge(evidence)


def _evidence(run_dir: pathlib.Path) -> tuple[RunRecord, Evidence]:
    """(run.json, what the checks look at)"""
    plan, environment = shapes.read(Plan, run_dir / "plan.json"), shapes.read(Environment, run_dir / "environment.json")
    evidence = Evidence(run_dir, plan.scenario, environment.clock,
                        shapes.listed(Variant, plan.variants, str(run_dir / "plan.json"), "variants"),
                        {**_ALL, **(environment.capabilities or {})})
    return shapes.read(RunRecord, run_dir / "run.json"), evidence


def _code() -> str:
    """Hash of the code that makes verdicts."""
    return derived.code_sha256(code_places())


def code_places() -> list[str]:
    """Where that code is. Standards of radios are found by listing, not by an import."""
    return [*__path__, *standards.__path__]
