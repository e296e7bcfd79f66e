# SPDX-License-Identifier: GPL-2.0-only
"""Figures are drawn, their scripts run again, and errors of gnuplot come through."""

import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from analysis.drawing import gnuplot, labels, style
from analysis.figures import draw_all
from analysis.figures.ellipse import Ellipses, covariance_ellipse
from analysis.figures.sojourn import ccdf, thinned
from analysis.metrics import load_metrics
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from tests.unit.analysis import fixture

NOISY = fixture.Shape(noise=0.2)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """(figures, their folder) of three CCAs, one with a name that wants quoting."""
    path = tmp_path_factory.mktemp("figures")
    ccas = ["reno", "bbr's \"2\"", "cubic_x"]
    experiment = fixture.write_experiment(path / "e", ccas=ccas, seeds=[1, 2],
                                          shapes=dict.fromkeys(ccas, NOISY))
    figures, errors = draw_all(Experiment(experiment), path / "figures")
    assert not errors, errors[0]["traceback"]
    return figures, path / "figures"


def test_every_figure_has_all_its_files(drawn):
    figures, folder = drawn
    assert [figure.name for figure in figures] == [
        "ellipse_right_to_left", "throughput", "queueing_delay", "sojourn", "drop_rate",
        "flow_completion", "flow_survival", "adu_response"]
    for figure in figures:
        assert (folder / f"{figure.name}.svg").read_text().rstrip().endswith("</svg>")
        assert (folder / f"{figure.name}.png").read_bytes().startswith(b"\x89PNG")
        assert len(pd.read_csv(folder / f"{figure.name}.csv"))
        assert figure.title and figure.caption.endswith(".")


def test_every_cca_is_named_in_every_figure(drawn):
    figures, folder = drawn
    for figure in figures:
        text = (folder / f"{figure.name}.svg").read_text()
        for name in ("reno", "cubic_x"):
            assert name in text, figure.name


def test_a_script_runs_again(drawn, tmp_path):
    """And draws the same, though the figures of a report are drawn by one gnuplot, one after the other."""
    figures, folder = drawn
    for figure in figures:
        for ending in ("csv", "gp"):
            shutil.copy(folder / f"{figure.name}.{ending}", tmp_path)
        subprocess.run(["gnuplot", f"{figure.name}.gp"], cwd=tmp_path, check=True)
        for ending in ("svg", "png"):
            assert (tmp_path / f"{figure.name}.{ending}").read_bytes() == \
                (folder / f"{figure.name}.{ending}").read_bytes(), f"{figure.name}.{ending}"


def test_after_an_error_of_gnuplot_the_next_figure_is_drawn(tmp_path):
    with gnuplot.one_process():
        for _ in range(2):
            with pytest.raises(AnalysisError, match=r"(?s)bad.gp: gnuplot failed \(exit status [^0].*undefined"):
                gnuplot.draw(tmp_path, "bad", pd.DataFrame({"x": [1]}), ["plot no_such_variable"])
            gnuplot.draw(tmp_path, "good", pd.DataFrame({"x": [1, 2]}), ["plot 'good.csv' using 1:1"])
    assert (tmp_path / "good.png").stat().st_size > 500


def test_long_flows_alone_have_no_figures_by_size(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=[1], tmix=False)
    names = [figure.name for figure in draw_all(Experiment(path), tmp_path / "figures")[0]]
    assert "throughput" in names and "flow_completion" not in names


def test_no_usable_run_no_figure(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ccas=["reno"], seeds=[1],
                                    failed={"reno-seed1": "boom"})
    assert draw_all(Experiment(path), tmp_path / "figures") == ([], [])


def test_gnuplots_own_message_comes_through(tmp_path):
    with pytest.raises(AnalysisError, match=r"(?s)bad.gp: gnuplot failed.*undefined"):
        gnuplot.draw(tmp_path, "bad", pd.DataFrame({"x": [1]}), ["plot no_such_variable"])


def test_missing_gnuplot_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AnalysisError, match="gnuplot-nox"):
        gnuplot.draw(tmp_path, "any", pd.DataFrame({"x": [1]}), ["plot x"])


def test_a_tic_may_have_a_per_cent_sign(tmp_path):
    gnuplot.draw(tmp_path, "loss", pd.DataFrame({"x": [1]}),
                 [f"set xtics ({gnuplot.tick('cubic, loss 0.1 %')} 1)", "plot 'loss.csv' using 1:1 with points"])
    assert "cubic, loss 0.1 %<" in (tmp_path / "loss.svg").read_text()


def test_quotes_cannot_leave_the_string():
    assert gnuplot.quote("a'b\n`c`") == "'a''b `c`'"


