# SPDX-License-Identifier: GPL-2.0-only
"""Pages in Chromium: nothing on the console, nothing loaded from outside, tables that sort, charts that zoom."""

import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd
import pytest

from analysis import cases, figures
from analysis.cases import figure
from analysis.cases.evidence import Point, Seen
from analysis.pages import cases_report
from analysis.pages.cases_report import Judged
from analysis.pages.report import build_report
from testbed import cli
from testbed.cli import _overview
from tests.end_to_end.browser import Browser
from tests.unit.analysis import fixture

LIMIT = "topology.central.queue.limit"


@pytest.fixture(scope="module")
def browser():
    """One for all tests of this file: it starts in a second or more."""
    if not shutil.which("chromium"):
        pytest.fail("these tests need the Debian package chromium: make setup")
    found = Browser()
    yield found
    found.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of a sweep: two points, two congestion controls, two seeds; with one of the figures, to save time."""
    path = fixture.write_experiment(
        tmp_path_factory.mktemp("pages") / "demo", seeds=[1, 2], points=[{LIMIT: "85"}, {LIMIT: "340"}],
        shapes={"reno": fixture.Shape(noise=0.2), "cubic": fixture.Shape(noise=0.2, packets=(60, 8))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "files", lambda: ["analysis.figures.throughput"])
        return build_report(path).path


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_quiet_and_whole(browser, report, width, dark):
    browser.open(report, width, dark=dark)
    assert browser.said == []
    assert [address for address in browser.asked if not address.startswith("data:")] == [report.as_uri()]
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("[...document.images].every((one) => one.naturalWidth > 100 && one.alt.length > 10)")
    levels = browser.run("[...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))


def test_text_stands_out_from_its_background(browser, report):
    """A contrast of 4.5, as WCAG 2 asks for (its formulas of relative luminance)."""
    for dark in (False, True):
        browser.open(report, dark=dark)
        contrasts = browser.run("""(() => {
            const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
                .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
                .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
            const behind = (one) => { for (; one; one = one.parentElement) {
                const colour = getComputedStyle(one).backgroundColor;
                if (!colour.endsWith(", 0)")) return colour; } return "rgb(255, 255, 255)"; };
            return [...document.querySelectorAll("h1, h2, p, a, th, td, .unit, .pm, .mark, .verdict, summary, pre")]
                .map((one) => [getComputedStyle(one).color, behind(one)].map(light).sort((a, b) => a - b))
                .map(([a, b]) => (b + 0.05) / (a + 0.05)); })()""")
        assert len(contrasts) > 100 and min(contrasts) >= 4.5


def rows(browser, column):
    """The texts of a column of the first table."""
    return browser.run(f"""[...document.querySelector("table.sortable").tBodies[0].rows].map(
        (row) => row.cells.length > {column} ? row.cells[{column}].textContent.trim() : "")""")


def heading(browser, column, what):
    cell = f'document.querySelector("table.sortable").tHead.rows[0].cells[{column}]'
    return browser.run(f"{cell}.{what}")


def test_tables_sort_by_keyboard(browser, report):
    browser.open(report)
    before = rows(browser, 0)
    assert before[0] == "85" and before[2] == "340" and heading(browser, 4, "textContent").startswith("throughput")
    heading(browser, 4, "querySelector('button').focus()")
    browser.press("Enter")
    assert heading(browser, 4, "getAttribute('aria-sort')") == "ascending"
    # cells that spanned rows are in each of them now
    assert sorted(rows(browser, 0)) == ["340", "340", "85", "85"]
    found = [float(text.split()[0]) for text in rows(browser, 4)]
    assert found == sorted(found) and found[0] < found[-1]
    browser.press("Enter")
    assert heading(browser, 4, "getAttribute('aria-sort')") == "descending"
    assert [float(text.split()[0]) for text in rows(browser, 4)] == found[::-1]
    browser.press("Enter")
    assert heading(browser, 4, "getAttribute('aria-sort')") == "none"
    assert rows(browser, 0) == ["85", "85", "340", "340"]
    assert browser.said == []


def test_signs_words_and_gaps_sort_as_meant(browser, report, tmp_path):
    """Minus signs, factors, thousands, what was not reached; cells without a number stay last, both ways."""
    page = tmp_path / "page.html"
    script = report.read_text().split("<script>")[1].split("</script>")[0]
    texts = ["+3.0", "–", "\u22122.5", "not reached", "1\u202f200", "× 0.5", "&lt; 0.0001", "–"]
    page.write_text('<meta charset="utf-8"><table class="sortable"><thead><tr><th>x</th></tr></thead><tbody>'
                    + "".join(f"<tr><td>{text}</td></tr>" for text in texts)
                    + f"</tbody></table><script>{script}</script>")
    browser.open(page)
    heading(browser, 0, "querySelector('button').click()")
    up = ["\u22122.5", "< 0.0001", "× 0.5", "+3.0", "1\u202f200", "not reached"]
    assert rows(browser, 0) == [*up, "–", "–"]
    heading(browser, 0, "querySelector('button').click()")
    assert rows(browser, 0) == [*up[::-1], "–", "–"]


def test_an_error_on_the_console_is_noticed(browser, tmp_path):
    """That `said` is empty means something."""
    page = tmp_path / "page.html"
    page.write_text('<img src="missing.png"><script>console.error("oh"); nothing.there();</script>')
    browser.open(page)
    assert len(browser.said) == 3 and "oh" in browser.said
    assert any(address.endswith("missing.png") for address in browser.asked)


# -- series that can be zoomed ---------------------------------------------------------------------

def span(browser):
    return browser.run("['from', 'to'].map((end) => Number(document.getElementById('series-' + end).value))")


def ticks(browser):
    """The labels of the time axis of every chart."""
    return browser.run("""[...document.querySelectorAll(".chart")].map((chart) => [...chart.querySelectorAll(
        ".dygraph-axis-label-x")].map((one) => one.textContent).join())""")


def place(browser, chart, share):
    """A point of the window: in the middle of a chart, at a share of its width."""
    left, top, width, height = browser.run(f"""(() => {{ const plot = document.querySelectorAll(".plot")[{chart}];
        plot.scrollIntoView({{block: "center"}}); const box = plot.getBoundingClientRect();
        return [box.left, box.top, box.width, box.height]; }})()""")
    return left + share * width, top + height / 2


def test_dragging_over_one_chart_zooms_all(browser, report):
    browser.open(report)
    assert browser.run("document.querySelectorAll('.chart').length") == 4
    assert span(browser) == [0, 12] and len(set(ticks(browser))) == 1
    whole = ticks(browser)[0]
    start, end = place(browser, 1, 0.5), place(browser, 1, 0.75)
    browser.drag(start, end)
    low, high = span(browser)
    assert 5 < low < 6.5 and 8.5 < high < 9.5
    assert len(set(ticks(browser))) == 1 and ticks(browser)[0] != whole
    assert browser.run("document.getElementById('series-said').textContent").startswith("reno-limit85-seed1: ")
    # another run, at the same time of it
    browser.run("""(() => { const seed = document.getElementById("series-seed"); seed.value = "2";
        seed.dispatchEvent(new Event("change")); })()""")
    assert span(browser) == [low, high] and len(set(ticks(browser))) == 1
    assert browser.run("document.getElementById('series-run').hash") == "#reno-limit85-seed2"
    browser.run("document.querySelector('[data-move=all]').click()")
    assert span(browser) == [0, 12] and ticks(browser)[0] == whole
    assert browser.said == []


def test_charts_are_used_by_keyboard(browser, report):
    browser.open(report)
    browser.run("document.querySelector('.plot').focus()")
    for key, wanted in (("+", [3, 9]), ("ArrowRight", [6, 12]), ("ArrowRight", [6, 12]), ("ArrowLeft", [3, 9]),
                        ("-", [0, 12]), ("+", [3, 9]), ("0", [0, 12])):
        browser.press(key)
        assert span(browser) == pytest.approx(wanted), key
    browser.run("""(() => { const from = document.getElementById("series-from"); from.value = "2.5";
        from.dispatchEvent(new Event("change")); })()""")
    assert span(browser) == [2.5, 12]
    assert browser.run("[...document.querySelectorAll('.plot')].every((one) => one.tabIndex === 0 && one.ariaLabel)")


def case_run(states):
    """A flow with these (from in s, state), to 6 s."""
    model = pd.DataFrame([{"t_us": int(1e6 * begin), "state": state, "why": "round", "inflight": 80, "bdp": 83,
                           "inflight_longterm": -1, "max_bw": 1.2e6, "bw": 1.1e6} for begin, state in states])
    wire = pd.DataFrame({"t_us": np.arange(0, 6_000_001, 10_000), "cwnd": 160, "unacked": 85, "lost": 0, "retrans": 0,
                         "pacing_rate_bps": 9.5e6})
    return Seen(model, wire, Path("."), "valid")


def test_the_states_of_a_case_are_zoomed(browser, tmp_path):
    seen = case_run([(0, "Startup"), (2.5, "Drain"), (3, "ProbeBW_DOWN")])
    found = [Judged(number, "mine", Point(10_000_000, 10_000), cases.PASSED, [], ["bin/testbed run"], seen, "", "Drain")
             for number in (3, 4)]
    page = cases_report.write(found, [(3, "Drain", "it ends"), (4, "Drain again", "it ends")], ["mine"],
                              tmp_path / "cases", "Cases", "What they are", ["bin/testbed", "suite"])
    browser.open(page)
    # the moment of the case at first: the first time in Drain, with half as much around it
    assert browser.said == [] and span(browser) == pytest.approx([2.25, 3.25])
    assert browser.run("document.querySelectorAll('.chart').length") == 2 and len(set(ticks(browser))) == 1
    browser.run("document.querySelector('[data-move=all]').click()")
    assert span(browser) == [0, 6]
    # what is behind the curves in each state
    at = """(() => { const canvas = document.querySelectorAll(".chart")[1].querySelectorAll("canvas")[0];
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, found = new Set();
        for (let k = 0; k < data.length; k += 4) if (data[k + 3] === 255) found.add(
            "#" + [0, 1, 2].map((c) => data[k + c].toString(16).padStart(2, "0")).join(""));
        return [...found]; })()"""
    shades = {figure.SHADES[state] for state in ("Startup", "Drain", "ProbeBW_DOWN")}
    assert shades <= set(browser.run(at))
    browser.run("document.querySelector('a[data-series^=\"case 4\"]').click()")
    assert span(browser) == pytest.approx([2.25, 3.25])
    assert browser.run("document.getElementById('series-run').hash") == "#case-4"


def test_flows_are_chosen(browser, report):
    browser.open(report)
    # links are grey and not in this chart
    coloured = """(() => { const canvas = document.querySelectorAll(".chart")[2].querySelector("canvas");
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0; for (let k = 0; k < data.length; k += 4) { const rgb = [data[k], data[k + 1], data[k + 2]];
            count += data[k + 3] > 100 && Math.max(...rgb) - Math.min(...rgb) > 60; } return count; })()"""
    assert browser.run(coloured) > 500
    for number in range(6):
        browser.run(f"document.querySelectorAll('#series-flows input')[{number}].click()")
    assert browser.run(coloured) == 0
    browser.run("document.querySelectorAll('#series-flows input')[2].click()")
    assert browser.run(coloured) > 500


def test_the_run_of_a_row_is_shown(browser, report):
    browser.open(report)
    browser.run("document.querySelector('a[data-series=\"cubic-limit340-seed2\"]').click()")
    assert browser.run("['row', 'seed'].map((one) => document.getElementById('series-' + one).value)") == [
        "cubic limit=340", "2"]


def test_print_has_the_static_figures(browser, report):
    browser.open(report, dark=True)
    browser.media("print", dark=True)
    shown = "getComputedStyle(document.querySelector('{}')).display"
    assert browser.run(shown.format("#series")) == "none" and browser.run(shown.format("figure img")) == "block"
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


# -- the page of all experiments --------------------------------------------------------------------

@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Three experiments without reports of their own, one of them unfinished, and folders that are damaged."""
    results = tmp_path_factory.mktemp("results")
    short = dict.fromkeys(["reno", "cubic", "bbr"], fixture.Shape(test_s=1, tcp_info_rows=40))
    for name, ccas in (("one", ["reno", "cubic"]), ("two", ["bbr"]), ("un finished", ["reno"])):
        fixture.write_experiment(results / name, ccas=ccas, seeds=[1], shapes=short)
    shutil.rmtree((results / "un finished/runs/reno-seed1").resolve())
    for name, text in (("broken", "[]"), ("odd", '{"schema": 2, "runs": [{"id": 3}]}'), ("deep", "[" * 100_000),
                       ("<b>&amp;", "{}"), ("old", '{"schema": 1}')):
        (results / name).mkdir()
        (results / name / "experiment.json").write_text(text)
    (results / "folder" / "experiment.json").mkdir(parents=True)
    for name in ("one", "two"):
        (results / name / "report" / "figures").mkdir(parents=True)
        (results / name / "report" / "index.html").write_text(name)
        (results / name / "report" / "figures" / "throughput.svg").write_text(
            '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100"/>')
    return results


