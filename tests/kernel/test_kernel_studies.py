# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios of published studies, shortened: what each of them is about happens, and the counts agree."""
import pytest
import yaml

from analysis.metrics import compute_metrics
from analysis.read.runs import Run
from testbed import PROJECT_DIR


def shortened(name, **changes):
    """A scenario without its sweep; changes: {section: fields}."""
    tree = yaml.safe_load((PROJECT_DIR / "scenarios" / f"{name}.yaml").read_text())
    for section in ("sweep", "quick"):
        tree.pop(section, None)
    for section, fields in changes.items():
        tree[section].update(fields)
    return tree


def found(run):
    """{(metric, scope): value} of a valid run."""
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    metrics, errors = compute_metrics(Run(run.folder))
    assert not errors, errors[0]["traceback"]
    return {(metric.metric, metric.scope): metric.value for metric in metrics}


def test_a_pair_against_more_than_the_link_carries(run_scenario):
    """Each host has its variant; what the two flows and the UDP flow lost is what the crossbar dropped."""
    tree = shortened("h-shape-2", timing={"warmup": "0 s", "test": "5 s"})
    tree["traffic"][1]["rate"] = "9 Mbit/s"
    run = run_scenario(tree, "newreno+vegas")
    values = found(run)
    flows = run.json("raw/workload.json")["flows"]
    assert [(flow["sender"], flow["cca"]) for flow in flows] == [("n1", "reno"), ("n5", "vegas"), ("n7", None)]
    links = run.json("raw/counters.json")["drained"]
    lost = [values["flow_loss", f"flow_{number}"] / 100 * links[f"{flow['sender']}_to_n2"]["sent_packets"]
            for number, flow in enumerate(flows[:2], start=1)]
    udp, = run.json("raw/guest.json")["traffic"]["cross"]["flows"]
    assert lost[0] > 0 and udp["lost_packets"] > 0
    assert sum(lost) + udp["lost_packets"] == pytest.approx(links["left_to_right"]["dropped_packets"])


def test_red_drops_before_the_buffer_is_full(run_scenario):
    tree = shortened("h-shape-3", timing={"warmup": "2 s", "test": "3 s"})
    tree["choices"]["queue"]["default"] = "red"
    values = found(run_scenario(tree, "sack"))
    assert values["drop_rate", "left_to_right"] > 0
    assert values["queue_length_max", "left_to_right"] < 50 and values["drop_rate_max_250ms", "left_to_right"] > \
        values["drop_rate", "left_to_right"]
    assert values["throughput_cov_250ms", "flow_1"] > 0


def test_the_queue_of_a_last_hop_fills_and_runs_empty(run_scenario):
    tree = shortened("libra-hybrid", timing={"test": "10 s"}, traffic={"stop": "4 s"})
    run = run_scenario(tree, "libra")
    found(run)
    queue = run.table("queue").query("link == 'r2_to_n3'")
    assert queue["backlog_packets"].iloc[0] == queue["backlog_packets"].iloc[-1] == 0
    assert queue["backlog_packets"].max() >= 5
