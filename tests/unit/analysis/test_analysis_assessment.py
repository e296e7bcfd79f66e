# SPDX-License-Identifier: GPL-2.0-only
"""When a candidate meets a criterion, what harm and shares are, and what the page says."""

import pandas as pd
import pytest

from analysis.compare import assessment, assessment_figure
from analysis.compare.assessment import FAILS, JUDGE, MEETS, NOTHING, SEEDS, UNKNOWN, Assessed, OfSeed
from analysis.compare.run_lists import PairingKey
from analysis.pages import Head, assessment_report
from analysis.read.experiment import Row, read_description
from analysis.read.parts import Runs
from testbed.core.assessed import Criterion, CriterionTest, Threshold
from tests.unit.analysis import fixture

DELAY = CriterionTest("delay", "mean queueing | delay", "queueing_delay_mean", "right_to_left", "value", False,
                      Threshold(20, 40, "A queue that doubles the round-trip time."))
HARM = CriterionTest("harm", "harm", "mean_throughput_l4", "seat", "harm", True, Threshold(0.3, 0.6, "Some harm."))


def judged(*values, test=DELAY, asked=None, seats=None):
    """The finding of these values, of seeds 1, 2, ...; seats: of each seed, where they are others."""
    found = [OfSeed(seed, value, seats[seed - 1] if seats else [value]) for seed, value in enumerate(values, start=1)]
    return assessment._judged(test, {}, {}, "reno", "ms", {}, found, asked or len(values))


@pytest.mark.parametrize("values, word", [
    ([10, 11, 9, 10, 10], MEETS), ([60, 61, 59, 60, 60], FAILS), ([30, 31, 29, 30, 30], JUDGE),
    ([20, 20.1, 19.9, 20, 20.1], JUDGE),
    ([1, 60, 5, 70, 15], SEEDS), ([2, 40, 1, 3, 1], SEEDS), ([41, 120, 1, 60, 80], SEEDS),
    ([10, 11, 9, 10], SEEDS), ([0] * 5, MEETS), ([10], SEEDS), ([], NOTHING)])
def test_a_verdict_needs_the_whole_interval(values, word):
    assert judged(*values).word == word


def test_more_may_be_better():
    test = DELAY._replace(more_is_better=True, threshold=Threshold(0.9, 0.7, "."))
    assert judged(0.95, 0.96, 0.97, 0.95, 0.96, test=test).word == MEETS
    assert judged(0.5, 0.51, 0.52, 0.5, 0.5, test=test).word == FAILS
    assert not HARM.high_meets, "of harm, less is better"


def test_a_mean_on_the_threshold_needs_judgement():
    finding = judged(14, 26, 16, 20, 23.99)
    assert finding.word == JUDGE and "so near to the threshold" in finding.why


def test_how_many_seeds_would_decide():
    """Half a width of 20 % of 5 seeds, 10 % away from the threshold."""
    finding = judged(14, 22, 16, 20, 18)
    assert finding.word == SEEDS and finding.needed == 13
    assert judged(*[14, 22, 16, 20, 18] * 2).word == SEEDS
    assert judged(*[14, 22, 16, 20, 18] * 3).word == MEETS


class Results:
    """Throughputs of two seats: {subject: (flow_1, flow_2)}, the same for two seeds but for the second's half."""

    def __init__(self, values):
        self.values = values
        self.rows = {name: Row(name, (), name) for name in values}

    def keyed(self, row, metric, scope):
        assert metric == "mean_throughput_l4"
        value = self.values[row.subject][int(scope[-1]) - 1]
        return {PairingKey(1, ""): value, PairingKey(2, ""): value / 2}


def seats(test=HARM, **values):
    results = Results({name.replace("_", "+"): value for name, value in values.items()})
    return assessment._Seats(results, results.rows, test)


def test_harm_is_what_a_reference_loses_in_both_seats():
    of = seats(cubic=(10, 8), mine_cubic=(16, 2), cubic_mine=(4, 14))
    first, second = assessment._harm(of, "mine", "cubic")
    assert (first.seed, second.seed) == (1, 2) and first.value == second.value == pytest.approx(1 - 3 / 9)
    assert first.seats == pytest.approx([1 - 4 / 10, 1 - 2 / 8])
    assert [one.value for one in assessment._share(of, "mine", "cubic")] == pytest.approx([15 / 9] * 2)
    less = of._replace(test=HARM._replace(more_is_better=False))
    assert [one.value for one in assessment._harm(less, "mine", "cubic")] == pytest.approx([1 - 9 / 3] * 2)
    assert assessment._harm(seats(cubic=(10, 8), mine_cubic=(16, 2)), "mine", "cubic") == [], "one seat is not enough"


