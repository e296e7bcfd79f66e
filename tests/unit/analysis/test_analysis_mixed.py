# SPDX-License-Identifier: GPL-2.0-only
"""Several components in one run, several congestion controls among connections, UDP flows."""

import json

import pytest

from analysis.pages import columns, report_network
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from analysis.read.tables import Results
from tests.unit.analysis import fixture
from topologies.links.records import Link

DOWN, UP = "right_to_left", "left_to_right"


def sources(*variants):
    """The fixture's Tmix sources, taking turns with these."""
    return [{**flow, "variant": variants[place % len(variants)]}
            for place, flow in enumerate(fixture._sources("reno", fixture.Shape()))]


def udp(number, **changes):
    return {**fixture.flow(number, None, ""), "component": "cbr", "kind": "cbr", "transport": "udp", "variant": None,
            "cca": None, "rate_bps": 2_000_000, "start_us": 2_000_000, "stop_us": 10_000_000, **changes}


def account(path, *flows):
    """Let a component account for UDP flows."""
    guest = json.loads((path / "raw" / "guest.json").read_text())
    guest["traffic"] = {"tmix": {"connections": 7}, "cbr": {"flows": list(flows)}}
    fixture.write_json(path / "raw" / "guest.json", guest)
    fixture.seal(path)


def test_connections_of_two_variants(tmp_path, values):
    """Source k has the connections k, k + 9, ...: sources 0, 2, 4, 6, 8 against 1, 3, 5, 7."""
    found = values(fixture.write_run(tmp_path / "reno+bic-seed1", flows=sources("reno", "bic")))
    completed = {name: found["flows_completed", f"cca_{name}"] for name in ("reno", "bic")}
    assert sum(completed.values()) == found["flows_completed", "all"]
    assert completed["reno"] / completed["bic"] == pytest.approx(5 / 4, rel=0.05)
    assert found["goodput", "cca_reno"] + found["goodput", "cca_bic"] == pytest.approx(
        found["goodput", UP] + found["goodput", DOWN])
    assert found["flow_completion_time_p50", "cca_bic"] > 0.05


def test_shares_of_a_source_are_told_apart_by_their_port(tmp_path, values, change):
    shares = [{**flow, "variant": variant, "dport": flow["dport"] + step, "flow": 2 * place + 1 + bool(step)}
              for place, flow in enumerate(sources("x")) for variant, step in (("reno", 0), ("bic", 1000))]
    path = fixture.write_run(tmp_path / "reno+bic-seed1", flows=shares)
    change(path, "connections", lambda table: table.assign(aport=table["aport"] + 1000 * (table["conn"] % 4 == 0)))
    found = values(path)
    assert found["flows_completed", "cca_reno"] / found["flows_completed", "cca_bic"] == pytest.approx(3, rel=0.2)


def test_equal_variants_are_not_compared(run_dir, values):
    assert not [scope for _, scope in values(run_dir) if scope.startswith("cca_")]


def test_long_flows_beside_sources(tmp_path, values, change):
    """Two of the ten sockets are flows of their own; the others belong to the sources."""
    path = fixture.write_run(tmp_path / "reno-seed1")
    workload = json.loads((path / "raw" / "workload.json").read_text())
    workload["components"].append({"name": "greedy", "kind": "greedy"})
    workload["flows"] += [{**fixture.flow(10 + k, 10_000, "bic"), "dport": 20_000 + k} for k in range(2)]
    fixture.write_json(path / "raw" / "workload.json", workload)
    fixture.seal(path)
    found = values(path)
    assert {scope for name, scope in found if name == "mean_cwnd_l4"} == {"flow_10", "flow_11"}
    alone = values(fixture.write_run(tmp_path / "other-seed1"))
    assert found["goodput", DOWN] == pytest.approx(alone["goodput", DOWN] + 2, rel=1e-4)
    assert found["retransmission_share", DOWN] == pytest.approx(2, rel=1e-4)
    # the greedy component does not say what it offers
    assert ("carried_over_offered", DOWN) in alone and ("carried_over_offered", DOWN) not in found
    assert found["offered_load", DOWN] == 64


def test_loads_of_components_add_up(run_dir, values):
    workload = json.loads((run_dir / "raw" / "workload.json").read_text())
    workload["components"].append({"name": "more", "kind": "tmix", "offered_bps": {DOWN: 6_000_000},
                                   "target_links": [UP]})
    fixture.write_json(run_dir / "raw" / "workload.json", workload)
    fixture.seal(run_dir)
    found = values(run_dir)
    assert found["offered_load", DOWN] == 70 and found["carried_over_offered", DOWN] == pytest.approx(100 * 60 / 70)
    assert Run(run_dir).targets == [DOWN, UP]


@pytest.mark.parametrize("part, offered", [((0, 0.5), 67), ((0.25, 0.75), 67), ((-0.5, 0.5), 67), ((0.5, 2), 67),
                                           ((-1, 0), 64), ((1, 2), 64), ((-1, 2), 70)])
