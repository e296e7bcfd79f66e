# SPDX-License-Identifier: GPL-2.0-only
"""Experiments: lists of runs with readable names.

    results/<experiment>/experiment.json     which runs, of which scenario
    results/<experiment>/runs/<name>         a view: a link to ../../runs/<id>

A run belongs to as many experiments as list it. Folder names are for people: whoever wants to know what a
run is reads its plan.json.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from testbed.core import guesses
from testbed.core.errors import EnvironmentProblem, UsageError
from testbed.core.files import write_json
from testbed.core.run_files import ExperimentRecord, Labels, ListedRun
from testbed.runs.plan import DEFAULT_ENGINE, Plan, digest
from testbed.runs.store import RUNS, results_dir
from testbed.scenario.scenario import Resolved

SCHEMA = 2
#: the axis of experiments with several kernels: what a kernel is called, for each run
KERNEL_AXIS = "kernel"
_LONGEST_KERNELS = _LONGEST_SETTINGS = 60
_PATH_WORD = re.compile(r"[^A-Za-z0-9.+-]+")


@dataclasses.dataclass(frozen=True)
class Description:
    """What is the same for all runs of an experiment."""
    labels: Labels
    base: Resolved                  # the scenario as resolved, without what a sweep varies
    engine: str
    kernel_spec: str | None         # as given to --kernel
    hz: int | None                  # as given to --hz
    kernel_key: str                 # of several, one after the other
    command: list[str]
    axes: dict[str, list[str]]
    units: dict[str, str] = dataclasses.field(default_factory=dict)         # of axes whose values are plain numbers
    kernel_options: list[str] = dataclasses.field(default_factory=list)     # as given to --kernel-option
    #: records of testbed/core/expectations.py
    expect: list[dict[str, object]] = dataclasses.field(default_factory=list)
    kernels: list[str] = dataclasses.field(default_factory=list)            # of KERNEL_AXIS, where there are several

    @property
    def folder_name(self) -> str:
        """access-link-load60-quick: what a reader would call it."""
        parts = [self.labels.name]
        for key, value in self.labels.parameters.items():
            if value is True:           # quick, smoke
                parts.append(key)
            elif key == "set":
                parts.append(_settings_words(value))
            else:
                parts.append(f"{key}{value}")
        swept = [short for key, short in short_axes(self.axes).items()
                 if not self.kernels or key != KERNEL_AXIS]
        if swept:
            parts.append("sweep-" + "-".join(swept))
        if self.engine != DEFAULT_ENGINE:
            parts.append(self.engine)
        if self.kernels:
            kernels = "-".join(self.kernels)
            parts.append("kernels" + (kernels if len(kernels) <= _LONGEST_KERNELS else digest(kernels)[:8]))
        elif self.kernel_spec:
            parts.append("kernel" + pathlib.Path(self.kernel_spec).name)
        if self.hz:
            parts.append(f"hz{self.hz}")
        if self.kernel_options:
            parts.append("with-" + "-".join(self.kernel_options))
        return "-".join(_path_word(part) for part in parts)


def _settings_words(settings: object) -> str:
    """limit20 of --set topology.central.queue.limit=20; a hash of settings that are too long for a name."""
    given = {str(key): str(value) for key, value in settings.items()} if isinstance(settings, Mapping) else {}
    words = "-".join(f"{short}{given[key]}" for key, short in short_axes(given).items())
    return words if given and len(words) <= _LONGEST_SETTINGS else "set" + digest(settings)[:8]


def short_axes(axes: Iterable[str]) -> dict[str, str]:
    """The shortest ends of the axes' dotted keys that tell them apart: topology.central.queue.limit -> limit."""
    keys = list(axes)
    found = {}
    for key in keys:
        words = key.split(".")
        for count in range(1, len(words) + 1):
            end = ".".join(words[-count:])
            if sum(other == end or other.endswith("." + end) for other in keys) == 1:
                break
        found[key] = end
    return found


