# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of conclusions when a knob is turned, on runs whose metrics are known."""
import pandas as pd
import pytest

from analysis import stats
from analysis.compare import sensitivity
from analysis.compare.sensitivity import Sensitivity
from analysis.pages import sensitivity_report
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from tests.unit.analysis import fixture

DOWN = "right_to_left"
LABELS = ["as-it-is", "jitter", "fq", "hz-250"]
#: us of queueing delay, (reno, cubic): 5 ms more, 5 ms less, 2 ms more, nothing more
SOJOURN_US = {"as-it-is": (20_000, 25_000), "jitter": (20_000, 15_000), "fq": (20_000, 22_000),
              "hz-250": (30_000, 30_000)}


def shape(sojourn_us):
    return fixture.Shape(test_s=4, connections_per_s=10, tcp_info_rows=200, sojourn_us=(sojourn_us, 1000))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two seeds at each point; without noise they are equal, so that every difference is exact."""
    shapes = {(name, label): shape(of[place]) for label, of in SOJOURN_US.items()
              for place, name in enumerate(("reno", "cubic"))}
    return fixture.write_experiment(tmp_path_factory.mktemp("results") / "knobs", seeds=(1, 2), shapes=shapes,
                                    points=[{"knob": label} for label in LABELS])


@pytest.fixture(autouse=True)
def sown(monkeypatch):
    """As many seeds as words need, with a little spread."""
    fixture.sow(monkeypatch, share=1e-4)


@pytest.fixture
def found(folder):
    return Sensitivity(Experiment(folder))


def delays(found):
    return {one.knob: one for one in found.statements if one.quantity.metric == "queueing_delay_mean"}


def test_differences_at_every_point(found):
    assert found.knobs == LABELS[1:] and found.reference == "reno"
    assert {label: one.comparison.difference for label, one in delays(found).items()} == pytest.approx(
        {"as-it-is": 5, "jitter": -5, "fq": 2, "hz-250": 0}, abs=0.01)


def test_what_becomes_of_them(found):
    assert {label: one.outcome for label, one in delays(found).items()} == {
        "as-it-is": "", "jitter": "flips", "fq": "survives", "hz-250": "equal now"}


def test_changes_are_of_the_differences_of_the_same_seeds(found):
    """5 ms as it is; without spread, what changes at all changes for sure."""
    by_knob = delays(found)
    assert {label: by_knob[label].change.difference for label in LABELS[1:]} == pytest.approx(
        {"jitter": -10, "fq": -3, "hz-250": -5}, abs=0.01)
    assert all(by_knob[label].changed and by_knob[label].change.method == "paired" for label in LABELS[1:])
    assert by_knob["as-it-is"].change is None and not by_knob["as-it-is"].changed


def test_usual_quantities_are_of_the_loaded_link(found):
    assert {(one.metric, one.scope) for one in found.quantities} == {
        ("queueing_delay_mean", DOWN), ("drop_rate", DOWN), ("goodput", DOWN), ("flow_completion_time_p50", "all"),
        ("flow_completion_time_mean", "all")}


def test_the_reference_is_the_one_that_was_asked_for(folder):
    experiment = Experiment(folder)
    ids = {run.path.name for run in experiment.runs if run.seed == 1 and run.point["knob"] != "fq"}
    found = Sensitivity(Experiment(folder, only=ids), named=("queueing_delay_mean",), order=("cubic", "reno"))
    assert found.subjects == ["cubic", "reno"] and found.knobs == ["jitter", "hz-250"]
    down = next(one for one in found.base if one.quantity.scope == DOWN)
    assert (down.subject, down.comparison.n) == ("reno", 14)
    assert down.comparison.difference == pytest.approx(-5, abs=0.01)


def test_named_metrics_instead(folder):
    found = Sensitivity(Experiment(folder), named=("throughput_mean",))
    assert {one.quantity.scope for one in found.statements} == {DOWN, "left_to_right"}
    with pytest.raises(AnalysisError, match="or no metric nosuch"):
        Sensitivity(Experiment(folder), named=("nosuch",))


def test_a_percentile_that_was_not_reached_is_compared_with_nothing(folder, monkeypatch):
    """Of an overload too few transfers come to their end: their percentile is infinite in one run."""
    keyed = sensitivity.Results.keyed

    def overloaded(self, row, metric, scope):
        found = keyed(self, row, metric, scope)
        if metric == "flow_completion_time_p50" and (row.subject, row.point) == ("cubic", ("jitter",)):
            found[next(iter(found))] = float("inf")
        return found
    monkeypatch.setattr(sensitivity.Results, "keyed", overloaded)
    found = Sensitivity(Experiment(folder))
    assert {one.knob for one in found.statements if one.quantity.metric == "flow_completion_time_p50"} == {
        "as-it-is", "fq", "hz-250"}
    assert [(knob, subject, quantity.metric) for knob, subject, quantity in found.not_reached] == [
        ("jitter", "cubic", "flow_completion_time_p50")]
    told = list(sensitivity_report.lines(found))
    assert sum("jitter: cubic - reno" in line and "not reached in every run" in line for line in told) == 1


@pytest.mark.parametrize("gone", [("cubic",), ("reno", "cubic")])
def test_with_a_variation_that_has_no_usable_runs_nothing_survives(tmp_path, gone):
    """Equal delays as it is and with both knobs: equality survives, but for what is not known of it."""
    path = fixture.write_experiment(
        tmp_path / "x", seeds=(1, 2), shapes={"reno": shape(20_000), "cubic": shape(20_000)},
        points=[{"knob": label} for label in ("as-it-is", "jitter", "fq")],
        verdicts={f"{name}-knobfq-seed{seed}": "invalid" for name in gone for seed in (1, 2)})
    found = Sensitivity(Experiment(path), named=("queueing_delay_mean",))
    assert found.knobs == ["jitter", "fq"] and found.of("jitter") and not found.of("fq")
    assert {found.outcome("fq", "cubic", quantity) for quantity in found.quantities} == {"not judged"}
    told = list(sensitivity_report.lines(found))
    assert told[-1].endswith("; 0 of them survive all 2 variations; not all could be judged with fq")
    assert any(line.split()[:3] == ["fq", "not", "judged"] for line in told)
    assert "not judged" in sensitivity_report.write(found, {}, [], "").read_text()


def decision(words):
    return stats.Decision(0.01 if "different" in words else 0.5, 0.01 if "equal" in words or "less" in words else 0.5,
                          words)


@pytest.mark.parametrize("was, now, outcome", [
    ("different, by less than 5 %", "equal within 5 %", "survives"), ("different", "equal within 5 %", "equal now"),
    ("not distinguishable", "different, by less than 5 %", "equal now"),
    ("different", "not distinguishable", "not distinguishable"),
    ("equal within 5 %", "different, by less than 5 %", "survives")])
def test_a_small_difference_is_a_difference_and_equal(found, was, now, outcome):
    one = delays(found)["as-it-is"]
    turned = one._replace(decision=decision(now))
    assert sensitivity._outcome(one._replace(decision=decision(was)), turned) == outcome


def test_another_experiment_is_refused(tmp_path):
    other = fixture.write_experiment(tmp_path / "x", seeds=(1,), shapes={"reno": shape(1), "cubic": shape(1)})
    with pytest.raises(AnalysisError, match="x: not an experiment of `testbed sensitivity`"):
        Sensitivity(Experiment(other))


def test_one_seed_says_nothing(tmp_path, monkeypatch):
    fixture.sow(monkeypatch, 1)
    points = [{"knob": "as-it-is"}, {"knob": "jitter"}]
    path = fixture.write_experiment(tmp_path / "x", seeds=(1,), shapes={"reno": shape(1), "cubic": shape(2)},
                                    points=points)
    found = Sensitivity(Experiment(path))
    assert {one.outcome for one in found.statements if one.knob == "jitter"} == {"no verdict"}
    assert "0 of 5 comparisons come to a conclusion" in "\n".join(sensitivity_report.lines(found))


def decided(difference, half, margin=0.05):
    """A statement about 100 and 100 + difference, with an interval of that half width."""
    spread = half / stats.t_quantile(13) * (13 / 14) ** 0.5 * 14 ** 0.5
    values = [100 + difference - spread, 100 + difference + spread] * 7
    comparison = stats.compare_paired([100, 100.001] * 7, values, margin=margin)
    assert comparison.high - comparison.difference == pytest.approx(half, abs=0.01)
    decision, = stats.decide([comparison])
    return sensitivity.Statement(sensitivity.Quantity("m", "all", "m", "1"), "b", "k", comparison, decision, "")


MORE, LESS, EQUAL, OPEN = decided(20, 5), decided(-20, 5), decided(0, 1), decided(4, 30)


@pytest.mark.parametrize("base, turned, outcome", [
    (MORE, MORE, "survives"), (MORE, LESS, "flips"), (LESS, MORE, "flips"), (MORE, EQUAL, "equal now"),
    (MORE, OPEN, "not distinguishable"), (EQUAL, EQUAL, "survives"), (EQUAL, MORE, "different now"),
    (EQUAL, OPEN, "not distinguishable"), (OPEN, OPEN, "nothing either"), (OPEN, LESS, "different now"),
    (OPEN, EQUAL, "equal now")])
def test_outcomes(base, turned, outcome):
    assert sensitivity._outcome(base, turned) == outcome


def test_factors_have_their_own_neutral_value():
    ratio = [stats.compare_paired([1.0, 1.01] * 3, values * 3, ratio=True) for values in ([2, 2.1], [0.5, 0.52])]
    one, other = (MORE._replace(comparison=comparison, decision=stats.decide([comparison])[0]) for comparison in ratio)
    assert sensitivity._outcome(one, other) == "flips" and sensitivity._outcome(one, one) == "survives"


def test_page_table_and_figure(found):
    page = sensitivity_report.write(found, {"jitter": "jitter of <hosts>"}, [("hz-100", "not built & not asked for")],
                                    "bin/testbed sensitivity x", quick=True)
    html = page.read_text()
    for words in ("Made with <code>--quick</code>", "jitter of &lt;hosts&gt;", "not built &amp; not asked for", "flips",
                  "cubic against reno"):
        assert words in html
    for name in ("sensitivity.svg", "sensitivity.png", "sensitivity.gp", "sensitivity.csv"):
        assert (page.parent / "figures" / name).stat().st_size > 0
    table = pd.read_csv(page.parent / "tables" / "sensitivity.csv", keep_default_na=False)
    assert len(table) == len(found.statements) == 4 * 5
    row = table[(table["knob"] == "fq") & (table["metric"] == "queueing_delay_mean")].iloc[0]
    assert (row["outcome"], row["reference"], row["subject"], row["n"]) == ("survives", "reno", "cubic", 14)
    assert [float(row[name]) for name in ("difference", "change")] == pytest.approx([2, -3], abs=0.01)


def test_lines_for_a_terminal(found):
    said = list(sensitivity_report.lines(found))
    assert any(line.startswith("  queueing delay, mean") and "+5.0" in line and "different" in line for line in said)
    assert any(line.startswith("  jitter ") and "flips *" in line for line in said)
    assert "5 of 5 comparisons come to a conclusion as it is; 4 of them survive all 3 variations" == said[-1]
