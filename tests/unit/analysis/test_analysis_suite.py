# SPDX-License-Identifier: GPL-2.0-only
"""The scorecard's words, on runs whose metrics are known; the page and the tables of a suite."""
import json
import math

import pandas as pd
import pytest

from analysis import metrics, one_run, stats
from analysis.compare.suite import Output, Suite, SuiteRecord, word
from analysis.pages import suite_report
from analysis.read.runs import AnalysisError
from testbed import cli
from tests.unit.analysis import fixture

DOWN = "right_to_left"
OUTPUTS = [
    {"metric": "queueing_delay_mean", "scope": DOWN, "label": "delay", "better": "lower"},
    {"metric": "throughput_mean", "scope": DOWN, "label": "throughput", "better": "higher"},
    {"metric": "drop_rate", "scope": DOWN, "label": "drops", "better": "none"},
    {"metric": "nosuch", "scope": "all", "label": "nothing", "better": "lower"}]


def shape(sojourn_us=20_000, packets=50, drop_every=10):
    return fixture.Shape(test_s=4, connections_per_s=10, tcp_info_rows=200, sojourn_us=(sojourn_us, 1000),
                         packets=(packets, 10), drop_every=drop_every)


#: (congestion control, load) -> what a run looks like; without noise every difference is for sure
SHAPES = {("sack", "60"): shape(), ("good", "60"): shape(15_000, 55, 12), ("bad", "60"): shape(25_000, 45),
          ("sack", "85"): shape(), ("good", "85"): shape(20_500), ("bad", "85"): shape()}


def described(**changes):
    part = {"name": "one", "title": "Part one", "section": "4.2", "not_run": "", "problem": "", "experiment": "link",
            "runs": [], "deviations": [{"what": "a <deviation>", "why": "a reason"}], "outputs": OUTPUTS,
            "parameters": [{"what": "test", "published": "600 s", "run": "timing.test_us", "text": ""},
                           {"what": "edges", "published": "0 ms", "run": "topology.edges_delay_us.left", "text": ""},
                           {"what": "hosts", "published": "6", "run": "", "text": "six"}]}
    lan = {**part, "name": "lan", "title": "LAN", "not_run": "no cell", "experiment": None, "outputs": [],
           "parameters": [], "deviations": []}
    return {"schema": 1, "name": "pair", "title": "Pair", "source": "a draft", "description": "Two parts.",
            "quick": False, "baseline": "sack", "subjects": ["good", "bad"],
            "command": ["bin/testbed", "suite", "pair"],
            "left_out": ["Part three"], "deviations": [{"what": "of all", "why": "everywhere"}],
            "parts": [{**part, **changes}, lan]}


