# SPDX-License-Identifier: GPL-2.0-only
"""The text of figures is inside the picture: in SVG, PDF and PNG, and in figures for papers."""

import re
import struct
import zlib
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from analysis.drawing import gnuplot, room
from analysis.figures import draw_all
from analysis.pages import latex
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from tests.unit.analysis import fixture

NOISY = fixture.Shape(noise=0.2)


def pdf_texts(path):
    """(texts of a PDF by cairo, width and height in points); of letters beyond Latin-1 only how many there are."""
    content = path.read_bytes()
    streams = [unpacked(stream) for stream in re.findall(rb"stream\r?\n(.*?)endstream", content, re.S)]
    # newer cairo packs the size of the page into a stream, too
    wide, high = (float(one) for one in re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]",
                                                  b"".join([content, *streams])).groups())
    pages = [stream for stream in streams if b"BT" in stream]
    found = []
    for block in re.findall(rb"BT(.*?)ET", b"".join(pages), re.S):
        # a matrix, or a step from the last place, and the strings there
        for numbers, what, shown in re.findall(rb"((?:-?[\d.]+ )+)(Tm|Td)(.*?)(?=(?:-?[\d.]+ )+T[md]|$)", block, re.S):
            if what == b"Tm":
                a, b, c, d, x, y = map(float, numbers.split())
            else:
                across, up = map(float, numbers.split())
                x, y = x + across * a + up * c, y + across * b + up * d
            text = "".join(one.decode("latin-1").replace("\\", "") if one else "n" * (len(other) // 4) for one, other in
                           re.findall(rb"\((.*?)(?<!\\)\)|<([0-9a-f]+)>", shown))
            # the page is drawn upside down: y grows downwards
            found.append(room.box(text, x, y, max(abs(a), abs(b)), turned=-90 if b else 0))
    return found, wide, high


def unpacked(stream):
    try:
        return zlib.decompress(stream)
    except zlib.error:              # the data of a font, or a table
        return b""


def png_edges(path):
    """The pixels along the four edges of a PNG with 8 bits a channel."""
    content = path.read_bytes()
    wide, high, depth, kind = struct.unpack(">IIBB", content[16:26])
    assert depth == 8 and kind in (2, 6)
    channels, at, packed = {2: 3, 6: 4}[kind], 8, b""
    while at < len(content):
        length, name = struct.unpack(">I4s", content[at:at + 8])
        packed += content[at + 8:at + 8 + length] if name == b"IDAT" else b""
        at += 12 + length
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(high, 1 + wide * channels)
    rows, before = [], np.zeros((wide, channels), int)
    for line in raw:
        before = unfiltered(int(line[0]), line[1:].reshape(wide, channels).astype(int), before)
        rows.append(before)
    picture = np.array(rows)[:, :, :3]
    return np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])


def unfiltered(kind, line, above):
    """PNG 9.2: the bytes of a line."""
    if kind in (0, 2):
        return (line + (above if kind else 0)) % 256
    if kind == 1:
        return np.cumsum(line, axis=0) % 256
    found = np.zeros_like(line)
    left = corner = np.zeros(line.shape[1], int)
    for place, (one, up) in enumerate(zip(line, above)):
        if kind == 3:
            guess = (left + up) // 2
        else:
            distances = np.abs(np.array([up - corner, left - corner, left + up - 2 * corner]))
            guess = np.where((distances[0] <= distances[1]) & (distances[0] <= distances[2]), left,
                             np.where(distances[1] <= distances[2], up, corner))
        left, corner = (one + guess) % 256, up
        found[place] = left
    return found


def outside(texts, wide, high):
    """Those that leave the picture; a pixel is forgiven, as widths are about right."""
    return [one for one in texts if min(one.left, one.top) < -1 or one.right > wide + 1 or one.bottom > high + 1]


