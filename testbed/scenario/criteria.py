# SPDX-License-Identifier: GPL-2.0-only
"""Criteria of an assessment: what a document asks of a congestion control, one file each.

A suite names their folder (`criteria: rfc9743`) and has their thresholds. A file NAME.yaml is a part of the suite, with

    title: Bufferbloat
    section: 5.1.2
    level: SHOULD                       its word of RFC 2119 in capitals, if it has one
    asks: what the section asks, in own words
    pairs: yes                          the candidate runs beside each reference, in both seats; else alone
    needs: dualpi2                      what not every kernel has; not run with one that lacks it
    tests: [{name: delay, label: ..., metric: queueing_delay_mean, scope: right_to_left, of: value, better: lower}]

or with `not_run: why` instead of a scenario and tests. `of` is value, ratio, harm, share or beside
(testbed/core/assessed.py).
With `every_seed: yes` a mean does not meet a threshold while a single seed fails it (analysis/compare/assessment.py).
Either a test has its `threshold: {meets: 20, fails: 40, why: where they come from}`, or the suite has it:

    thresholds: {bufferbloat.delay: {meets: 20, fails: 40, why: where they come from}}
"""
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from testbed.core import assessed, fields, guesses, metric_names
from testbed.core.fields import FieldError
from testbed.core.yaml_file import YamlFile
from testbed.scenario import scenario
from testbed.scenario.suite_parts import (MOST_PARTS, Deviation, Part, QuickPart, as_text, beside, look_for, part_name,
                                          real, sentence)

_LEVELS = ("MUST", "SHOULD", "MAY")
_YES = ("yes", "True", "true")
#: where a program sends: links of hosts say what arrives, and qlog is compared with what they carried
_PROBES = {"probes.queue.interval": "10 ms", "probes.queue.edge_interval": "10 ms"}
_RATES = "rates on the links of hosts"


def _yes_or_no() -> str:
    """A word that says no unless the file says yes."""
    return fields.word(default="no", choices=(*_YES, "no", "False", "false"))


@dataclasses.dataclass(frozen=True)
class Threshold:
    """See `assessed.Threshold`."""
    meets: float = real()
    fails: float = real()
    why: str = sentence()


@dataclasses.dataclass(frozen=True)
class CriterionTest:
    """See `assessed.CriterionTest`."""
    name: str = part_name()
    label: str = sentence()
    metric: str = fields.word(pattern="[a-z][a-z0-9_]*", example="drop_rate")
    scope: str = fields.word(default="all")
    of: str = fields.word(choices=assessed.STATISTICS)
    better: str = fields.word(choices=("lower", "higher"))
    every_seed: str = _yes_or_no()
    threshold: Threshold | None = fields.section(Threshold, default=None)


