# SPDX-License-Identifier: GPL-2.0-only
"""When a cell agrees with what was published, and what the page says of it."""
import csv
import types

import numpy as np
import pytest

from analysis.compare import published, published_figure
from analysis.compare.published import Judged, Ours, Verdict
from analysis.pages import Head, published_report
from analysis.read.parts import Runs
from testbed.core.published_cells import About, Cell, Compared

SHARE = Compared("share", "goodput", "all", "goodput of | all", None, "")
FORMULA = SHARE._replace(within_percent=5.0, why_within="It is a fit.")


def cell(*trials, least=None, most=None, decimals=6):
    return Cell({"buffer": "1"}, "", "share", trials, least, most, decimals)


def test_the_range_of_trials_is_widened_by_the_spread_of_seeds():
    ours = Ours([7.0, 8.0, 9.0, 8.0, 8.0], 5)
    assert ours.sd == pytest.approx(0.7071, abs=1e-4)
    low, high = published.limits(cell(8.5, 9.0, 8.9), SHARE, ours)
    assert (low, high) == pytest.approx((8.5 - 1.913 * 0.7071, 9 + 1.913 * 0.7071), abs=1e-3)


@pytest.mark.parametrize(("trials", "many"), [(1, 2.576), (3, 0.950), (5, 0.395), (8, 0.0)])
def test_many_seeds_widen_as_a_known_spread_does(trials, many):
    """-z(0.005^(1/k)); few seeds widen more."""
    assert published.widening(trials, 100_000) == pytest.approx(many, abs=5e-3)
    few = [published.widening(trials, seeds) for seeds in (5, 10, 30)]
    assert few == sorted(few, reverse=True) and few[-1] >= many


def test_one_trial_is_widened_as_a_prediction_interval():
    """Student's t at 0.995 with four degrees of freedom, times the root of 1 + 1 / 5."""
    assert published.widening(1, 5) == pytest.approx(4.6041 * 1.2 ** 0.5, abs=1e-3)


def test_published_values_are_known_to_half_a_digit():
    assert published.limits(cell(38.0, decimals=0), SHARE, Ours([1.0] * 5, 5)) == (37.5, 38.5)


def test_what_counts_in_steps_is_known_to_a_step():
    blocks = SHARE._replace(resolution=0.25)
    assert published.limits(cell(38.0, 39.0, decimals=3), blocks, Ours([1.0] * 5, 5)) == (37.75, 39.25)
    assert published.limits(cell(38.0, decimals=0), blocks, Ours([1.0] * 5, 5)) == (37.5, 38.5)


def test_a_formula_has_its_own_margin():
    assert published.limits(cell(100.0), FORMULA, Ours([97.0], 5)) == pytest.approx((95, 105), abs=1e-5)


def test_bounds_are_what_they_are():
    assert published.limits(cell(least=2.0), SHARE, Ours([3.0], 5)) == (2, float("inf"))


@pytest.mark.parametrize(("trials", "seeds"), [(1, 5), (3, 5), (5, 10)])
def test_false_alarms_are_as_rare_as_promised(trials, seeds):
    """Trials and seeds of one normal distribution: one in a hundred."""
    draws = np.random.default_rng(1).normal(5, 1, (20_000, trials + seeds)).tolist()
    found = ((Ours(draw[trials:], seeds), cell(*draw[:trials])) for draw in draws)
    inside = sum(low <= ours.mean <= high for ours, theirs in found
                 for low, high in [published.limits(theirs, SHARE, ours)])
    assert 0.007 < 1 - inside / len(draws) < 0.013


def verdict(values, switched=(), why_not=""):
    ours = Ours(values, len(values))
    low, high = published.limits(cell(8.5, 9.0, 8.9), SHARE, ours)
    return Verdict(cell(8.5, 9.0, 8.9), SHARE, "Mbit/s", ours, low, high, dict(switched), why_not)


def test_a_switch_explains_only_what_it_makes_agree():
    far, near = [5.0, 5.1, 5.2, 5.0, 5.1], Ours([8.9] * 5, 5)
    assert verdict(far).word == published.OPEN
    assert verdict(far, {"gso": (near, True)}).word == published.EXPLAINED
    assert verdict(far, {"gso": (near, False)}).word == published.OPEN
    assert verdict([8.9] * 5, {"gso": (near, True)}).causes == []
    assert verdict([8.9], why_not="5 seeds expected, not 1").word == published.NO_VERDICT


