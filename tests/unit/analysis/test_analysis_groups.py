# SPDX-License-Identifier: GPL-2.0-only
"""Seeds that fall into groups; how often that is said of which values, is counted in test_analysis_coverage.py."""

import shutil

import pytest

from analysis import groups
from analysis.pages.report import build_report
from tests.unit.analysis import fixture


def test_a_gap_by_hand():
    """10, 11, 12, 20: the gap, 8, is four times the rest of the range, 2; as a logarithm 0.511 of 0.182."""
    assert groups._gap(groups.np.array([[12.0, 20, 10, 11]]))[0] == 4
    assert groups._gap(groups.np.log([[10.0, 11, 12, 20]]))[0] == pytest.approx(0.511 / 0.182, rel=0.01)


@pytest.mark.parametrize("values, few", [([1.0, 1.02, 0.98, 1.01, 3.0], True), ([1.0, 1.3, 0.6, 1.1, 0.8], False),
                                         ([-1.0, -1.02, -0.98, -1.01, 3.0], True)])
def test_one_seed_apart_is_a_group(values, few):
    assert (groups.p_value(values) <= 0.05) is few


def test_a_tail_is_no_group():
    """Each twice the one before: on the logarithmic scale there is no gap."""
    values = [1.0, 2.1, 4.0, 8.1, 17.0, 33.0, 64.0]
    assert groups.p_value(values) > 0.5 and groups.p_value([value - 1 for value in values]) < 0.5


@pytest.mark.parametrize("values", [[1.0, 1.1, 1.2, 9.0], [1.0] * 6, [1.0, 2.0, 3.0, 4.0, float("inf")],
                                    [20.0, 20.01, 20.02, 20.01, 20.9], [0.0, 0.0, 0.0, 0.0, 1.0]])
def test_of_few_or_close_values_nothing_is_said(values):
    assert groups.p_value(values) is None


def test_the_sides_of_the_gap():
    assert groups.split({1: 5.0, 2: 1.0, 3: 1.2, 4: 5.1}) == ([2, 3], [1, 4])


def test_the_report_says_which_seeds(tmp_path):
    """Ten seeds of a queue that is short in eight of them."""
    def shape(delay_us):
        return fixture.Shape(test_s=4, connections_per_s=10, tcp_info_rows=200, noise=0.01, sojourn_us=(delay_us, 999))
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=range(1, 11), shapes={"reno": shape(20_000)})
    page = build_report(path).path.read_text()
    assert "fall into groups" not in page
    for seed in (3, 7):
        folder = (path / f"runs/reno-seed{seed}").resolve()
        shutil.rmtree(folder)
        fixture.write_run(folder, seed, shape(60_000), subject="reno")
    page = build_report(path).path.read_text()
    assert "reno, queueing delay, mean: seeds fall into groups, 1, 2, 4\u20136, 8\u201310 about " in page
    assert " and 3, 7 about " in page and "ms; the mean is that of neither" in page
