# SPDX-License-Identifier: GPL-2.0-only
"""Delay against throughput and drops through the buffers of a sweep."""
import pandas as pd
import pytest

from analysis.figures import delay_throughput
from analysis.read.experiment import Experiment
from tests.unit.analysis import fixture
from tests.unit.analysis.fixture import Shape

KEY = "topology.central.queue.limit"
#: queueing delays of two buffers, us
SHAPES = {("reno", "83"): Shape(sojourn_us=(5_000, 100), packets=(40, 10)),
          ("reno", "833"): Shape(sojourn_us=(40_000, 100), packets=(50, 10)), "cubic": Shape(noise=0.01)}


def drawn(tmp_path, points, seeds=(1, 2)):
    """(figures, the data of the figure) of a sweep with these points."""
    path = fixture.write_experiment(tmp_path / "exp", seeds=seeds, points=points, shapes=SHAPES)
    figures = delay_throughput.draw(Experiment(path), tmp_path / "figures")
    file = tmp_path / "figures" / "delay_throughput.csv"
    return figures, pd.read_csv(file) if file.exists() else None


def test_a_curve_through_the_buffers(tmp_path):
    (figure,), data = drawn(tmp_path, [{KEY: "83"}, {KEY: "833"}])
    assert data["0 reno limit"].tolist() == [83, 833]
    assert data["0 reno delay mean"].tolist() == pytest.approx([5, 40])
    # 40 and 50 packets of 1500 bytes each 10 ms
    assert data["0 reno throughput mean"].tolist() == pytest.approx([48, 60])
    assert data["0 reno drops mean"].tolist() == pytest.approx([100 * 0.1 / 40.1, 100 * 0.1 / 50.1], rel=1e-3)
    assert data["0 cubic delay ci95_low"].notna().all() and "95 % confidence" in figure.caption


def test_of_one_seed_nothing_is_known_of_the_spread(tmp_path):
    (figure,), data = drawn(tmp_path, [{KEY: "83"}, {KEY: "833"}], seeds=(1,))
    assert data["0 reno delay ci95_low"].isna().all() and "one seed each" in figure.caption


def test_panels_for_what_else_varies(tmp_path):
    _, data = drawn(tmp_path, [{KEY: limit, "load": load} for limit in ("83", "833") for load in ("60", "85")], (1,))
    assert {column.split()[0] for column in data} == {"0", "1"}


@pytest.mark.parametrize("points", [None, [{KEY: "83"}], [{"load": "60"}, {"load": "85"}],
                                    [{"topology.central.queue.kind": "red"}, {"topology.central.queue.kind": "pfifo"}]])
def test_no_buffers_no_figure(tmp_path, points):
    assert drawn(tmp_path, points, (1,)) == ([], None)