def test_beside_is_the_value_of_the_runs_of_both_seats():
    test = HARM._replace(of="beside")
    found = assessment._beside(seats(test, mine_cubic=(16, 2), cubic_mine=(4, 14)), "mine", "cubic")
    assert [(one.seed, one.value, one.seats) for one in found] == [(1, 15, [16, 14]), (2, 7.5, [8, 7])]
    assert assessment._beside(seats(test, mine_cubic=(16, 2)), "mine", "cubic") == [], "one seat is not enough"


def criterion(**fields):
    about = Criterion("bloat", "Bufferbloat", "5.1.2", "SHOULD", "No long queues.", "", [DELAY], [("one", "why")])
    return about._replace(**fields)


def assessed(*findings, **fields):
    one = Assessed(criterion(**fields), "mine", ["reno"], Runs(None, (), "" if findings else "it broke"))
    vars(one)["alone"] = list(findings)
    return one


def test_a_criterion_is_as_bad_as_its_worst_finding():
    good, bad, middle = (judged(*values) for values in ([10, 11, 9, 10, 10], [60, 61, 59, 60, 60],
                                                        [30, 31, 29, 30, 30]))
    assert assessed(good, good).word == MEETS and assessed(good, middle).word == JUDGE
    assert assessed(good, middle, bad).word == FAILS and assessed(good, middle, bad).decisive == [bad]
    assert assessed(not_run="no tunnel").word == UNKNOWN and assessed().word == NOTHING


def test_the_page_has_a_line_for_each_criterion(tmp_path):
    bad = judged(60, 61, 59, 60, 60)._replace(point={"buffer": "8"}, said={"buffer": "8 BDP"},
                                              against="", measured={"mine": 60, "reno": 200})
    found = [assessed(bad), assessed(not_run="no tunnel", section="6.2", title="Tunnels"), assessed(section="7.1")]
    assert assessment.sentences(found) == [
        "5.1.2   Bufferbloat: does not meet (mean queueing | delay 60 ms, buffer 8 BDP: at most 20 meets, above 40 "
        "does not)",
        "6.2     Tunnels: cannot be tested here (no tunnel)", "7.1     Bufferbloat: no verdict (it broke)"]
    head = Head("Title", "Words.", ["bin/testbed", "assess", "mine"], True)
    page = assessment_report.write(found, tmp_path / "page", head, {"mine.yaml": "abc123"})
    text = page.read_text(encoding="utf-8")
    assert all(word in text for word in ("does not meet", "cannot be tested here", "it broke", "reno 200", "<img",
                                         "bin/testbed assess mine", "mine.yaml", "abc123", "61.0 (seed 2)",
                                         "findings (1)", 'data-head="measured"'))
    markdown = (tmp_path / "page/assessment.md").read_text(encoding="utf-8")
    assert r"mean queueing \| delay" in markdown and "doubles the round-trip time" in markdown
    assert (tmp_path / "page/tables/findings.csv").read_text(encoding="utf-8").count("\n") == 4


def test_the_figure_has_thresholds_and_values(tmp_path):
    finding = judged(60, 61, 59, 60, 60)._replace(said={"buffer": "8 BDP"}, against="reno")
    assert assessment_figure.draw(assessed(finding), tmp_path) == "bloat"
    text = (tmp_path / "bloat.svg").read_text(encoding="utf-8")
    assert "8 BDP, reno" in text and "mean queueing | delay (ms)" in text
    assert assessment_figure.draw(assessed(), tmp_path) == ""


def test_the_figure_says_what_a_ratio_is_of(tmp_path):
    finding = judged(1.1, 1.2, 1.1, 1.2, 1.1, test=RATIO._replace(label="drops"))
    assessment_figure.draw(assessed(finding), tmp_path)
    assert "drops, over the reference's" in (tmp_path / "bloat.svg").read_text(encoding="utf-8").replace("&#39;", "'")


RATIO = DELAY._replace(of="ratio", threshold=Threshold(1.5, 4, "."))
INF = float("inf")


def test_a_reference_without_any_gives_a_verdict_on_a_bounded_scale():
    """None of the reference's packets are lost: the candidate's are more than four times as many."""
    finding = judged(INF, INF, INF, INF, INF, test=RATIO)
    assert finding.word == FAILS and finding.found.mean == INF and "reno has none in 5 of 5 seeds" in finding.why
    throughput = RATIO._replace(more_is_better=True, threshold=Threshold(0.9, 0.7, "."))
    assert judged(INF, INF, INF, INF, INF, test=throughput).word == MEETS
    assert judged(INF, 0.5, 0.6, 0.5, 0.4, test=RATIO).word == SEEDS
    assert [assessment._over(*both) for both in ((0, 0), (1, 0), (1, 2))] == [1, INF, 0.5]
    late = assessment._over_seats([{PairingKey(1, ""): INF, PairingKey(2, ""): INF}],
                                  [{PairingKey(1, ""): INF, PairingKey(2, ""): 2.0}], assessment._over)
    assert late == [OfSeed(2, INF, [INF])], "of two that were not reached nothing is known"
    # 1/2 on average of 1, 1/2, 1/2, 0 and 1/2 is a ratio of 1
    assert judged(INF, 1.0, 1.0, 0.0, 1.0, test=RATIO).found.mean == pytest.approx(1)