def shown(browser):
    return sorted(browser.run("[...document.querySelectorAll('.card:not([hidden])')].map((one) => one.dataset.name)"))


@pytest.mark.parametrize("width", [1280, 400])
def test_all_experiments_are_listed_and_searched(browser, results, tmp_path, width):
    output = tmp_path / "elsewhere"
    page = _overview.build(results, {}, output)
    assert page == output / "index.html"
    browser.open(page, width)
    assert browser.said == [] and browser.run("document.documentElement.scrollWidth") <= width
    everything = ["<b>&amp;", "broken", "deep", "folder", "odd", "old", "one", "two", "un finished"]
    assert shown(browser) == everything
    for link in browser.run("[...document.querySelectorAll('.card a')].map((one) => one.href)"):
        assert Path(unquote(urlsplit(link).path)).is_file(), link
    assert browser.run("[...document.images].every((one) => one.alt)")
    card = browser.run("document.querySelector('[data-name=\"un finished\"]').textContent")
    assert "1 missing" in card and "Not finished" in card and "No report yet" in card

    def choose(key, value):
        browser.run(f"""(() => {{ const one = document.querySelector("{key}"); one.value = "{value}";
            one.dispatchEvent(new Event("input", {{bubbles: true}})); }})()""")
        return shown(browser)
    assert choose("[data-key=subjects]", "bbr") == ["two"]
    assert choose("[data-key=subjects]", "") == everything
    assert choose("[data-key=states]", "missing") == ["un finished"]
    assert choose("[data-key=states]", "damaged") == ["<b>&amp;", "broken", "deep", "folder", "odd", "old"]
    assert choose("[data-key=states]", "valid") == ["one", "two"]
    assert choose("#search", "cubic ONE") == ["one"]
    assert browser.run("document.getElementById('count').textContent") == "1 of 9 shown"


def test_the_command(results, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("TESTBED_RESULTS", str(results))
    assert cli.main(["report", "--output", str(tmp_path / "public")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'public' / 'index.html'}\n"
    (tmp_path / "file").write_text("")
    assert cli.main(["report", "--output", str(tmp_path / "file")]) != 0
    assert f"{tmp_path / 'file'}" in capsys.readouterr().err
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "nowhere"))
    assert cli.main(["report"]) == 2 and "no results folder" in capsys.readouterr().err