@pytest.fixture(autouse=True)
def sown(monkeypatch):
    """As many seeds as words need, with a little spread."""
    fixture.sow(monkeypatch)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Another command asked for other runs of the same experiment: they do not count."""
    folder = tmp_path_factory.mktemp("results")
    fixture.write_experiment(folder / "link", ccas=("other", "good", "sack", "bad"), seeds=(1, 2, 3),
                             shapes={**SHAPES, "other": shape()}, points=[{"load": "60"}, {"load": "85"}],
                             verdicts={"bad-load60-seed3": "invalid"})
    return folder


@pytest.fixture(scope="module")
def ids(results):
    runs = json.loads((results / "link" / "experiment.json").read_text())["runs"]
    return [run["id"] for run in runs if run["subject"] != "other" and run["seed"] != 2 or run["subject"] == "bad"]


@pytest.fixture(scope="module")
def suite(results, ids):
    return Suite(SuiteRecord(described(runs=ids)), results)


def words(suite, subject):
    return {(one.output.label, one.row.point[0]): one.word for one in suite.parts[0].statements
            if one.row.subject == subject}


def test_words(suite):
    assert words(suite, "good") == {
        ("delay", "60"): "better", ("delay", "85"): "equal", ("throughput", "60"): "better",
        ("throughput", "85"): "equal", ("drops", "60"): "different", ("drops", "85"): "equal"}
    assert words(suite, "bad")["delay", "85"] == "equal"


def test_what_is_closer_than_it_is_known_is_equal(results, ids, monkeypatch):
    """20 and 15 ms are the same to one who knows them to within 6 ms; ratios and 1/time have no such limit."""
    known = metrics.resolutions
    monkeypatch.setattr(metrics, "resolutions", lambda run: {**known(run), "queueing_delay_mean": 6.0})
    found = Suite(SuiteRecord(described(runs=ids)), results)
    assert words(found, "good")["delay", "60"] == "equal" and words(found, "good")["throughput", "60"] == "better"
    page = suite_report._tables(found)["scorecard"].set_index(["subject", "metric", "point"]).sort_index()
    assert page["result"]["good", "queueing_delay_mean", "60"] == "different, by less than its resolution"
    assert set(page["resolution"][:, "queueing_delay_mean"]) == {6.0} and set(page["resolution"]) == {0.0, 6.0}
    monkeypatch.setattr(metrics, "resolutions", lambda run: {"queueing_delay_mean": 4.0 + 2 * (run.subject == "bad")})
    found = [words(Suite(SuiteRecord(described(runs=ids)), results), subject) for subject in ("good", "bad")]
    assert (found[0]["delay", "60"], found[1]["delay", "60"]) == ("better", "equal")


def test_only_runs_that_were_asked_for_and_are_not_invalid_count(results, ids, monkeypatch):
    """Two seeds were asked for, of bad three, of which one is invalid at 60 and none has a partner."""
    monkeypatch.undo()
    monkeypatch.setattr(one_run, "groups", lambda values: [[name] for name in values["run"].unique()])
    suite = Suite(SuiteRecord(described(runs=ids)), results)
    found = {(one.output.label, *one.row.point, one.row.subject): one.compared for one in suite.parts[0].statements}
    assert {row.subject for row in suite.parts[0].experiment.rows} == {"sack", "good", "bad"}
    assert found["delay", "60", "good"].seeds == [1, 3] and found["delay", "60", "good"].comparison.method == "paired"
    assert found["delay", "85", "bad"].seeds == [1, 3]
    one = found["delay", "60", "bad"].comparison
    assert (one.method, one.n_reference, one.n, one.difference) == ("Welch", 2, 2, pytest.approx(5))


def test_one_part_is_one_family(suite):
    compared = [one.compared for one in suite.parts[0].statements if one.compared]
    again = stats.decide([one.comparison for one in compared])
    assert [one.decision for one in compared] == again and len(compared) == 12
    assert {one.family for one in compared} == {"Part one"}


def test_what_is_only_too_late_for_short_runs_is_not_told(results, ids):
    late = {"metric": "ramp_up_time", "scope": "all/bytes_150000000", "label": "late", "better": "lower"}
    found = Suite(SuiteRecord(described(runs=ids, outputs=[late])), results)
    assert not any("no run has" in sentence for sentence in found.sentences())


def test_a_scope_that_no_run_has_is_told(results, ids):
    misspelt = {"metric": "drop_rate", "scope": "right_to_lft", "label": "drops", "better": "lower"}
    found = Suite(SuiteRecord(described(runs=ids, outputs=[misspelt])), results)
    assert list(found.sentences())[-1] == \
        "Part one: no run has drop_rate of right_to_lft; there are: right_to_left, left_to_right"


def test_runs_that_are_all_invalid_are_told(tmp_path):
    fixture.write_experiment(tmp_path / "link", ccas=("good", "sack"), seeds=(1,), shapes={"good": shape(),
                             "sack": shape()}, verdicts={"good-seed1": "invalid", "sack-seed1": "invalid"})
    runs = json.loads((tmp_path / "link" / "experiment.json").read_text())["runs"]
    found = Suite(SuiteRecord(described(runs=[run["id"] for run in runs])), tmp_path)
    assert list(found.sentences())[-1] == "Part one: none of its 2 runs is usable"


def test_counts_and_sentences(suite):
    assert suite.counts("good") == {"better": 2, "equal": 3, "different": 1}
    assert list(suite.sentences())[0] == (
        "good against sack: better in 2, equal in 3, different in 1 of 6 comparisons")


def noisy(results, ids, noise):
    """The suite, with other values of one output: of good at load 60, one for each seed."""
    found = Suite(SuiteRecord(described(runs=ids, outputs=OUTPUTS[1:2])), results)
    sample = found.parts[0].results._samples["good load=60", "throughput_mean", DOWN]
    sample.update(dict(zip(sorted(sample), noise * 7)))
    return found


def test_how_many_seeds_would_decide_what_is_not_distinguishable(results, ids):
    found = noisy(results, ids, (20.0, 99.0))
    one, = [one for one in found.parts[0].statements if one.word == "not distinguishable"]
    needed = found.parts[0].seeds_to_decide(one)
    assert needed == stats.seeds_to_decide(one.compared.comparison) > 2
    assert found.seeds_to_decide() == (
        f"About {-(-needed // 100) * 100} seeds would decide the comparison that is not distinguishable, if "
        "differences and spread are as in these runs")
    assert found.seeds_to_decide() in suite_report._page(found)
    table = suite_report._tables(found)["scorecard"]
    assert table["seeds_to_decide"].dropna().tolist() == [needed]


def test_nothing_is_said_where_all_is_decided(suite):
    assert suite.seeds_to_decide() == "" and "seeds would decide" not in suite_report._page(suite)


@pytest.mark.parametrize("needed, said", [
    ([4, 4, 4], "About 4 seeds would decide most of 3 comparisons"),
    ([3, 9, 1234, 99999], "Of 4 comparisons that are not distinguishable, about 9 seeds would decide half, and about "
                          "100000 nine in ten"),
    ([3, None, None], "About 3 seeds would decide the comparison that is not distinguishable, if differences and "
                      "spread are as in these runs; of 2 more no number is known"), ([None], "")])
def test_the_sentence_of_many(results, ids, monkeypatch, needed, said):
    found = noisy(results, ids, (20.0, 99.0))
    one, = [one for one in found.parts[0].statements if one.word == "not distinguishable"]
    counts = iter(needed)
    found.parts[0].__dict__["statements"] = [one] * len(needed)
    monkeypatch.setattr(type(found.parts[0]), "seeds_to_decide", lambda self, one: next(counts))
    sentence = found.seeds_to_decide()
    assert said in sentence and bool(said) == bool(sentence)


def compared(reference, values, better, ratio=False):
    found = stats.compare_paired(reference, values, ratio)
    return word(Output("m", "s", "l", better), found, stats.decide([found])[0])


@pytest.mark.parametrize("reference, values, by_wish", [
    ([10, 11, 12] * 5, [20, 21.1, 22] * 5, {"higher": "better", "lower": "worse", "none": "different"}),
    ([10, 11, 12] * 5, [5, 5.6, 6] * 5, {"higher": "worse", "lower": "better", "none": "different"}),
    # different for sure, and by less than the margin for sure
    ([100, 110, 120] * 5, [101, 111.1, 121.2] * 5, {"higher": "equal", "lower": "equal", "none": "equal"}),
    ([10, 11, 12] * 5, [10.01, 10.99, 12] * 5, {"higher": "equal", "lower": "equal", "none": "equal"}),
    ([10, 20, 30] * 2, [30, 10, 30] * 2, {"higher": "not distinguishable", "lower": "not distinguishable"}),
    ([10], [30], {"higher": "no verdict", "lower": "no verdict", "none": "no verdict"}),
    ([10, 11, 12, 10], [20, 21.1, 22, 20], {"lower": "no verdict"}), ([0] * 20, [0] * 20, {"lower": "no verdict"}),
    ([1] * 20, [2] * 20, {"lower": "no verdict"})])
def test_a_word_is_difference_or_equivalence_and_a_wish(reference, values, by_wish):
    assert {wish: compared(reference, values, wish) for wish in by_wish} == by_wish


def test_of_a_ratio_that_should_be_one_distances_are_compared(tmp_path):
    """Half as much is as far from 1 as twice as much; a third is farther, and that is worse."""
    flows = [fixture.flow(1, 10_000, "x"), fixture.flow(2, 10_001, "x", base_rtt_us=80_000)]
    fixture.write_experiment(tmp_path / "link", ccas=("sack", "good", "bad"), seeds=(1, 2), shapes={
        name: fixture.Shape(test_s=4, tcp_info_rows=200) for name in ("sack", "good", "bad")}, tmix=False, flows=flows)
    runs = json.loads((tmp_path / "link" / "experiment.json").read_text())["runs"]
    output = {"metric": "throughput_ratio_short_long", "scope": "rtt_8_to_80_ms", "label": "ratio", "better": "one"}
    part = Suite(SuiteRecord(described(runs=[run["id"] for run in runs], outputs=[output])), tmp_path).parts[0]
    values = {"sack": 2.0, "good": 0.5, "bad": 1 / 3}
    for sample in (("sack", "good", "bad")):
        known = part.results._samples[sample, "throughput_ratio_short_long", "rtt_8_to_80_ms"]
        known.update({key: values[sample] * (1 + 1e-4 * key.seed * (1 + (sample == "good"))) for key in known})
    found = {one.row.subject: one for one in part.statements}
    assert found["good"].word == "equal" and found["good"].compared.comparison.difference == pytest.approx(1, rel=0.01)
    assert found["bad"].word == "worse" and found["bad"].compared.comparison.mean == pytest.approx(3, rel=0.01)
    assert math.isclose(found["bad"].compared.comparison.reference, 2, rel_tol=0.01)


def test_the_page(suite, results, tmp_path):
    page = suite_report.write(suite, results / "suite-pair")
    html = page.read_text()
    for said in ("Pair: good, bad against sack", "Baseline: <b>sack</b>", "Under test: <b>good</b>", "by load",
                 "not run: no cell",
                 "a &lt;deviation&gt;", "../link/report/index.html", "60 ▲", "85 =", "60 ▼", "▼ worse",
                 "<td>600 s</td><td>4 s</td>", "<td>0 ms</td><td>0 ms, 12 ms</td>", "<td>6</td><td>six</td>",
                 "Not asked for: Part three", "1 invalid"):
        assert said in html, said
    tables = {path.stem: pd.read_csv(path) for path in (results / "suite-pair" / "tables").glob("*.csv")}
    assert set(tables) == {"scorecard", "outputs", "runs", "parameters", "deviations"}
    assert len(tables["scorecard"]) == 12 and set(tables["scorecard"]["word"]) == {
        "better", "equal", "worse", "different"}
    assert tables["outputs"].query("subject == 'good' and metric == 'queueing_delay_mean' and point == 60")[
        ["n", "mean"]].to_numpy().tolist() == [[14, pytest.approx(15, rel=1e-3)]]
    assert tables["runs"]["verdict"].value_counts().to_dict() == {"valid": len(suite.parts[0].experiment.runs) - 1,
                                                                  "invalid": 1}
    before = {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}
    suite_report.write(Suite(SuiteRecord(json.loads((page.parent / "suite.json").read_text())), results), page.parent)
    assert {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()} == before


def test_the_page_is_made_again_by_its_name(suite, results, monkeypatch, capsys):
    page = suite_report.write(suite, results / "suite-pair")
    before = page.read_bytes()
    page.write_text("spoilt")
    monkeypatch.setenv("TESTBED_RESULTS", str(results))
    assert cli.main(["report", "suite-pair"]) == 0
    assert page.read_bytes() == before and capsys.readouterr().out == f"{page}\n"
    # a margin within which much is equal is that of the page
    assert cli.main(["report", str(page.parent), "--margin", "90%"]) == 0
    wide = page.read_bytes()
    assert wide != before and b"--margin 90%" in wide
    # and stays so, until there is another
    assert cli.main(["report", "suite-pair"]) == 0 and page.read_bytes() == wide
    assert cli.main(["report", "suite-pair", "--margin", "5%"]) == 0 and page.read_bytes() == before
    capsys.readouterr()
    run = suite.parts[0].experiment.runs[0]
    table = next((run.path / "raw").glob("queue.csv.gz"))
    kept = table.read_bytes()
    table.write_bytes(b"spoilt")
    assert cli.main(["report", "suite-pair"]) == 1
    assert run.name in capsys.readouterr().err
    table.write_bytes(kept)
    assert cli.main(["report", "suite-pair", "--zoom", "1s..2s"]) == 2
    assert "not for a suite" in capsys.readouterr().err
    plan = (run.path / "plan.json").read_bytes()
    (run.path / "plan.json").unlink()
    assert cli.main(["report", "suite-pair"]) == 1
    assert run.name in capsys.readouterr().err and page.read_bytes() != before
    (run.path / "plan.json").write_bytes(plan)
    (page.parent / "notes.txt").touch()
    assert cli.main(["report", "suite-pair"]) == 1 and "notes.txt" in capsys.readouterr().err
    (page.parent / "notes.txt").unlink()
    # nothing to be read leaves what there is
    before = page.read_bytes()
    description = json.loads((page.parent / "suite.json").read_text())
    spoilt = json.loads(json.dumps(description))
    spoilt["parts"][0]["outputs"][0]["better"] = "fluffy"
    (page.parent / "suite.json").write_text(json.dumps(spoilt))
    assert cli.main(["report", "suite-pair"]) == 1 and "'fluffy'" in capsys.readouterr().err
    description["parts"][0]["experiment"] = "gone"
    (page.parent / "suite.json").write_text(json.dumps(description))
    assert cli.main(["report", "suite-pair"]) != 0
    said = capsys.readouterr().err
    assert "gone/experiment.json" in said and "was left as it is" in said and page.read_bytes() == before
    (page.parent / "suite.json").write_text('{"parts": []}')
    assert cli.main(["report", "suite-pair"]) == 1
    assert "suite.json" in capsys.readouterr().err


def test_what_no_run_has_is_no_comparison_and_what_one_side_has_is_said(suite, results, ids):
    part = suite.parts[0]
    assert [[chip.title for chip in cell] for cell in suite_report._line(part, part.outputs[3]).cells] == [
        ["no run has a value"], ["no run has a value"]]
    part = Suite(SuiteRecord(described(runs=ids)), results).parts[0]
    part.results._samples.pop(("sack load=60", "drop_rate", DOWN))
    assert {one.word for one in part.statements if (one.output.label, *one.row.point) == ("drops", "60")} == {
        "no value"}


@pytest.mark.parametrize("sack, good, word, sign, says", [
    ((10, 11) * 7, (math.inf, math.inf) * 7, "worse", "\u25bc", "not reached in some runs; of 1/time, \u2212"),
    ((math.inf, math.inf) * 7, (10, 11) * 7, "better", "\u25b2", "not reached in some runs; of 1/time, +"),
    ((10, 11) * 3, (12, 10, math.inf, 9, 10, 12), "not distinguishable", "?", "not reached in some runs"),
    ((math.inf, math.inf) * 7, (math.inf, math.inf) * 7, "no value", "", "reached by neither"),
    ((0, 1) * 7, (math.inf, 5) * 7, "no value", "no value", "there at once")])
def test_who_never_gets_there_is_worse_than_who_is_late(results, ids, sack, good, word, sign, says):
    output = {"metric": "ramp_up_time", "scope": "flow_1", "label": "time", "better": "lower"}
    part = Suite(SuiteRecord(described(runs=ids, outputs=[output])), results).parts[0]
    keys = list(part.results.keyed(part.experiment.rows[0], "throughput_mean", DOWN))
    for name, values in (("sack", sack), ("good", good)):
        part.results._samples[f"{name} load=60", "ramp_up_time", "flow_1"] = dict(zip(keys, map(float, values)))
    part.results._units["ramp_up_time", "flow_1"] = "s"
    one, = [one for one in part.statements if one.row.subject == "good"]
    assert one.word == word and says in suite_report._numbers(one)
    chips = suite_report._line(part, part.outputs[0]).cells[0]
    assert [chip.text for chip in chips] == [f"60 {'reached by neither' if says.startswith('reached') else sign}"]
    assert suite_report._compared(part, one)["unit"] == ("s" if word == "no value" else "1/s")
    assert [row.unit for row in suite_report._differences(part, [("time", "s")])] == ["1/s"] * (word != "no value")


def test_ratios_to_the_baseline_are_compared_with_one(results, ids):
    output = {"metric": "transfer_time_ratio", "scope": "camp_a", "label": "L", "better": "lower"}
    part = Suite(SuiteRecord(described(runs=ids, outputs=[output])), results).parts[0]
    keys = list(part.results.keyed(part.experiment.rows[0], "throughput_mean", DOWN))
    part.results._samples["good load=60", "transfer_time_ratio", "camp_a"] = dict(zip(keys, (1.5, 1.6, 1.5, 1.6, 1.5)))
    one, = part.statements
    assert (one.compared.comparison.reference, one.compared.comparison.n) == (1, 5) and one.compared.comparison.ratio
    assert one.compared.comparison.difference == pytest.approx((1.5 ** 3 * 1.6 ** 2) ** 0.2)


@pytest.mark.parametrize("key, value, text", [
    ("timing.test_us", 479_000_000, "479 s"), ("left_delays_us", [0, 10, 100, 2500], "0 ms, 10 us, 100 us, 2.5 ms"),
    ("edge.rate_bps", 64_000, "64 kbit/s"), ("load_percent", 60, "60 %"), ("capacity_packets", 102.0, "102 packets"),
    ("packet_bytes", 1500, "1500 B"), ("kind", "pfifo", "pfifo"), ("limit", True, "True"), ("flows", 30, "30")])
def test_parameters_as_run_have_units(key, value, text):
    assert suite_report._value(key, value) == text


def test_many_points_are_counted(results, ids, monkeypatch):
    monkeypatch.setattr(suite_report, "_MOST_POINTS", 1)
    found = Suite(SuiteRecord(described(runs=ids)), results)
    line = suite_report._line(found.parts[0], found.parts[0].outputs[0])
    assert [chip.text for chip in line.cells[0]] == ["1 ▲ better", "1 = equal"]
    assert line.cells[0][0].title == "better at 1 of 2 points"


def test_a_part_that_could_not_be_run_is_there_with_its_problem(results, tmp_path):
    for changes, says in (({"experiment": None, "problem": "no <kernel>"}, "no <kernel>"),
                          ({"experiment": "gone", "problem": ""}, "gone/experiment.json"),
                          ({"runs": ["0" * 16], "problem": ""}, "none of the runs of the suite is in it")):
        found = Suite(SuiteRecord(described(**changes)), results)
        assert says in found.parts[0].problem and found.parts[0].statements == []
        assert list(found.sentences())[0] == "good against sack: nothing to compare"
        assert "banner failed" in suite_report._page(found)


def test_what_is_no_description_or_no_place_for_a_report(suite, results, tmp_path):
    with pytest.raises(AnalysisError, match="suite.json: parts"):
        Suite(SuiteRecord({**described(), "parts": []}), results)
    with pytest.raises(AnalysisError, match="is there already and is no report of a suite"):
        suite_report.write(suite, results / "link")
