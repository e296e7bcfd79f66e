# SPDX-License-Identifier: GPL-2.0-only
"""The page of connection vectors: distributions and load by hand, and what is drawn."""
import numpy as np
import pandas as pd
import pytest

from analysis.pages import vectors
from analysis.read.runs import AnalysisError
from traffic.tmix.batch import from_vectors
from traffic.tmix.load import pieces
from traffic.tmix.vectors import SEQ, Adu, Vector


def trace(count, every_us=100_000):
    """A request of 100 and a response of 1000 bytes (once 100 kB), every 100 ms; round-trip time 10 ms."""
    return from_vectors(Vector(n * every_us, SEQ, (1, n), (Adu(0, 0, 100), Adu(1, 5000, 100_000 if n == 3 else 1000)),
                               min_rtt_us=10_000) for n in range(count))


def test_share_above():
    x, share = vectors.ccdf(np.array([5, 1, 0, 3, 3]))
    assert (x.tolist(), share.tolist()) == ([1, 3, 3], [0.75, 0.5, 0.25])
    x, share = vectors.ccdf(np.arange(1, 100_001))
    assert len(x) <= 300 and (x[0], share[0]) == (1, 0.99999) and (x[-1], share[-1]) == (99_999, 1e-5)
    # the share of 1..100000 above x is 1 - x / 100000
    assert share == pytest.approx(1 - x / 1e5) and (np.diff(x) > 0).all()
    for few in ([], [7.0], [0.0]):
        x, share = vectors.ccdf(np.array(few))
        assert len(x) == len(share) == 0


def test_every_byte_is_in_a_bin():
    batch = trace(50).with_explicit_fins()
    wire = pieces(batch, batch.min_rtt_us, 1e6)
    rates = vectors.load_over_time(wire, batch.start_us, 1, 0, 100e6)
    assert len(rates) == 10_000
    assert rates.sum() * vectors.BIN_S / 8 == pytest.approx(wire.wire_bytes[1].sum())
    # the response of 100 kB proceeds at 1 Mbit/s, which its ACKs do not see
    assert rates.max() >= 1e6 and rates.min() == 0
    half = vectors.load_over_time(wire, batch.start_us, 1, 2.5e6, 100e6)
    assert half == pytest.approx(rates[250:], abs=1)


def test_a_trace_is_described():
    one = vectors.describe("mine", trace(2000), 1e6)
    assert one.marginals["median_bytes"] == 1100 and one.marginals["largest_bytes"] == 100_100
    assert (one.adus == 2).all() and one.gaps_s == pytest.approx(0.1) and len(one.gaps_s) == 1999
    assert [sizes.sum() for sizes in one.adu_bytes] == [200_000, 1999 * 1000 + 100_000]
    # 1000 bytes in a packet of 1066, ACKs of request and FINs, 10 times a second
    assert one.load_bps == pytest.approx(8 * 10 * (1066 + 66 + 74 + 2 * 66), rel=0.01)
    # the same every 100 ms: nothing is left to chance at longer intervals
    assert one.octaves[5].variance < 0.1 * one.octaves[0].variance
    with pytest.raises(AnalysisError, match="mine: no connections"):
        vectors.describe("mine", from_vectors([]), 1e6)
    with pytest.raises(AnalysisError, match="too long to be drawn"):
        vectors.describe("mine", trace(3, every_us=10**12), 1e6)


def test_a_page(tmp_path):
    described = [vectors.describe(name, trace(count), 1e6) for name, count in (("<one>", 2000), ("two", 1))]
    page = vectors.write(described, 1e6, tmp_path / "new" / "page", "bin/testbed tmix plot")
    assert {path.name for path in page.parent.iterdir()} == {
        "index.html", "marginals.csv", "vectors.csv", "vectors.gp", "vectors.svg", "vectors.png", "vectors.pdf"}
    text = page.read_text()
    assert "<one>" not in text and "&lt;one&gt;" in text and "1 Mbit/s" in text
    table = pd.read_csv(page.parent / "marginals.csv")
    assert table["connections"].tolist() == [2000, 1] and np.isnan(table["hurst"][1])
    drawn = pd.read_csv(page.parent / "vectors.csv")
    assert drawn["<one> ADUs x"].dropna().unique().tolist() == [2]
    with pytest.raises(AnalysisError, match="is no page of connection vectors"):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "file").touch()
        vectors.write(described, 1e6, tmp_path / "other", "")


def test_a_single_connection_can_be_drawn(tmp_path):
    """There is no time between starts, no share above, and no load over time."""
    one = vectors.describe("one", trace(1), 1e6)
    assert one.octaves == [] and one.hurst is None and len(one.gaps_s) == 0
    vectors.write([one], 1e6, tmp_path / "page", "")
    assert (tmp_path / "page" / "vectors.svg").stat().st_size > 1000
