# SPDX-License-Identifier: GPL-2.0-only
"""Files of published results: what they say, and what is wrong with them in one line."""
import pytest

from testbed.core.errors import ScenarioError
from testbed.scenario import published, suites

YAML = """\
title: Shares
source: somebody
scenario: long-flows
ccas: [bbr]
sweep: {flows: [1, 2], topology.central.queue.limit: [50, 100]}
quick: {sweep: {flows: [1], topology.central.queue.limit: [50, 100]}}
quantities: [{name: share, metric: goodput, scope: all, label: goodput}]
switches: [{name: deep, set: {hosts.jitter: 1 ms}, sweep: {topology.central.queue.limit: [100]}, why: jitter.}]
"""
HEAD = "flows,topology.central.queue.limit,quantity,"
CSV = HEAD + "trial,value\n1,50,share,1,8.15\n1,50,share,2,8.2\n1,50,share,3,8.1\n2,100,share,1,1e2\n"


@pytest.fixture
def written(tmp_path):
    def write(yaml=YAML, csv=CSV):
        (tmp_path / "mine.yaml").write_text(yaml, encoding="utf-8")
        (tmp_path / "mine.csv").write_text(csv, encoding="utf-8")
        return tmp_path / "mine.yaml"
    return write


def test_cells_are_those_of_the_table(written):
    result = published.read(written())
    first, second = result.cells
    assert first.point == {"flows": "1", "topology.central.queue.limit": "50"}
    assert first.trials == (8.15, 8.2, 8.1) and first.decimals == 1
    assert second.trials == (100,) and second.decimals == -2
    assert result.asked(short=False) == [first, second] and result.asked(short=True) == [first]


def test_a_switch_runs_its_cells_with_something_else(written):
    result = published.read(written())
    part = result.switched(short=False)["deep"]
    assert part.words("", "") == ["long-flows", "--set", "hosts.jitter=1 ms", "--sweep", "flows=1,2", "--sweep",
                                  "topology.central.queue.limit=100"]
    assert result.switched(short=True)["deep"].sweep["flows"] == ("1",)


def test_a_switch_may_put_another_congestion_control_in_the_place_of_one(written):
    plain = "ccas: {bbr: cubic-no-hystart}"
    result = published.read(written(YAML.replace("set: {hosts.jitter: 1 ms}", plain)))
    assert result.switched(short=False)["deep"].ccas == ("cubic-no-hystart",)
    cause = result.about().causes["deep"]
    assert (cause.scope("cca_bbr"), cause.scope("bbr"), cause.scope("cca_reno")) == ("cca_cubic-no-hystart", "bbr",
                                                                                     "cca_reno")


def test_bounds_may_be_open(written):
    cells = published.read(written(csv=HEAD + "least,most\n1,50,share,2,\n2,50,share,,3\n")).cells
    assert [(cell.least, cell.most) for cell in cells] == [(2, None), (None, 3)]


@pytest.mark.parametrize("csv, said", [
    ("flows,quantity,trial,value\n", "mine.csv:1: columns flows,topology.central.queue.limit,quantity,least,most"),
    (HEAD + "trial,value\n", "mine.csv:1: no published value"),
    (HEAD + "trial,value\n3,50,share,1,8\n", "mine.csv:2: flows: "),
    (HEAD + "trial,value\n1,50,shar,1,8\n", "mine.csv:2: quantity: "),
    (HEAD + "trial,value\n1,50,share,2,8\n", "mine.csv:2: trial: 1 expected, not '2'"),
    (HEAD + "trial,value\n1,50,share,1,nan\n", "mine.csv:2: value: a number expected, not 'nan'"),
    (HEAD + "trial,value\n1,50,share,1\n", "mine.csv:2: 5 values expected, not 4"),
    (HEAD + "least,most\n1,50,share,,\n", "mine.csv:2: least and most: at least one expected, the smaller first"),
    (HEAD + "least,most\n1,50,share,3,2\n", "mine.csv:2: least and most: at least one expected, the smaller first"),
    (HEAD + "least,most\n1,50,share,1,2\n1,50,share,1,2\n", "mine.csv:3: this cell is there already"),
    ('"', "mine.csv: no table of values separated by commas"),
])
def test_what_is_wrong_with_a_table_is_said_with_its_line(written, csv, said):
    with pytest.raises(ScenarioError) as problem:
        published.read(written(csv=csv if csv.startswith(HEAD) or "quantity" not in csv else
                               csv.replace("trial,value", "least,most")))
    assert said in str(problem.value)


@pytest.mark.parametrize("old, new, said", [
    ("metric: goodput", "metric: godput", "mine.yaml:7: quantities.1.metric: no such metric"),
    ("label: goodput}", "label: goodput, within: 5 %}", "mine.yaml:7: quantities.1.why_within: within and why_within"),
    ("set: {hosts.jitter: 1 ms}, ", "", "mine.yaml:8: switches.1.set: at least one of set, choices, ccas"),
    ("set: {hosts.jitter: 1 ms}", "ccas: {reno: cubic}", "mine.yaml:8: switches.1.ccas.reno: is not used"),
    ("set: {hosts.jitter: 1 ms}", "ccas: {bbr: ./x.yaml}", "the name of another congestion control expected"),
    ("sweep: {topology.central.queue.limit: [100]}", "sweep: {rate: [1]}", "mine.yaml:8: switches.1.sweep.rate: is"),
    ("title: Shares\n", "", "title: is missing"),
    ("scenario: long-flows", "scenario: long-flow", "mine.yaml:3: scenario: "),
    ("quick: {sweep: {flows", "quick: {sweep: {load", "mine.yaml:6: quick.sweep: the axes of"),
    ("source: somebody", "sourc: somebody", "mine.yaml:2: sourc: unknown section"),
])
def test_what_is_wrong_with_a_result_is_said_with_its_field(written, old, new, said):
    assert old in YAML
    with pytest.raises(ScenarioError) as problem:
        published.read(written(YAML.replace(old, new)))
    assert said in str(problem.value)


def test_a_result_without_its_table(written, tmp_path):
    path = written()
    (tmp_path / "mine.csv").unlink()
    with pytest.raises(ScenarioError, match="mine.csv: No such file or directory: published values expected"):
        published.read(path)


def test_all_results_of_the_project_can_be_read():
    suite = suites.load("published")
    assert suite.parts and all(part.seeds is None or part.seeds >= 5 for part in suite.parts)
    assert sum(len(part.asked(short=True)) for part in suite.parts) > 20
