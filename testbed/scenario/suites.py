# SPDX-License-Identifier: GPL-2.0-only
"""Suites: lists of scenarios that one command runs, one file each in suites/, found by listing.

A suite with a baseline is judged: what is tested is compared with the baseline. A suite without one only
runs its parts, with its congestion controls and seeds, or each scenario's own. The suite `all` has no file: its
parts are all scenarios.

    title: Common TCP Evaluation Suite
    baseline: sack                      what the congestion controls under test are compared with
    ccas: [cubic]                       those, unless --cca names others
    seeds: 3
    most_seeds: 9                       of criteria, where a verdict needs more seeds
    kernel: newest                      what --kernel is, unless it is given
    quick: {seeds: 3}
    deviations: [{what: ..., why: ...}]         of all parts
    parts:                              in the order of the report
      - name: access-link
        section: 4.2                    where the source describes it
        scenario: access-link
        sweep: {load: [60, 85, 110]}    as for --sweep; choices: as for --choose; set: as for --set
        quick: {sweep: {load: [60]}}    instead of these, in the short version; choices and set: besides
        ccas: [cubic, bbr]              instead of the suite's, in a suite without a baseline
        beside: reno                    even flows use it: cubic+reno, bbr+reno
        kernel: 6.1                     as for --kernel; seeds: 5 instead of the suite's
        speed: 5                        seconds of virtual time in a second of wall time, until runs say it
        engines: {ns3: 4.4, ns2: 1.4}   where it runs, with the wall seconds of a run, until runs say it
        outputs: [{metric: drop_rate, scope: right_to_left, label: packets dropped, better: lower}]
        parameters: [{what: central link, published: 100 Mbit/s, run: topology.central.right_to_left.rate_bps}]
        deviations: [{what: ..., why: ...}]
      - {name: wireless-lan, section: 4.2, not_run: why it is not}

Instead of `parts`, `results: FOLDER` names a folder beside the file: each published result in it
(testbed/scenario/published.py) is a part, and its runs are compared with what was published. Likewise
`criteria: FOLDER` names criteria (testbed/scenario/criteria.py), of which a candidate (--cca, or the one of `ccas`) is
assessed `against` references, with `thresholds`. `cases: FOLDER` names test cases of a draft (analysis/cases), each of
which runs on the paths of a

    grid: {rates: [10 Mbit/s], rtts: [1 ms, 100 ms], most_bdp: 20 MB}

with `quick: {grid: ...}` in the short version. `page: NAME` lays the parts out on one page, which
analysis/pages/NAME_report.py makes.

In the values of `set`, {baseline} stands for the baseline. A parameter as run is either a field of the resolved
scenario (`run`), or words (`text`). Everything is text until parsed; quantities are not converted.
"""
import dataclasses
import functools
import hashlib
import pathlib
import re
from collections.abc import Iterable

from testbed import PROJECT_DIR
from testbed.core import fields, guesses, metric_names
from testbed.core.errors import ScenarioError, UsageError
from testbed.core.fields import FieldError
from testbed.core.yaml_file import YamlFile
from testbed.scenario import ccas, published, scenario
from testbed.scenario.criteria import Threshold, read as read_criterion
from testbed.scenario.sections import LONGEST_NAME, NAME_PATTERN
from testbed.scenario.suite_parts import MOST_PARTS, Deviation, Part, as_text, beside, count, look_for, sentence

FOLDER = PROJECT_DIR / "suites"
#: the suite of all scenarios
ALL = "all"


@dataclasses.dataclass(frozen=True)
class Grid:
    """Paths of test cases: each rate with each round-trip time, but for those with a larger BDP."""
    rates_bps: tuple[int, ...] = fields.listing(fields.rate(), least=1, most=20, distinct=True)
    rtts_us: tuple[int, ...] = fields.listing(fields.time(least=2), least=1, most=20, distinct=True)
    most_bdp_bytes: int = fields.size(default=1_000_000_000, least=1)

    def paths(self) -> list[tuple[int, int]]:
        """Rate in bit/s and round-trip time in microseconds of each."""
        return [(rate_bps, rtt_us) for rate_bps in self.rates_bps for rtt_us in self.rtts_us
                if rate_bps * rtt_us <= 8e6 * self.most_bdp_bytes]


@dataclasses.dataclass(frozen=True)
class QuickSuite:
    seeds: int | None = count(default=None)
    grid: Grid | None = fields.section(Grid, default=None)


