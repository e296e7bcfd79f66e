# SPDX-License-Identifier: GPL-2.0-only
"""Pages in Chromium: nothing on the console, nothing loaded from outside, tables that sort."""

import shutil

import pytest

import fixture
from analysis.report import build_report
from browser import Browser

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
    """The page of a sweep: two points, two congestion controls, two seeds."""
    path = fixture.write_experiment(
        tmp_path_factory.mktemp("pages") / "demo", seeds=[1, 2], points=[{LIMIT: "85"}, {LIMIT: "340"}],
        shapes={"reno": fixture.Shape(noise=0.2), "cubic": fixture.Shape(noise=0.2, packets=(60, 8))})
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