def test_what_was_not_run_has_no_verdict(tmp_path):
    about = About("mine", "Shares", "somebody", {"share": SHARE}, [("Linux", "newer")], {}, "")
    one = Judged(about, [cell(8.5)], Runs(None, (), "not run"), {})
    assert [found.word for found in one.verdicts] == [published.NO_VERDICT]
    assert published.sentence([one]) == "0 of 1 cells agree; without a verdict: 1."
    page = published_report.write([one], tmp_path / "page", Head("Title", "Words.", ["bin/testbed"], False))
    assert "no verdict: not run" in page.read_text(encoding="utf-8")
    assert r"goodput of \| all" in (tmp_path / "page/published.md").read_text(encoding="utf-8")
    assert (tmp_path / "page/tables/cells.csv").read_text(encoding="utf-8").count("\n") == 2


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page/mine").touch()
    with pytest.raises(Exception, match="is there already"):
        published_report.write([], tmp_path / "page", Head("Title", "Words.", [], False))


def test_ours_and_theirs_are_drawn_beside_each_other(tmp_path):
    about = About("mine", "Shares", "somebody", {"share": SHARE}, [], {}, "")
    one = Judged(about, [], Runs(None, (), ""), {})
    cells = [cell(8.5, 9.0, 8.9)._replace(point={"buffer": str(size)}) for size in (1, 2, 64)]
    vars(one)["verdicts"] = [verdict([8.0, 8.1, 8.2, 8.0, 8.1])._replace(cell=cell) for cell in cells]
    assert published_figure.draw(one, tmp_path) == "mine"
    text = (tmp_path / "mine.svg").read_text(encoding="utf-8")
    assert all(word in text for word in ("published", "here", "goodput of | all (Mbit/s)", "buffer"))
    assert "(column('0 x')*1.025)" in (tmp_path / "mine.gp").read_text(encoding="utf-8")
    assert "where ours would agree" in text and "BDP" not in text


def test_a_mean_beside_a_limit_has_its_digits_and_margins_are_sentences():
    about = About("mine", "Shares", "somebody", {"share": FORMULA._replace(why_within="it is a fit")}, [], {}, "")
    one = Judged(about, [], Runs(None, (), ""), {})
    vars(one)["verdicts"] = [verdict([10.42, 10.43, 10.44])._replace(cell=cell(least=10.29, most=10.41),
                                                                     low=10.29, high=10.41)]
    assert published_report._table(one).rows[0][1][3:5] == ["10.43 (0.01; 3)", "10.29 .. 10.41"]
    assert published_report.margins(one) == ["goodput of | all: margin 5 %. It is a fit"]
    assert "This result alone: `--only mine`." in published_report.markdown([one], ["bin/testbed"])


def test_an_axis_of_a_choice_has_its_unit(tmp_path):
    about = About("mine", "Shares", "somebody", {"share": SHARE}, [], {}, "")
    one = Judged(about, [], Runs(None, (), ""), {})
    vars(one)["experiment"] = types.SimpleNamespace(description=types.SimpleNamespace(units={"buffer": "BDP"}))
    vars(one)["verdicts"] = [verdict([8.0, 8.1])._replace(cell=cell(8.5)._replace(point={"buffer": size}))
                             for size in ("1", "64")]
    assert published_figure.draw(one, tmp_path) == "mine"
    assert "buffer (BDP)" in (tmp_path / "mine.svg").read_text(encoding="utf-8")
    assert published_report._table(one).heads[0] == "buffer (BDP)"


@pytest.mark.parametrize(("trials", "least", "most"), [((8.5, 9.0), None, None), ((), None, 10.0), ((), 2.0, None)])
def test_where_ours_would_agree_stays_within_the_panel(tmp_path, trials, least, most):
    about = About("mine", "Shares", "somebody", {"share": SHARE}, [], {}, "")
    one = Judged(about, [], Runs(None, (), ""), {})
    found = cell(*trials, least=least, most=most)
    ours = Ours([8.0, 8.1, 8.2, 8.0, 8.1], 5)
    low, high = published.limits(found, SHARE, ours)
    vars(one)["verdicts"] = [verdict(ours.values)._replace(cell=found, low=low, high=high)]
    published_figure.draw(one, tmp_path)
    with (tmp_path / "mine.csv").open(encoding="utf-8") as file:
        row, = csv.DictReader(file)
    assert 0 <= float(row["0 from"]) < float(row["0 to"]) <= 1.1 * 10
    assert "set xtics ('1' 1)" in (tmp_path / "mine.gp").read_text(encoding="utf-8")
