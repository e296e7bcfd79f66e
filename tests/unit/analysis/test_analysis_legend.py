# SPDX-License-Identifier: GPL-2.0-only
"""Legends above figures of several panels have room for all their lines."""

import re
import subprocess

import pytest

from analysis.drawing import legend

PAIRS = ["reno-classic", "newreno+reno-classic", "vegas", "newreno+vegas"]


@pytest.mark.parametrize("labels, lines", [
    (["cubic"], 1),
    (["cubic", "reno", "vegas", "westwood", "highspeed", "bbr"], 1),
    (["cubic", "reno", "vegas", "westwood", "highspeed", "bbr", "illinois"], 2),
    (PAIRS, 2),
    (["x" * 200, "y"], 2)])
def test_lines(labels: list[str], lines: int) -> None:
    assert legend.lines(labels) == lines


@pytest.mark.parametrize("labels", [["cubic", "reno"], PAIRS, [f"cubic{number}" for number in range(40)]])
def test_all_lines_are_inside_the_figure(labels: list[str]) -> None:
    height = 500 + legend.more_px(labels)
    found = re.search(r"screen ([\d.]+), screen ([\d.]+) ", legend.above(labels, 0.07, height))
    assert found is not None
    above_px = height * (1 - float(found[2]))
    assert above_px == pytest.approx(legend.LINE_PX * legend.lines(labels) + legend.ABOVE_PX, abs=0.1)
    # panels begin where they did below a legend of one line
    assert above_px - legend.more_px(labels) == pytest.approx(26, abs=0.1)


def test_a_line_is_as_wide_as_the_figure_and_not_as_its_first_panel() -> None:
    labels = ["newreno", "cubic", "libra", "bic"]
    script = ["set terminal svg size 1000,500", "set multiplot", "set size 0.3,0.8", legend.above(labels, 0.07, 500),
              "plot " + ", ".join(f"{number} title '{label}'" for number, label in enumerate(labels))]
    drawn = subprocess.run(["gnuplot"], input="\n".join(script), capture_output=True, text=True, check=True).stdout
    heights = re.findall(r'<g transform="translate\([\d.]+,([\d.]+)\)"[^>]*>\s*<text>(?:<tspan[^>]*>)?\s*(?:'
                         + "|".join(labels) + ")<", drawn)
    assert len(heights) == 4 and len(set(heights)) == 1