@dataclasses.dataclass(frozen=True)
class Suite:
    """A suite file."""
    title: str = sentence()
    source: str = sentence(default="")
    description: str = sentence(default="")
    baseline: str = fields.word(default="")
    ccas: tuple[str, ...] = fields.listing(fields.word(), default=(), least=1, most=100)
    seeds: int | None = count(default=None)
    most_seeds: int | None = count(default=None)
    kernel: str = fields.word(default="")
    quick: QuickSuite = fields.section(QuickSuite, default={})
    deviations: tuple[Deviation, ...] = fields.listing(fields.section(Deviation), default=(), most=MOST_PARTS)
    parts: tuple[Part, ...] = fields.listing(fields.section(Part), default=(), least=1, most=MOST_PARTS)
    results: str = fields.word(default="", pattern=NAME_PATTERN, example="published")
    page: str = fields.word(default="", pattern=NAME_PATTERN, example="stacks")
    criteria: str = fields.word(default="", pattern=NAME_PATTERN, example="rfc9743")
    cases: str = fields.word(default="", pattern=NAME_PATTERN, example="bbr")
    grid: Grid | None = fields.section(Grid, default=None)
    against: tuple[str, ...] = fields.listing(fields.word(), default=(), least=1, most=10, distinct=True)
    thresholds: dict[str, Threshold] = fields.mapping(
        fields.section(Threshold), keys=r"[a-z0-9_-]+\.[a-z0-9_-]+", example="bufferbloat.delay", default={})
    name: str = ""
    file: YamlFile | None = None

    def __post_init__(self) -> None:
        if sum(map(bool, (self.parts, self.results, self.criteria, self.cases))) != 1 and not self.name:
            raise FieldError("parts", "one of parts, results, criteria and cases expected")
        if self.page and (self.baseline or not self.parts):
            raise FieldError("page", "only with parts, and without a baseline")
        if self.baseline and (self.results or self.criteria or self.cases):
            raise FieldError("baseline", "published results are compared with what was published" if self.results else
                             "criteria have `against`" if self.criteria else "cases have no baseline")
        if bool(self.grid) != bool(self.cases):
            raise FieldError("grid", "cases and grid belong together")
        if bool(self.against) != bool(self.criteria):
            raise FieldError("against", "criteria and against belong together")
        if self.criteria and len(self.ccas) > 1:
            raise FieldError("ccas", "one congestion control, which is assessed, expected")
        if self.most_seeds and not self.criteria:
            raise FieldError("most_seeds", "only with criteria, whose verdicts may need more seeds")
        for name in ("source", "ccas", "seeds"):
            if self.baseline and not getattr(self, name):
                raise FieldError(name, "is missing: a suite with a baseline needs it")
        for number, part in enumerate(self.parts, start=1):
            if self.baseline and not part.section:
                raise FieldError(f"parts.{number}.section", "is missing: a suite with a baseline needs it")
            for name in ("ccas", "beside", "kernel", "seeds"):
                if self.baseline and getattr(part, name):
                    raise FieldError(f"parts.{number}.{name}", "a suite with a baseline has the same for all parts")
            if part.scenario and bool(part.outputs) != bool(self.baseline):
                raise FieldError(f"parts.{number}.outputs", "at least one expected" if self.baseline else
                                 "they need a baseline to be compared with")

    def part(self, name: str) -> Part:
        """By its name; KeyError."""
        return {one.name: one for one in self.parts}[name]

    def in_file(self, part: Part, short: bool, problem: UsageError) -> str:
        """What `testbed run` says of a part's choices, sweep or set, with file, line and field of the suite."""
        said = str(problem)
        if self.results or self.criteria:
            return f"{self.results or self.criteria}/{part.name}: {said}"
        if self.file is None:
            return said
        number = 1 + [one.name for one in self.parts].index(part.name)
        for section, option in (("sweep", "--sweep {}"), ("set", "--set {}"), ("choices", "{} ")):
            of_quick = getattr(part.quick, section) or {} if short else {}
            for key in getattr(part.selection(short), section):
                name = option.format(key)
                if said.startswith(name) or name.startswith("--") and f" {name}:" in said:
                    place = f"parts.{number}.{'quick.' * (key in of_quick)}{section}.{key}"
                    return f"{self.file.path}:{self.file.line(place)}: {place}: {said.removeprefix(f'{name}: ')}"
        # what a scenario file says wrong is said with its own line
        return said if isinstance(problem, ScenarioError) else str(self.file.error(f"parts.{number}", said))


