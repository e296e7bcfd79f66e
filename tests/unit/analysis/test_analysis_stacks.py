# SPDX-License-Identifier: GPL-2.0-only
"""QUIC stacks beside the kernel: what is made of the rates of two flows, and of runs that are not there."""
from types import SimpleNamespace

import pytest

from analysis.compare import stacks_figure
from analysis.compare.stacks import PARTS, QUANTITIES, Stacks
from analysis.pages import Head, stacks_report
from analysis.read.parts import Runs
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results
from testbed.core.quic_sender import QuicSender


class FakeResults:
    """Results of rows by their labels: {metric, scope: values}."""

    def __init__(self, **values):
        self._values = values

    def keyed(self, row, metric, scope):
        return dict(enumerate(self._values.get(f"{row}_{metric}_{scope}", [])))

    def sample(self, row, metric, scope):
        return list(self.keyed(row, metric, scope).values())


RESULTS = FakeResults(
    kernel_arrived_rate_l2_flow_1=[10, 9, 11, 10, 10], kernel_arrived_rate_l2_flow_2=[10, 11, 9, 10, 10],
    quic_arrived_rate_l2_flow_1=[15, 15, 15, 14, 16], quic_arrived_rate_l2_flow_2=[5, 5, 5, 6, 4],
    kernel_queueing_delay_mean_right_to_left=[20, 21, 19, 20, 22],
    quic_queueing_delay_mean_right_to_left=[40, 41, 39, 40, 42])


@pytest.fixture
def found(monkeypatch):
    rows = {QuicSender("kernel", "cubic"): (RESULTS, "kernel"), QuicSender("quinn", "cubic"): (RESULTS, "quic")}
    stacks = Stacks({})
    monkeypatch.setattr(Stacks, "_rows", lambda self, pattern: {
        sender: row for sender, row in rows.items() if pattern != "beside" or sender.stack != "kernel"})
    return stacks


def quantity(pattern, name):
    return next(one for one in QUANTITIES if (one.pattern, one.name) == (pattern, name))


def test_harm_is_what_cubic_loses_of_its_rate_beside_itself(found):
    assert found.values(QuicSender("quinn", "cubic"), quantity("beside", "harm")) == pytest.approx([50, 50, 50, 40, 60])
    # CUBIC beside CUBIC is a pair of the kernel
    assert found.values(QuicSender("kernel", "cubic"), quantity("beside", "harm")) == pytest.approx([0, -10, 10, 0, 0])


def test_jains_index_is_of_the_two(found):
    assert found.values(QuicSender("quinn", "cubic"), quantity("pair", "jain"))[0] == pytest.approx(400 / (2 * 250))


def test_a_distance_is_from_the_kernels_control_of_the_same_name(found):
    delay, = [one for one in found.distances if (one.quantity.pattern, one.quantity.name) == ("alone", "delay")]
    assert delay.sender == QuicSender("quinn", "cubic") and delay.compared.ratio
    assert delay.compared.difference == pytest.approx(1.98, abs=0.02) and delay.decision.different


def test_the_kernel_comes_first(found):
    assert found.senders == [QuicSender("kernel", "cubic"), QuicSender("quinn", "cubic")]


def test_a_figure_of_one_pattern_alone_has_one_panel(found, monkeypatch, tmp_path):
    monkeypatch.setattr(Stacks, "_rows", lambda self, pattern: {
        QuicSender("quinn", "cubic"): (RESULTS, "quic")} if pattern == "alone" else {})
    assert stacks_figure.draw(found, tmp_path) == "stacks"
    assert (tmp_path / "stacks.svg").exists()


def test_two_flows_without_a_packet_have_no_index(found):
    assert not list(found._of_rates("jain", 0.0, 0.0))


def test_a_page_of_nothing_says_what_was_not_run(tmp_path):
    page, said = stacks_report.write({name: Runs(None, (), "not run") for names in PARTS.values() for name in names},
                                     tmp_path / "suite-quic", Head("QUIC", "", ["bin/testbed"], True))
    text = page.read_text()
    assert text.count("not run") == 6 and said[0].startswith("0 runs")
    assert (tmp_path / "suite-quic/tables/stacks.csv").read_text().startswith("stack,control,pattern")


def test_a_sender_with_two_rows_is_refused():
    """As of a sweep over something else: the page has one point of each."""
    results = Results.__new__(Results)
    axes = [SimpleNamespace(key="traffic.quic.stack"), SimpleNamespace(key="buffer")]
    rows = [SimpleNamespace(point=("quinn:cubic", buffer), subject="cubic") for buffer in ("1", "2")]
    results.__dict__["experiment"] = SimpleNamespace(axes=axes, rows=rows)
    found = Stacks({})
    found.__dict__["_results"] = {"stacks-alone": results}
    with pytest.raises(AnalysisError, match="stacks-alone: quinn:cubic has two rows"):
        found._rows("alone")
    rows.pop()
    assert [str(one) for one in found._rows("alone")] == ["quinn:cubic"]