def test_missing_seeds_are_said_with_the_verdict():
    finding = judged(10, 11, 9, 10, 10, asked=8)
    assert (finding.word, finding.shortfall) == (MEETS, "n = 5 of 8")
    assert assessment_report._said(finding) == "meets (n = 5 of 8)"
    assert assessment.sentences([assessed(finding)]) == ["5.1.2   Bufferbloat: meets (n = 5 of 8)"]
    few = judged(10, 11, 9, asked=5)
    assert assessment_report._said(few).startswith("needs more seeds: 5 (n = 3 of 5; ") and not judged(1).shortfall


def test_a_mean_does_not_hide_the_seed_that_starves():
    test = HARM._replace(every_seed=True)
    seats = [[0.1, 0.1]] * 14
    assert judged(*[0.1] * 13, test=test, seats=seats).word == SEEDS
    assert judged(*[0.1] * 13, test=test, seats=seats).needed == 14
    met = judged(*[0.1] * 14, test=test, seats=seats)
    assert met.word == MEETS and "at most 19 % of all" in met.why
    starving = judged(*[0.1] * 14, test=test, seats=[*seats[:-1], [-0.5, 0.7]])
    assert starving.word == JUDGE and starving.why == "1 of 14 seeds are beyond 0.6"
    assert starving.worst_in_seat == (2, OfSeed(14, 0.1, [-0.5, 0.7]))
    assert judged(*[0.1] * 13, 0.65, test=HARM).worst.seed == 14


def test_does_not_meet_is_corrected_for_the_number_of_findings():
    """2.5 above the threshold with a standard error of 0.851: t is 2.94, and p of four degrees 0.042."""
    near = judged(40, 41.5, 42.5, 43.5, 45)
    far, good = judged(60, 61, 59, 60, 60), judged(10, 11, 9, 10, 10)
    assert near.word == far.word == FAILS and near.p == pytest.approx(0.0425, abs=5e-4)
    assert good.p == 1
    one = assessed(near)
    assert assessment.correct([one]) == 1 and one.findings[0].word == FAILS
    both = [assessed(near), assessed(far, good)]
    assert assessment.correct(both) == 3 and both[0].word == SEEDS and both[1].word == FAILS
    corrected = both[0].findings[0]
    assert corrected.p_holm == pytest.approx(2 * near.p) and corrected.needed > 5
    assert "not as one of 3 findings" in corrected.why and good.p_holm is None


def test_an_unfinished_seed_is_counted_and_runs_are_listed(tmp_path):
    """Of the candidate, one of six runs failed; of the reference, none."""
    folder = fixture.write_experiment(tmp_path / "exp", ccas=("cubic", "reno"), seeds=range(1, 7),
                                      failed={"cubic-seed2": "it broke"},
                                      shapes=dict.fromkeys(("cubic", "reno"), fixture.Shape(noise=0.1)))
    ids = [run.id for run in read_description(folder).runs]
    one = Assessed(criterion(), "cubic", ["reno"], Runs(folder, ids, ""))
    finding, = one.findings
    assert finding.shortfall == "n = 5 of 6" and [seed.seed for seed in finding.seeds] == [1, 3, 4, 5, 6]
    hashes = {"mine.yaml": "abc123"}
    facts = dict(assessment_report.provenance([one], hashes))
    assert (facts["kernel"], facts["kernel's build"], facts["seeds"]) == ("6.12.30", "6.12-5f0c", "1, 2, 3, 4, 5, 6")
    assert facts["code inside the guest"] == "ab" * 32 and facts["congestion control cubic"].startswith("cubic")
    assert facts["SHA-256 of mine.yaml"] == "abc123"
    page = assessment_report.write([one], tmp_path / "page", Head("Title", "Words.", ["bin/testbed"], True), hashes)
    runs = pd.read_csv(page.parent / "tables/runs.csv").fillna("")
    assert len(runs) == 12 and list(runs.verdict).count("failed") == 1
    assert all(len(digest) == 64 for digest in runs.raw_sha256[runs.verdict == "valid"])
    assert "n = 5 of 6" in page.read_text(encoding="utf-8")


def test_the_only_point_of_a_sweep_is_named(tmp_path):
    """A short version has one of the points of the full one: which is to be said."""
    folder = fixture.write_experiment(tmp_path / "exp", ccas=("cubic", "reno"), seeds=range(1, 6),
                                      points=[{"buffer": "8"}],
                                      shapes=dict.fromkeys(("cubic", "reno"), fixture.Shape(noise=0.1)))
    ids = [run.id for run in read_description(folder).runs]
    finding, = Assessed(criterion(), "cubic", ["reno"], Runs(folder, ids, "")).findings
    assert finding.point == {"buffer": "8"} and ", buffer 8: " in assessment.say(finding)