def names() -> list[str]:
    """Names of all suites."""
    return [ALL, *sorted(path.stem for path in FOLDER.glob("*.yaml"))]


def load(name_or_path: str) -> Suite:
    """A suite by its name or file. UsageError if there is none, ScenarioError (file:line: field: ...) if it makes no
    sense."""
    path = pathlib.Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UsageError(f"{path}: no such suite file")
        return read(path)
    if name_or_path not in names():
        raise UsageError(f"no suite {name_or_path!r}; {guesses.alternatives(name_or_path, names())} (or give the path "
                         "of a .yaml file)")
    if name_or_path == ALL:
        return Suite(title="All scenarios", name=ALL, parts=tuple(
            Part(name=name, scenario=name) for name in scenario.names()))
    return read(FOLDER / f"{name_or_path}.yaml")


def read(path: pathlib.Path) -> Suite:
    """The suite of a file. ScenarioError; its scenarios, metrics and its baseline are looked for, and not read."""
    file = YamlFile(path, {field.name for field in dataclasses.fields(Suite)} - {"name", "file"})
    if not re.fullmatch(NAME_PATTERN, path.stem) or len(path.stem) > LONGEST_NAME:
        raise file.error("", "the file's name is the suite's: lower-case letters, digits, _ and - expected, not "
                             f"{path.stem[:60]!r}")
    try:
        suite = fields.decode(Suite, as_text(file, file.tree, ""))
    except FieldError as problem:
        raise file.error(problem.field, str(problem)) from None
    known: dict[str, int] = {}
    for number, part in enumerate(suite.parts, start=1):
        if known.setdefault(part.name, number) != number:
            raise file.error(f"parts.{number}.name", f"part {known[part.name]} is called {part.name}, too")
        if part.scenario:
            look_for(file, f"parts.{number}.scenario", lambda: scenario.find(beside(path, part.scenario)))
        for place, output in enumerate(part.outputs, start=1):
            if output.metric not in metric_names.units():
                raise file.error(f"parts.{number}.outputs.{place}.metric",
                                 f"no such metric; {guesses.alternatives(output.metric, sorted(metric_names.units()))}")
    if suite.baseline:
        look_for(file, "baseline", lambda: ccas.parse(suite.baseline))
    parts = [dataclasses.replace(part, scenario=beside(path, part.scenario)) for part in suite.parts]
    if suite.results:
        parts += _published(path.parent / suite.results, file)
    if suite.criteria:
        parts += _criteria(path.parent / suite.criteria, suite, file)
    return dataclasses.replace(suite, name=path.stem, file=file, parts=tuple(parts))


def hashes(suite: Suite, parts: Iterable[Part]) -> dict[str, str]:
    """{file of a suite, or of one of these criteria of it: SHA-256}"""
    if suite.file is None:
        return {}
    path = suite.file.path
    paths = [path, *(path.parent / suite.criteria / f"{part.name}.yaml" for part in parts)]
    return {str(one.relative_to(path.parent)): hashlib.sha256(one.read_bytes()).hexdigest() for one in paths}


def _published(folder: pathlib.Path, file: YamlFile) -> list[Part]:
    """The results of a folder, by their names."""
    found: list[Part] = [published.read(path) for path in sorted(folder.glob("*.yaml"))]
    if not found:
        raise file.error("results", f"no file {folder}/*.yaml")
    return found


def _criteria(folder: pathlib.Path, suite: Suite, file: YamlFile) -> list[Part]:
    """The criteria of a folder, by their sections; thresholds without a test are refused."""
    found = [read_criterion(path, suite.against, suite.thresholds, file) for path in sorted(folder.glob("*.yaml"))]
    if not found:
        raise file.error("criteria", f"no file {folder}/*.yaml")
    for place, name in enumerate(suite.against, start=1):
        look_for(file, f"against.{place}", functools.partial(ccas.parse, name))
    tests = {f"{one.name}.{test.name}" for one in found for test in one.tests}
    for key in suite.thresholds:
        if key not in tests:
            raise file.error(f"thresholds.{key}", f"no such test; {guesses.alternatives(key, sorted(tests))}")
    return sorted(found, key=lambda one: [int(number) for number in re.findall(r"\d+", one.section)])