def check(folder, name):
    svg = (folder / f"{name}.svg").read_text()
    wide, high = (float(one) for one in re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
    texts = room.texts(svg)
    assert texts and outside(texts, wide, high) == [], name
    assert outside(*pdf_texts(folder / f"{name}.pdf")) == [], name
    script = (folder / f"{name}.gp").read_text()
    there = Counter(one.text for one in texts)
    for names in gnuplot._axis_names([line.strip() for line in script.splitlines()]).values():
        assert {text: count for text, count in names.items() if there[text] < count} == {}, name


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The figures of a sweep over buffers whose throughputs are nearly the same, of long flows, and of Tmix."""
    path, folders = tmp_path_factory.mktemp("text"), []
    points = [{"topology.central.queue.limit": str(limit)} for limit in (20, 50, 100)]
    shapes = {("cubic", str(limit)): fixture.Shape(noise=0.01, drop_every=100 * limit, sojourn_us=(limit * 1000, 100))
              for limit in (20, 50, 100)}
    for number, options in enumerate(({"points": points, "shapes": shapes, "seeds": [1, 2]}, {
            "tmix": False, "seeds": [1, 2]}, {"seeds": [1, 2, 3], "shapes": {"reno": NOISY, "cubic": NOISY}})):
        experiment = Experiment(fixture.write_experiment(path / f"e{number}", **options))
        folders.append(path / f"figures{number}")
        with gnuplot.for_papers(gnuplot.Paper(colours=("#112233",), labels={"cubic": "CUBIC it is"})):
            figures, errors = draw_all(experiment, folders[-1])
        assert figures and not errors, errors
    return folders


def test_text_is_inside_of_svg_and_pdf(drawn):
    names = [(folder, path.stem) for folder in drawn for path in sorted(folder.glob("*.gp"))]
    assert {"delay_throughput", "sweep", "throughput", "flows_cwnd", "drop_rate"} <= {name for _, name in names}
    for folder, name in names:
        check(folder, name)


def test_text_is_inside_of_figures_for_papers(drawn):
    names = [(folder / "paper", path.stem) for folder in drawn for path in sorted((folder / "paper").glob("*.gp"))]
    assert sum(name.endswith("-one") for _, name in names) > 5 and sum(name.endswith("-two") for _, name in names) > 10
    for folder, name in names:
        check(folder, name)


@pytest.mark.parametrize("name", ["delay_throughput", "paper/throughput-two"])
def test_nothing_reaches_the_edge_of_a_png(drawn, name):
    assert (png_edges(drawn[0] / f"{name}.png") == 255).all()


def test_a_picture_grows_until_its_text_has_room(tmp_path):
    """A name that gnuplot leaves out, as it has no room for it."""
    data = pd.DataFrame({"x": [1, 2], "y": [1.00001, 1.00002]})
    gnuplot.draw(tmp_path, "tight", data, [
        "set lmargin at screen 0.02; set rmargin at screen 1; set bmargin at screen 0.02",
        "set xlabel 'of x, jqy'", "set ylabel 'of y'", "plot 'tight.csv' using 'x':'y' with lines"])
    check(tmp_path, "tight")
    assert (png_edges(tmp_path / "tight.png") == 255).all()


def test_what_leaves_the_picture_is_found():
    texts = [room.box("text", -5, 100, 12), room.box("text", 90, 100, 12), room.box("gjq", 50, 200, 12)]
    assert outside(texts, 100, 200) == texts
    assert room.lacking(texts, 100, 200).left == 7 and room.lacking(texts, 100, 200).bottom > 2


def test_figures_for_papers_have_their_widths_colours_and_words(drawn):
    for column, inches in gnuplot.COLUMNS_IN.items():
        _, wide, _ = pdf_texts(drawn[2] / "paper" / f"sojourn-{column}.pdf")
        assert wide == pytest.approx(72 * inches, abs=1)
    script = (drawn[2] / "paper" / "sojourn-two.gp").read_text()
    assert "#112233" in script and "#0072B2" not in script and "'CUBIC it is'" in script and "'cubic'" not in script


def test_tables_for_latex(tmp_path):
    path = fixture.write_experiment(tmp_path / "demo", ccas=["reno", "a_b"], seeds=[1, 2])
    build_report(path, paper=gnuplot.Paper())
    text = (path / "report/tables/main.tex").read_text()
    rows = [line for line in text.splitlines() if " & " in line]
    assert len({line.count(" & ") for line in rows}) == 1 and len(rows) == 4 and r"a\_b" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    assert (path / "report/tables/results.tex").read_text().count(r"\begin{tabular}") > 2
    assert latex.escaped("5 % ± 1 & {x}") == r"5 \% $\pm$ 1 \& \{x\}"