def test_load_of_a_component_that_is_there_for_a_part_of_the_interval(run_dir, values, part, offered):
    """6 Mbit/s for half of the measurement interval is 3 Mbit/s of it, for none of it 0."""
    start_us, end_us = Run(run_dir).interval
    length_us = end_us - start_us
    workload = json.loads((run_dir / "raw" / "workload.json").read_text())
    workload["components"].append({
        "name": "burst", "kind": "tmix", "offered_bps": {DOWN: 6_000_000}, "target_links": [DOWN],
        "thirds_bps": {DOWN: [6e6, 6e6, 6e6]}, "measured_us": [start_us + int(share * length_us) for share in part]})
    fixture.write_json(run_dir / "raw" / "workload.json", workload)
    fixture.seal(run_dir)
    found = values(run_dir)
    assert found["offered_load", DOWN] == offered
    assert found["carried_over_offered", DOWN] == pytest.approx(100 * 60 / offered)
    # thirds of a part of the interval are not those of the others
    assert (("offered_load_thirds_difference", DOWN) in found) == (part == (-1, 2))


def test_udp_flows(tmp_path, values):
    path = fixture.write_run(tmp_path / "reno-seed1", flows=[*sources("reno"), udp(10), udp(11, stop_us=12_000_000)])
    counts = {"sent_packets": 1000, "received_packets": 900, "received_bytes": 1_000_000, "lost_packets": 100}
    account(path, {"flow": 10, **counts, "delay_mean_us": 1234.5, "delay_p99_us": 9000},
            {"flow": 11, **counts}, {"flow": 99, **counts})
    found = values(path)
    assert found["udp_received_rate", "flow_10"] == 1 and found["udp_received_rate", "flow_11"] == pytest.approx(0.8)
    assert found["udp_one_way_delay_mean", "flow_10"] == 1.2345 and found["udp_one_way_delay_p99", "flow_10"] == 9
    assert ("udp_one_way_delay_p50", "flow_10") not in found and ("udp_one_way_delay_mean", "flow_11") not in found
    assert found["udp_loss", "flow_10"] == 10 and ("udp_loss", "flow_99") not in found
    # no congestion window, no listed TCP flow
    assert not [scope for name, scope in found if name == "mean_throughput_l4"]


@pytest.mark.parametrize("spoil", [lambda path: (path / "raw" / "guest.json").unlink(),
                                   lambda path: fixture.write_json(path / "raw" / "guest.json", {})])
def test_udp_flows_without_an_account(tmp_path, values, spoil):
    path = fixture.write_run(tmp_path / "reno-seed1", flows=[*sources("reno"), udp(10)])
    spoil(path)
    fixture.seal(path)
    assert ("udp_loss", "flow_10") not in values(path)


def test_the_report_shows_what_was_built_and_run(tmp_path):
    path = fixture.write_experiment(tmp_path / "e", ["reno"], [1], flows=[*sources("reno", "bic"), udp(10)])
    experiment = Experiment(path)
    account(experiment.runs[0].path, {"flow": 10, "sent_packets": 10, "lost_packets": 1, "received_bytes": 1_000_000})
    experiment = Experiment(path)
    titles = [table.title for table in columns.tables(Results(experiment)).flows]
    assert titles == ["Congestion controls side by side, connections", "UDP flows"]
    links, paths, flows = report_network.tables(experiment)
    assert links.rows[0] == ["right_to_left", "r2 to r1", "yes", "100 Mbit/s", "2 ms", "pfifo", "850",
                             "1\u202f286\u202f900",
                             "103 ms"]
    assert paths.rows[0] == ["n1 \u2013 n4", "8 ms", "left_to_right"] and len(paths.rows) == 9
    assert flows.columns == ["flow", "component", "sender", "receiver", "congestion control", "start", "stop",
                             "amount or rate",
                             "base RTT", "connections"]
    assert flows.rows[1] == ["2", "tmix", "n1", "n5", "bic", "0 s", "end", "", "8 ms", "26"]
    assert flows.rows[-1] == ["10", "cbr", "n4", "n1", "UDP", "2 s", "10 s", "2 Mbit/s", "8 ms", ""]


@pytest.mark.parametrize("link, shown", [
    ({"limit_packets": 85, "limit_bytes": None, "rate_bps": 10_000_000}, ("85", "128\u202f690", "103 ms")),
    ({"limit_packets": None, "limit_bytes": 30_280, "rate_bps": 10_000_000, "capacity_packets": 20},
     ("20", "30\u202f280", "24.22 ms")),
    ({"rate_bps": 64_000}, ("", "", "")),
    ({"limit_packets": 6, "capacity_bytes": 9084, "capacity_us": 1_135_500, "rate_bps": 64_000},
     ("6", "9\u202f084", "1136 ms"))])
def test_a_limit_in_packets_bytes_and_time(link, shown):
    assert report_network._queue(Link(link))[1:] == shown
