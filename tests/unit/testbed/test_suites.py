# SPDX-License-Identifier: GPL-2.0-only
"""Suite files: what they say, and what is said of those that make no sense."""
import re

import pytest
import yaml

from testbed import PROJECT_DIR
from testbed.core import errors
from testbed.scenario import scenario, suites

GOOD = """\
title: Two parts
source: a draft
baseline: sack
ccas: [cubic]
seeds: 4
quick: {seeds: 2}
deviations: [{what: everything, why: no reason}]
parts:
  - name: one
    section: 4.2
    scenario: access-link
    sweep: {load: [60, 85]}
    set: {timing.test: 10 s, traffic.cca: "{baseline}"}
    quick: {sweep: {load: 60}, set: {timing.test: 5 s}, speed: 9}
    speed: 2.5
    outputs: [{metric: drop_rate, scope: right_to_left, label: drops, better: lower}]
    parameters: [{what: rate, published: 100 Mbit/s, run: topology.edge.rate_bps}]
  - {name: two, section: 5, not_run: nobody has written it}
"""


def written(tmp_path, text=GOOD):
    path = tmp_path / "pair.yaml"
    path.write_text(text)
    return path


def test_what_a_file_says(tmp_path):
    suite = suites.load(str(written(tmp_path)))
    one, two = suite.parts
    assert (suite.name, suite.baseline, suite.ccas) == ("pair", "sack", ("cubic",))
    assert (suite.seeds, suite.quick.seeds) == (4, 2)
    assert (one.section, one.speed, one.outputs[0].better) == ("4.2", 2.5, "lower")
    assert one.words("", "sack") == ["access-link", "--set", "timing.test=10 s", "--set", "traffic.cca=sack",
                                     "--sweep", "load=60,85"]
    assert one.words("quick", "reno") == ["access-link", "--quick", "--set", "timing.test=5 s", "--set",
                                          "traffic.cca=reno", "--sweep", "load=60"]
    assert (one.expected_speed(False), one.expected_speed(True)) == (2.5, 9)
    assert two.not_run == "nobody has written it" and suite.part("two") is two


def test_a_scenario_file_is_meant_as_seen_from_the_suite(tmp_path):
    (tmp_path / "small.yaml").write_text("name: small")
    suite = suites.read(written(tmp_path, GOOD.replace("scenario: access-link", "scenario: small.yaml")))
    assert suite.parts[0].scenario == str(tmp_path / "small.yaml")