def run_name(plan: Plan) -> str:
    """cubic-seed1, in a sweep cubic-limit85-seed1; idle-cubic-seed1 of a companion run."""
    short = short_axes(plan.point)
    idle = ["idle"] if plan.labels.parameters.get("idle") else []
    return "-".join([*idle, plan.subject, *(_path_word(f"{short[key]}{value}") for key, value in plan.point.items()),
                     f"seed{plan.seed}"])


def add(results: pathlib.Path, described: Description, plans: list[Plan], idle: Iterable[Plan] = ()) -> pathlib.Path:
    """List `plans` in the experiment they belong to, which is made if there is none; returns its folder.

    idle: companion runs (testbed/scenario/alone.py), listed apart.

    The experiment of another scenario, engine or kernel is never added to, though it have the same name: then
    this one gets a name with a hash. A run that takes the place of one that was made from something else
    (a module that was edited, say) supersedes it; the older run stays where runs are.
    """
    key = digest([described.base, described.engine, described.kernel_key, sorted(described.axes)])
    folder = results / described.folder_name
    if described.folder_name == RUNS or _key_of(folder) not in (None, key):
        folder = results / f"{described.folder_name}-{key[:6]}"
    try:
        (folder / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise EnvironmentProblem(f"cannot make {folder}: {problem.strerror}") from None
    before = read(folder) if (folder / "experiment.json").exists() else ExperimentRecord({"runs": []})
    listed = {_place(run): run for run in before.runs}
    superseded = list(before.superseded)
    for plan in plans:
        run = _listed(plan)
        older = listed.get(_place(run))
        if older and older.id != plan.id:
            superseded.append(older.changed(by=plan.id))
        listed[_place(run)] = run
    runs = _with_distinct_names(list(listed.values()))
    current = {run.id for run in runs}
    companions = {_at(run): run for run in before.idle}
    companions.update({_at(run): run for run in map(_listed, idle)})
    axes = {axis: _merged(before.axes.get(axis, ()), values) for axis, values in described.axes.items()}
    # of a command that lists everything the others need not be typed again
    earlier = [] if current <= {plan.id for plan in plans} else [
        words for words in (*before.earlier_commands, before.command) if words and [*words] != described.command]
    write_json(folder / "experiment.json", {
        "schema": SCHEMA, "key": key, "name": folder.name, "scenario": described.labels.name,
        "title": described.labels.title, "source": described.labels.source,
        "description": described.labels.description, "parameters": described.labels.parameters,
        "engine": described.engine, "kernel_spec": described.kernel_spec,
        **({"kernels": described.kernels} if described.kernels else {}),
        "command": described.command, **({"earlier_commands": _distinct(earlier)} if earlier else {}), "axes": axes,
        **({"units": described.units} if described.units else {}),
        "subjects": list(dict.fromkeys(run.subject for run in runs)),
        "seeds": sorted({run.seed for run in runs}), "runs": runs,
        **({"idle": list(companions.values())} if companions else {}),
        **({"expect": described.expect} if described.expect else {}),
        **_dropped([run for run in before.dropped if run.id not in current]),
        "superseded": [run for run in superseded if run.id not in current]})
    _make_views(folder, [*runs, *companions.values()])
    return folder


def drop(folder: pathlib.Path, names: Collection[str], why: str) -> list[str]:
    """Take runs off an experiment's list, which keeps their names and why; returns the names. The runs stay.

    The same command lists them again. UsageError if one is not listed, or none would be left.
    """
    before = read(folder)
    unknown = sorted(set(names) - {run.name for run in before.runs})
    if unknown:
        raise UsageError(f"{folder.name} lists no run {unknown[0]!r}; "
                         f"{guesses.alternatives(unknown[0], [run.name for run in before.runs])}")
    runs = [run for run in before.runs if run.name not in names]
    gone = [run for run in before.runs if run.name in names]
    if not runs:
        raise UsageError(f"{folder.name}: no run would be left; `testbed runs rm {folder.name}` removes the experiment")
    if gone:
        write_json(folder / "experiment.json", {
            **before.content(), "subjects": list(dict.fromkeys(run.subject for run in runs)),
            "seeds": sorted({run.seed for run in runs}), "runs": runs,
            **_dropped([*before.dropped, *(run.changed(why=why) for run in gone)])})
        _make_views(folder, [*runs, *before.idle])
    return [run.name for run in gone]


def _dropped(runs: list[ListedRun]) -> dict[str, list[ListedRun]]:
    return {"dropped": runs} if runs else {}


def _listed(plan: Plan) -> ListedRun:
    return ListedRun({"id": plan.id, "name": run_name(plan), "subject": plan.subject, "seed": plan.seed,
                      "point": plan.point})


def _at(run: ListedRun) -> tuple[int, str]:
    return run.seed, json.dumps(run.point, sort_keys=True)


def _merged(before: Sequence[str], values: list[str]) -> list[str]:
    return [*before, *(value for value in values if value not in before)]


def _distinct(commands: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[*words] for words in dict.fromkeys(tuple(words) for words in commands)]


def _place(run: ListedRun) -> tuple[str, int, str]:
    return run.subject, run.seed, json.dumps(run.point, sort_keys=True)


def _with_distinct_names(runs: Sequence[ListedRun]) -> list[ListedRun]:
    """Points that read alike as file names get their id behind the name."""
    names = [run.name for run in runs]
    return [run.changed(name=f"{run.name}-{run.id[:6]}") if names.count(run.name) > 1 else run for run in runs]


def _make_views(folder: pathlib.Path, runs: Iterable[ListedRun]) -> None:
    wanted = {run.name: f"../../{RUNS}/{run.id}" for run in runs}
    for old in (folder / "runs").iterdir():
        if old.is_symlink() and wanted.get(old.name) != os.readlink(old):
            old.unlink()
    for name, target in wanted.items():
        view = folder / "runs" / name
        if not view.is_symlink():
            view.symlink_to(target)


def _path_word(text: str) -> str:
    """Text as a part of a file name."""
    return _PATH_WORD.sub("_", text).strip("_.") or "_"


def read(folder: pathlib.Path) -> ExperimentRecord:
    """experiment.json of a folder. UsageError if it is damaged or of another version."""
    path = folder / "experiment.json"
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise UsageError(f"{path}: not readable: {problem}; remove the folder, its runs are kept") from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA or \
            not all(_is_run(run) for key in ("runs", "superseded", "idle")
                    for run in _list(value.get(key, None if key == "runs" else []))):
        raise UsageError(f"{path}: not an experiment of this version of the testbed; move it away, or "
                         "name another folder by --results")
    return ExperimentRecord(value, str(path))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [None]


def _is_run(run: object) -> bool:
    kinds = {"id": str, "name": str, "subject": str, "seed": int, "point": dict}
    return isinstance(run, dict) and all(isinstance(run.get(key), kind) for key, kind in kinds.items())


def _key_of(folder: pathlib.Path) -> str | None:
    """What an experiment's runs have in common, None if there is none of this name."""
    if not (folder / "experiment.json").exists():
        return None
    return str(read(folder).key)


def find(name: str) -> pathlib.Path:
    """The folder of an experiment, by path or name. UsageError if there is none."""
    for folder in (pathlib.Path(name), results_dir() / name):
        if (folder / "experiment.json").is_file():
            return folder.resolve()
    have = sorted(path.parent.name for kind in ("experiment", "suite") for path in results_dir().glob(f"*/{kind}.json"))
    raise UsageError(f"no experiment {name!r} in {results_dir()}; " + (
        guesses.alternatives(name, have) if have else
        "results are in ./results of the current folder; --results FOLDER names another"))


def find_run(name: str) -> pathlib.Path:
    """A run's folder, by path, id, or path below the results folder. UsageError if it is none."""
    for folder in (pathlib.Path(name), results_dir() / name, results_dir() / RUNS / name):
        if (folder / "scenario.json").is_file() and not (folder / "plan.json").exists():
            raise UsageError(f"{folder}: a run of an older version of the testbed (0.1), which this one does not read")
        if (folder / "plan.json").is_file() or (folder / "run.json").is_file():
            return folder.resolve()
    raise UsageError(f"{name}: not a run (a folder with a plan.json in it, such as "
                     "results/access-link-load60/runs/cubic-seed1, or the id of one in results/runs)")
