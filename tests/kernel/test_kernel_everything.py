# SPDX-License-Identifier: GPL-2.0-only
"""Tmix, two long flows with different congestion controls, UDP and QUIC over RED with ECN on a link whose rate halves:
eight seconds of the scenario `everything`, twice."""
import pytest
import yaml

from testbed import PROJECT_DIR


@pytest.fixture(scope="module")
def runs(run_scenario):
    tree = yaml.safe_load((PROJECT_DIR / "scenarios/everything.yaml").read_text())
    del tree["quick"], tree["defaults"]
    tree["timing"] = {"prefill": "2 s", "warmup": "1 s", "test": "5 s"}
    tree["topology"]["central"]["right_to_left"]["schedule"][0]["at"] = "5 s"
    return run_scenario(tree), run_scenario(tree)


def test_every_packet_is_accounted_for(runs):
    verdict = runs[0].json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert any(check["check"] == "conservation" and check["message"].startswith("every packet accounted for on 14 link")
               for check in verdict["checks"])


def test_everybody_is_there(runs):
    run, _ = runs
    guest, workload = run.json("raw/guest.json"), run.json("raw/workload.json")
    assert [component["kind"] for component in workload["components"]] == ["tmix", "greedy", "greedy", "cbr", "program"]
    ccas = {flow["component"]: flow["cca"] for flow in workload["flows"] if flow["kind"] == "greedy"}
    assert ccas == {"tested": "cubic", "other": "reno"}
    assert (run.table("connections")["status"] == "finished").sum() > 20
    received = [size for account in guest["accounts"] for size in account.get("received_bytes", {}).values()]
    assert len(received) == 2 and min(received) > 300_000
    voice, = guest["traffic"]["voice"]["flows"]
    assert voice["received_packets"] > 0.6 * voice["sent_packets"] > 500
    drained = run.json("raw/counters.json")["drained"]
    # QUIC is all that n6 sends to n1 beside its share of Tmix
    assert drained["n6_to_r2"]["sent_bytes"] > 300_000
    assert drained["right_to_left"]["ce_marked_packets"] > 10


def test_the_rate_halves(runs):
    change, = runs[0].table("link_changes").to_dict("records")
    assert (change["t_us"], change["due_us"], change["link"], change["rate_bps"]) == (
        5_000_000, 5_000_000, "right_to_left", 10_000_000)
    sent = runs[0].table("queue").query("link == 'right_to_left'").set_index("t_us")["sent_bytes"]
    at = {second: sent[(sent.index - second * 1_000_000) >= -5].iloc[0] for second in (3, 5, 6, 8)}
    # more than it carries afterwards, and then all that there is room for
    assert at[5] - at[3] > 1.2 * 2 * 10e6 / 8
    assert 0.9 * 2 * 10e6 / 8 < at[8] - at[6] <= 2 * 10e6 / 8 + 2 * 1514


def test_the_same_bytes_twice(runs):
    first, second = (run.json("run.json")["raw_files_sha256"] for run in runs)
    assert first == second and len(first) > 10