@pytest.mark.parametrize("old, new, says", [
    ("seeds: 4", "seeds: 0", r":5: seeds: a value such as '3' expected, not '0'"),
    ("seeds: 4", "seeds: 4\nspeed: 1", r":6: speed: unknown section"),
    ("title: Two parts", "title: {a: b}", r":1: title: text expected"),
    ("title: Two parts\n", "", r":1: title: is missing"),
    ("baseline: sack", "baseline: nosuch/x", r":3: baseline: "),
    ("scenario: access-link", "scenario: nosuch", r":11: parts.1.scenario: no scenario 'nosuch'; there are: acc"),
    ("scenario: access-link", "scenario: nosuch.yaml", r":11: parts.1.scenario: .*nosuch.yaml: no such scenario file"),
    ("    scenario: access-link\n", "", r":9: parts.1.scenario: either scenario or not_run expected"),
    ("not_run: nobody has written it", "not_run: ''", r":18: parts.2.not_run: .*expected"),
    ("name: two", "name: one", r":18: parts.2.name: part 1 is called one, too"),
    ("name: two", "name: ../two", r":18: parts.2.name: a value such as 'access-link' expected"),
    ("better: lower", "better: lowest", r":16: parts.1.outputs.1.better: one of lower, higher, one, none expected"),
    ("better: lower", "better: lower, worse: x", r":16: parts.1.outputs.1.worse: unknown field; fields are: metric"),
    ("metric: drop_rate", "metric: Drop-Rate", r":16: parts.1.outputs.1.metric: a value such as 'drop_rate' expected"),
    ("metric: drop_rate", "metric: dropped", r":16: parts.1.outputs.1.metric: no such metric; did you mean .*drop"),
    ("outputs: [", "outputs: [{metric: drop_rate, scope: right_to_left, label: x, better: none}, ",
     r":16: parts.1.outputs: a metric of a scope is there twice"),
    ("    outputs: [{metric: drop_rate, scope: right_to_left, label: drops, better: lower}]\n", "",
     r":9: parts.1.outputs: at least one expected"),
    ("run: topology.edge.rate_bps", "text: x, run: y", r":17: parts.1.parameters.1.run: either run or text expected"),
    ("speed: 2.5", "speed: 0.0", r":15: parts.1.speed: a number above 0 expected"),
    ("speed: 2.5", "speed: 1e5", r":15: parts.1.speed: a value such as '2.5' expected"),
    ("sweep: {load: [60, 85]}", "sweep: {load: [60, 60]}", r":12: parts.1.sweep.load: the same value is listed twice"),
    ("sweep: {load: [60, 85]}", "sweep: {load: []}", r":12: parts.1.sweep.load: a list of at least 1 expected"),
    ("sweep: {load: [60, 85]}", "sweep: {--cca: [60]}", r":12: parts.1.sweep.--cca: names such as"),
    ("parts:\n", "parts: []\nquick2:\n", r":9: quick2: unknown section"),
    ("    section: 4.2\n", "", r":9: parts.1.section: is missing: a suite with a baseline needs it"),
    ("seeds: 4\n", "", r":1: seeds: is missing: a suite with a baseline needs it"),
    ("baseline: sack\n", "", r":15: parts.1.outputs: they need a baseline"),
    (GOOD[GOOD.index("parts:"):], "parts: []\n", r":8: parts: a list of at least 1 expected, not of 0"),
    (GOOD[GOOD.index("parts:"):], "parts: {a: b}\n", r":8: parts: a list expected"),
], ids=range(29))
def test_what_makes_no_sense_is_told_with_file_line_and_field(tmp_path, old, new, says):
    assert GOOD.count(old) == 1
    with pytest.raises(errors.ScenarioError) as raised:
        suites.read(written(tmp_path, GOOD.replace(old, new)))
    assert re.search(r"pair\.yaml" + says, str(raised.value)), str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_suite_that_is_not_there(tmp_path):
    with pytest.raises(errors.UsageError, match="no suite 'nosuch'; there are: .*iccrg"):
        suites.load("nosuch")
    with pytest.raises(errors.UsageError, match="no such suite file"):
        suites.load(str(tmp_path / "nosuch.yaml"))
    with pytest.raises(errors.ScenarioError, match="the file's name is the suite's"):
        path = tmp_path / "A b.yaml"
        path.write_text(GOOD)
        suites.load(str(path))


def _at(resolved, key):
    at = resolved
    for name in key.split("."):
        at = next((one for one in at if one["name"] == name), None) if isinstance(at, list) else at.get(name)
    return at


@pytest.mark.parametrize("name", [*suites.names(), "docs/howto/suite.md"])
def test_scenarios_choices_metrics_and_fields_of_every_suite_are_there(tmp_path, name):
    """Both versions of every part resolve at all points, and what parameters are called is in what is resolved; which
    metrics there are is known when the file is read."""
    if name.endswith(".md"):
        example, = re.findall(r"```yaml\n(.*?)```", (PROJECT_DIR / name).read_text(), re.DOTALL)
        name = str(written(tmp_path, example))
    suite = suites.load(name)
    for part in [part for part in suite.parts if part.scenario]:
        tree = yaml.safe_load(scenario.find(part.scenario).read_text())
        for quick in (False, True)[:1 + ("quick" in tree)]:
            asked = part.selection(quick)
            points = scenario.expand(part.scenario, asked.choices, quick,
                                     [f"{key}={value.replace('{baseline}', suite.baseline)}"
                                      for key, value in asked.set.items()], [],
                                     [f"{key}={','.join(values)}" for key, values in asked.sweep.items()])
            for _, loaded in points:
                resolved = loaded.resolved().content()
                assert [one.run for one in part.parameters if one.run and _at(resolved, one.run) is None] == []