def test_ellipse_is_at_distance_one():
    """Every point p of the outline has (p - mean) C^-1 (p - mean) = 1."""
    generator = np.random.default_rng(1)
    x = generator.normal(10, 2, 500)
    y = 3 * x + generator.normal(0, 1, 500)
    offset = covariance_ellipse(x, y) - [x.mean(), y.mean()]
    distance = np.einsum("ij,jk,ik->i", offset, np.linalg.inv(np.cov(x, y)), offset)
    assert distance == pytest.approx(np.ones(len(offset)))


def test_ellipse_of_one_sigma_holds_39_percent():
    """1 - exp(-1/2) = 0.3935 of normally distributed points in two dimensions: what the captions say."""
    x, y = np.random.default_rng(2).multivariate_normal([5, 60], [[4, 3], [3, 9]], 40_000).T
    offset = np.stack([x - x.mean(), y - y.mean()], axis=1)
    distance = np.einsum("ij,jk,ik->i", offset, np.linalg.inv(np.cov(x, y)), offset)
    outline = covariance_ellipse(x, y)
    assert np.hypot(*(outline - [x.mean(), y.mean()]).T).max() > 2
    assert (distance <= 1).mean() == pytest.approx(0.3935, abs=0.01)


def test_ellipses_end_at_zero_delay():
    delay, throughput = np.array([0, 0, 0, 20.0]), np.array([50, 52, 51, 54.0])
    assert covariance_ellipse(delay, throughput)[:, 0].min() < -4
    found = Ellipses.of({"reno": (delay, throughput), "few": (delay[:2], throughput[:2])})
    assert found.outlines["reno"][:, 0].min() == 0 and found.centres["reno"].tolist() == [5, 51.75]
    assert found.counts == {"reno": 4}


def test_ellipse_over_seeds_needs_three(tmp_path):
    noisy = {"reno": NOISY, "cubic": NOISY}
    for seeds in (2, 3):
        path = fixture.write_experiment(tmp_path / f"e{seeds}", seeds=range(1, seeds + 1), shapes=noisy)
        figures, errors = draw_all(Experiment(path), tmp_path / f"figures{seeds}")
        assert not errors
        names = [figure.name for figure in figures]
        assert ("ellipse_seeds_right_to_left" in names) == (seeds == 3)
    over_seeds = next(figure for figure in figures if figure.name == "ellipse_seeds_right_to_left")
    assert "(3 seeds)" in over_seeds.caption and "39\u00a0%" in over_seeds.caption
    table = pd.read_csv(tmp_path / "figures3" / "ellipse_seeds_right_to_left.csv")
    runs = Experiment(path).usable_runs[:3]
    centre = np.mean([load_metrics(run).set_index(["metric", "scope"])["value"]["throughput_mean", "right_to_left"]
                      for run in runs])
    assert table["reno throughput_mbps"].iloc[:-1].mean() == pytest.approx(centre, rel=1e-3)


def test_ccdf_by_hand():
    histogram = pd.DataFrame({"low_us": [0, 1000, 0], "high_us": [1000, 3000, 1000],
                              "packets": [50, 20, 30]})
    sojourn, share = ccdf(histogram)
    assert sojourn.tolist() == [0, 0, 1, 3]
    assert share.tolist() == [1, 1, 0.2, 0]


def test_thinning_keeps_ends_and_order():
    sojourn, share = np.arange(5000.0), np.linspace(1, 0, 5000)
    few, shares = thinned(sojourn, share)
    assert len(few) <= 510 and few[0] == 0 and few[-1] == 4999 and shares[-1] == 0
    assert (np.diff(few) > 0).all()


def test_labels_do_not_cover_each_other():
    places = labels.place([(100, 100), (104, 102), (98, 99)], ["reno", "cubic", "bbr"],
                          np.empty((0, 2)), 500, 400)
    boxes = [labels.Box(x, y - 7.5, x + 8 * len(text), y + 7.5)
             for (x, y), text in zip(places, ["reno", "cubic", "bbr"])]
    for first in range(3):
        for second in range(first):
            assert boxes[first].overlap(boxes[second]) == 0


def test_looks_differ_and_keep_their_place():
    names = [f"cca{index}" for index in range(20)]
    looks = style.looks(names)
    assert len(set(looks.values())) == 20
    assert style.looks(names[:3])["cca2"] == looks["cca2"]


def test_ellipses_stand_about_the_means_of_the_tables(tmp_path):
    """The mean over packets is another one than that over bins, of which some have few."""
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1, 2], shapes={
        "reno": fixture.Shape(noise=0.5)})
    build_report(path)
    table = pd.read_csv(path / "report/tables/summary.csv").set_index(["metric", "scope"])["mean"]
    drawn = pd.read_csv(path / "report/figures/ellipse_right_to_left.csv").iloc[0]
    assert drawn["reno mean_delay_ms"] == pytest.approx(table["queueing_delay_mean", "right_to_left"], rel=1e-5)
    assert drawn["reno mean_throughput_mbps"] == pytest.approx(table["throughput_mean", "right_to_left"], rel=1e-5)
