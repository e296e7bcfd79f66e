# SPDX-License-Identifier: GPL-2.0-only
"""Sentences before everything else: made of the numbers of the page; they say when there are too few seeds."""

import html
import re
import types

import pytest

from analysis.pages import findings
from analysis.pages.report import build_report
from tests.unit.analysis import fixture


def sentences(path):
    """Those of a report, and where they begin in it."""
    page = build_report(path).path.read_text()
    found = re.search(r'<section id="findings".*?</section>', page, re.S)
    assert found and page.index("<table") > found.end()
    return [html.unescape(re.sub("<[^>]+>", "", one)) for one in re.findall("<li>(.*?)</li>", found[0], re.S)]


def experiment(tmp_path, **options):
    return fixture.write_experiment(tmp_path / "demo", **{
        "seeds": [1, 2], "shapes": {"cubic": fixture.Shape(packets=(55, 10), sojourn_us=(28_000, 1000))}, **options})


def test_differences_are_said_with_their_size_and_interval(tmp_path, monkeypatch):
    fixture.sow(monkeypatch)
    first, second = sentences(experiment(tmp_path))
    assert re.match(r"With reno, throughput is (60\.0\d?|59\.9\d) Mbit/s \(.* to .*\), "
                    r"queueing delay (20\.0\d?|19\.9\d) ms ", first)
    more = re.match(r"Against reno, cubic has (\S+) % more throughput \((\S+) to (\S+) %?\)?.* and "
                    r"(\S+) ms more queueing delay|Against reno, cubic has (\S+) % more throughput \((\S+) to (\S+)\)",
                    second)
    assert more, second
    value, low, high = (float(one) for one in (more.groups()[:3] if more[1] else more.groups()[4:7]))
    assert 9.5 < low <= value <= high < 10.5
    assert re.search(r"(7|8)\.\d+ ms more queueing delay \((7|8)\.\d+ to (7|8)\.\d+\)", second)


def test_less_is_less(tmp_path, monkeypatch):
    fixture.sow(monkeypatch)
    _, second = sentences(experiment(tmp_path, ccas=["cubic", "reno"]))
    assert re.search(r"reno has 9\.\d+ % less throughput \(9\.\d+ to 9\.\d+\)", second)
    assert re.search(r"\d\.\d+ ms less queueing delay", second)


def test_few_seeds_say_nothing_but_how_many_would_do(tmp_path, monkeypatch):
    fixture.sow(monkeypatch, seeds=4)
    found, = sentences(experiment(tmp_path))
    assert "cannot be told apart: 4 seeds are too few, 5 are the least" in found and "more throughput" not in found
    assert re.search(r"so far, 5 for throughput.* would do", found)


def test_one_congestion_control_and_few_seeds(tmp_path, monkeypatch):
    fixture.sow(monkeypatch, seeds=3)
    found, = sentences(experiment(tmp_path, ccas=["reno"]))
    assert found.startswith("3 seeds are too few to say anything of means: 5 are the least; for means to within 5 %, ")


def test_what_these_runs_cannot_tell(tmp_path, monkeypatch):
    fixture.sow(monkeypatch, seeds=6, share=0.2)
    _, second = sentences(experiment(tmp_path, shapes=None))
    assert re.match(r"Against reno, cubic is not distinguishable with 6 seeds: throughput \(\d+ would do\)", second)


def test_runs_that_are_not_valid_come_first(tmp_path, monkeypatch):
    fixture.sow(monkeypatch)
    verdicts = {"reno-seed1": "suspect", "cubic-seed2": "invalid"}
    first, *_ = sentences(experiment(tmp_path, seeds=[1, 2, 3], verdicts=verdicts))
    assert first.startswith("Of 6 runs 1 is invalid (cubic-seed2) and 1 is suspect (reno-seed1). ")


def test_points_of_a_sweep_are_counted(tmp_path, monkeypatch):
    fixture.sow(monkeypatch)
    more, less = fixture.Shape(packets=(55, 10)), fixture.Shape(packets=(40, 10))
    first, second = sentences(experiment(tmp_path, points=[{"buffer": "1"}, {"buffer": "2"}], shapes={
        ("cubic", "1"): more, ("cubic", "2"): less, ("reno", "2"): fixture.Shape(packets=(51, 10))}))
    assert first.startswith("With reno, throughput is ") and " (buffer=1) to " in first
    assert re.search(r"has (9|10)\.\d+ % more throughput .*at buffer=1; 2\d\.\d+ % less throughput", second)
    assert "equal within 5 % at all 2 points: queueing delay" in second


def test_at_most_six(tmp_path, monkeypatch):
    fixture.sow(monkeypatch)
    names = [f"cca{number}" for number in range(9)]
    found = sentences(experiment(tmp_path, ccas=names, seeds=[1], shapes={
        name: fixture.Shape(packets=(40 + place, 10)) for place, name in enumerate(names)}))
    assert 3 <= len(found) <= 6


@pytest.mark.parametrize("metrics, what", [
    (("throughput_mean", "queueing_delay_mean", "drop_rate"), "Throughput, queueing delay and drops"),
    (("throughput_mean", "queueing_delay_mean"), "Throughput and queueing delay")])
def test_drops_are_named_where_there_is_a_drop_rate(metrics, what):
    results = types.SimpleNamespace(experiment=types.SimpleNamespace(rows=[], axes=[]))
    known = [findings.Known(one, "right_to_left", "") for one in findings.QUANTITIES if one.metric in metrics]
    assert findings._note(results, known) == f"{what}: of the bottleneck right to left."
