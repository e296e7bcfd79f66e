# SPDX-License-Identifier: GPL-2.0-only
"""The report's tables of single flows and of what the congestion controls were."""
import json
import types

import pandas as pd
import pytest

from analysis.compare.rows import Comparisons
from analysis.figures import draw_all
from analysis.pages import columns, report_controls, report_tables
from analysis.pages.report import build_report
from analysis.read.experiment import Experiment
from analysis.read.tables import Results
from tests.unit.analysis import fixture
from traffic.workload.records import Flow


def listed(number, port, rtt_us, variant="reno"):
    """The flow of fixture socket `port`."""
    return fixture.flow(number, port, variant, base_rtt_us=rtt_us)


@pytest.fixture
def experiment(tmp_path):
    """Two congestion controls, two seeds that are one run, two listed flows of 20 and 200 ms."""
    return fixture.write_experiment(tmp_path / "demo", ccas=["reno", "libra"], seeds=[1, 2], tmix=False,
                                    flows=[listed(1, 10_000, 20_000), listed(2, 10_001, 200_000)])


def change(path, name, edit):
    """Rewrite a JSON file of every run of an experiment."""
    for run in sorted((path / "runs").iterdir()):
        content = json.loads((run / name).read_text()) if (run / name).exists() else {}
        edit(run.name, content)
        fixture.write_json(run / name, content)
        fixture.seal(run)


def tables(path):
    results = Results(Experiment(path))
    found = columns.tables(results)
    return report_tables.shown(results, Comparisons(results, found.all()), found.flows)


def test_each_flow_and_their_ratio(experiment):
    table, = tables(experiment)
    assert table.columns == [("flow 1, 20 ms", "Mbit/s"), ("flow 2, 200 ms", "Mbit/s"),
                             ("ratio 20 ms : 200 ms, geometric mean", "")]
    assert [(row.name, row.n) for row in table.rows] == [("reno", "1"), ("libra", "1")]
    assert [float(cell.mean) for cell in table.rows[0].cells] == pytest.approx([1, 1, 1], rel=1e-3)
    html = build_report(experiment).path.read_text()
    assert "Throughput of long flows" in html and "ratio 20 ms : 200 ms" in html


def test_many_flows_have_no_column_each(experiment):
    def more(_name, workload):
        workload["flows"] = [listed(1 + i, 10_000 + i, 20_000 if i % 2 else 200_000) for i in range(10)]
    change(experiment, "raw/workload.json", more)
    table, = tables(experiment)
    assert table.columns == [("ratio 20 ms : 200 ms, geometric mean", "")]


def test_no_flows_no_table(tmp_path):
    assert tables(fixture.write_experiment(tmp_path / "demo", ccas=["reno"], seeds=[1])) == []


def test_congestion_controls_of_one_run_side_by_side(experiment):
    change(experiment, "raw/workload.json", lambda _name, workload: workload["flows"][1].update(variant="bic"))
    both = tables(experiment)[1]
    assert both.title.startswith("Congestion controls side by side")
    assert {label for label, _ in both.columns} == {"reno", "bic"}
    drawn = [f for f in draw_all(Experiment(experiment), experiment / "figures")[0] if f.name == "flows_throughput"]
    script = (experiment / "figures" / "flows_throughput.gp").read_text()
    assert drawn and "flow 2, bic, 200 ms" in script


def test_variants_of_the_same_kernel_name_are_told_apart(experiment):
    def variants(_name, workload):
        for flow, variant in zip(workload["flows"], ("newreno", "sack")):
            flow.update(variant=variant, cca="reno")
    change(experiment, "raw/workload.json", variants)
    both = tables(experiment)[1]
    assert [label for label, _ in both.columns] == ["newreno", "sack"]


def test_throughput_of_a_steady_flow_is_drawn_as_such(experiment):
    draw_all(Experiment(experiment), experiment / "figures")
    data = pd.read_csv(experiment / "figures" / "flows_throughput.csv")
    late = data[data["reno 1 time_s"] > 2]["reno 1 throughput_mbps"]
    assert late.min() == pytest.approx(1, rel=0.02) and late.max() == pytest.approx(1, rel=0.02)


VARIANT = {"name": "libra-fast", "kernel_cca": "libra", "title": "TCP Libra", "source": "Marfia et al.",
           "module": "/home/a/tcp_libra",
           "module_sha256": "0123456789abcdef", "sysctls": {"net.ipv4.tcp_sack": 0},
           "parameters": {"capacity": "{bottleneck_kbps}"}}


def test_what_the_congestion_controls_were(experiment):
    def add(name, scenario):
        reno = {**VARIANT, "name": "reno", "kernel_cca": "reno", "title": "", "source": "", "module_sha256": None,
                "sysctls": {}, "parameters": {}}
        scenario["variants"] = [VARIANT] if name.startswith("libra") else [reno]
    change(experiment, "plan.json", add)
    rows = report_controls.controls(Experiment(experiment))
    assert rows[0] == ("reno", "", "reno", "", "of the kernel")
    assert rows[1] == ("libra-fast", "TCP Libra. Marfia et al.", "libra",
                       "net.ipv4.tcp_sack=0 capacity={bottleneck_kbps}",
                       "out of tree, sources 0123456789ab")

    def read_back(_name, checks):
        checks["congestion_controls"] = {"parameters": {"tcp_libra": {"capacity": "100000", "k1": "2000"}}}
    change(experiment, "raw/checks.json", read_back)
    assert report_controls.controls(Experiment(experiment))[1].settings == "net.ipv4.tcp_sack=0 capacity=100000 k1=2000"
    assert "out of tree, sources 0123456789ab" in build_report(experiment).path.read_text()


@pytest.mark.parametrize("other, headings", [
    ("tcp", {"flow_1": "quic (flow 1)", "flow_2": "tcp (flow 2)"}),
    ("quic", {"flow_1": "quic (flow 1)", "flow_2": "flow 2"})])
def test_a_flow_is_called_as_its_component_where_that_is_so_in_all_rows(other, headings):
    def run(*components):
        return types.SimpleNamespace(flows=[
            Flow({"flow": number, "component": name, "transport": "program" if name == "quic" else "tcp"})
            for number, name in enumerate(components, start=1)])
    runs = {"one": [run("quic", "tcp")], "other": [run("quic", other)]}
    experiment = types.SimpleNamespace(rows=list(runs), usable=runs.get)
    assert columns._component_names(experiment) == headings