@dataclasses.dataclass(frozen=True)
class Criterion(Part):
    """A criterion. against: those of the suite; thresholds: those of its tests, by NAME.TEST."""
    level: str = fields.word(default="", choices=_LEVELS)
    asks: str = sentence()
    pairs: str = _yes_or_no()
    needs: str = fields.word(default="", choices=("accecn", "dualpi2"))
    tests: tuple[CriterionTest, ...] = fields.listing(fields.section(CriterionTest), default=(), most=MOST_PARTS)
    against: tuple[str, ...] = ()
    thresholds: Mapping[str, Threshold] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.needs and not self.scenario:
            raise FieldError("needs", "there is no scenario that does")
        for name in ("title", "section"):
            if not getattr(self, name):
                raise FieldError(name, "is missing")
        if bool(self.tests) != bool(self.scenario):
            raise FieldError("tests", "at least one expected" if self.scenario else "there is no scenario for them")
        if len({one.name for one in self.tests}) < len(self.tests):
            raise FieldError("tests", "two have the same name")
        for place, test in enumerate(self.tests, start=1):
            if (test.of in assessed.OF_SEATS) > self.in_pairs:
                raise FieldError(f"tests.{place}.of", f"{test.of} needs pairs: yes")
            if (test.scope == assessed.SEAT) > self.in_pairs:
                raise FieldError(f"tests.{place}.scope", "a seat needs pairs: yes")

    @property
    def in_pairs(self) -> bool:
        """Whether the candidate runs beside each reference."""
        return self.pairs in _YES

    def subjects(self, ccas: Sequence[str]) -> str:
        """What --cca is: the candidate and the references; in pairs, both seats of each, too."""
        alone = [*ccas, *(one for one in self.against if one not in ccas)]
        if not self.in_pairs:
            return ",".join(alone)
        return ",".join([*alone, *(f"{first}+{second}" for one in ccas for other in self.against if other != one
                                   for first, second in ((one, other), (other, one)))])

    def of_programs(self, why_not: str) -> "Criterion":
        """With metrics that a program and the kernel's TCP both have; not run where that leaves none, or for the reason
        that is given."""
        known = metric_names.of_any_sender()
        tests = [dataclasses.replace(one, metric=known[one.metric]) for one in self.tests if one.metric in known]
        others = [one for one in self.tests if one.name not in [test.name for test in tests]]
        if not tests:
            why_not = why_not or f"{others[0].metric} is not known to be the same for a program"
        if why_not:
            return self.left_out(why_not)
        more = [Deviation(what=one.label, why=f"not tested: {one.metric} is not known to be the same for a program")
                for one in others]
        if {test.metric for test in tests} & {metric for of_tcp, metric in known.items() if of_tcp != metric}:
            more.append(Deviation(what=_RATES, why="those of packets with all headers, so that a program and the "
                                                   "kernel's TCP are measured alike"))
        return dataclasses.replace(self, tests=tuple(tests), set={**self.set, **_PROBES},
                                   deviations=(*self.deviations, *more))

    def left_out(self, why: str) -> "Criterion":
        """As one that is not run, and says why."""
        return dataclasses.replace(self, scenario="", choices={}, sweep={}, set={}, quick=QuickPart(), tests=(),
                                   needs="", not_run=why)

    def _threshold(self, test: CriterionTest) -> assessed.Threshold:
        found = self.thresholds[f"{self.name}.{test.name}"]
        return assessed.Threshold(found.meets, found.fails, found.why)

    def about(self) -> assessed.Criterion:
        """What a page says of it."""
        tests = [assessed.CriterionTest(one.name, one.label, one.metric, one.scope, one.of, one.better == "higher",
                                        self._threshold(one), one.every_seed in _YES) for one in self.tests]
        return assessed.Criterion(self.name, self.title, self.section, self.level, self.asks, self.not_run, tests,
                                  [(one.what, one.why) for one in self.deviations])


def read(path: pathlib.Path, against: Sequence[str], thresholds: Mapping[str, Threshold],
         suite: YamlFile) -> Criterion:
    """The criterion of a file. ScenarioError with file, line and field, of the suite's if a threshold is missing."""
    file = YamlFile(path, {field.name for field in dataclasses.fields(Criterion)} - {
        "name", "against", "thresholds", "ccas", "beside", "outputs", "parameters"})
    tree = as_text(file, file.tree, "")
    assert isinstance(tree, dict)
    try:
        found = fields.decode(Criterion, dict(tree, name=path.stem))
    except FieldError as problem:
        raise file.error(problem.field, str(problem)) from None
    if found.scenario:
        look_for(file, "scenario", lambda: scenario.find(beside(path, found.scenario)))
    known, of_tests = metric_names.units(), {}
    for place, test in enumerate(found.tests, start=1):
        if test.metric not in known:
            raise file.error(f"tests.{place}.metric",
                             f"no such metric; {guesses.alternatives(test.metric, sorted(known))}")
        key = f"{found.name}.{test.name}"
        own, field = (file, f"tests.{place}.threshold") if test.threshold else (suite, f"thresholds.{key}")
        of_test = test.threshold or thresholds.get(key)
        if of_test is None:
            raise suite.error("thresholds", f"{key} of {path} is missing")
        if test.threshold and key in thresholds:
            raise suite.error(f"thresholds.{key}", f"{path} has one, too")
        high = test.better == "higher" and test.of != assessed.HARM
        if of_test.meets == of_test.fails or (of_test.meets > of_test.fails) != high:
            raise own.error(field, f"meets {'above' if high else 'below'} fails expected, not {of_test.meets:g} and "
                                   f"{of_test.fails:g}")
        of_tests[key] = of_test
    return dataclasses.replace(found, scenario=beside(path, found.scenario), against=tuple(against),
                               thresholds=of_tests)
