# SPDX-License-Identifier: GPL-2.0-only
"""Constant bit rate: sections and jobs."""
import copy
import dataclasses

import pytest

import traffic
from testbed.core.fields import FieldError
from tests.unit.traffic.traffic_setup import TIMING, variant
from traffic import cbr

CBR = {"kind": "cbr", "rate_bps": 2_000_000}


@pytest.mark.parametrize("field, changes, words", [
    ("rate", {"rate_bps": 0}, "at least"), ("rate", {"rate_bps": 10**12}, "every 100 ns to 11 days"),
    ("rate", {"rate": 5}, "a value with a unit"),
    ("packet", {"packet_bytes": 43}, "at least 44 B"), ("packet", {"packet_bytes": 1501}, "at most 1500 B"),
    ("paths", {"paths": ["n1->n2"]}, "no path"), ("flows", {"flows": 10_000, "paths": ["n3->n1"] * 6},
                                                  "60000 flows need as many ports; there are 58536")])
def test_refused_sections(network, field, changes, words):
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate([{**CBR, **changes}], network, TIMING)
    assert problem.value.field == field


def test_jobs(context, jobs):
    workload = traffic.prepare([{**CBR, "start_us": 1_000_000, "paths": ["n3->n1", "n1->n3"]}], [variant("cubic")],
                               context)
    flow, other = workload["flows"]
    assert (flow["transport"], flow["variant"], flow["cca"], flow["rate_bps"], flow["bytes"]) == ("udp", None, None,
                                                                                                  2_000_000, None)
    (n1, module, receiving), (n3, _, sending) = jobs(workload)
    assert (n1, n3, module) == ("n1", "n3", "traffic.datagrams.program")
    # 1014 bytes on the link every 4.056 ms are 2 Mbit/s
    assert sending["send"] == [{"flow": 1, "address": "10.0.2.1", "port": 7000, "payload_bytes": 972,
                                "start_us": 1_000_000,
                                "stop_us": 10_000_000, "gap_ns": 4_056_000}]
    assert receiving["receive"] == [{"flow": 1, "address": "10.0.2.1", "port": 7000, "payload_bytes": 972,
                                     "packets_per_s": pytest.approx(246.548, abs=0.001)}]
    queues_us = {link["name"]: link["capacity_us"] for link in context.network["links"]}
    assert receiving["drained_us"] == 10_000_000 + 1_000_000 + 4000 + sum(queues_us[name] for name in flow["hops"])


@pytest.mark.parametrize("word, codepoint", [("not_ect", None), ("ect0", 2), ("ect1", 1)])
def test_senders_are_told_the_codepoint(context, jobs, word, codepoint):
    workload = traffic.prepare([{**CBR, "ecn": word}], [variant("cubic")], context)
    orders = [order for _, _, job in jobs(workload) for order in job["send"]]
    assert [order.get("ecn") for order in orders] == [codepoint]


@pytest.mark.parametrize("limits, threads", [
    ({"limit_packets": 50_000, "limit_bytes": None}, 1), ({"limit_packets": 50_001, "limit_bytes": None}, 0),
    ({"limit_packets": None, "limit_bytes": 28 * 50_000}, 1), ({"limit_packets": None, "limit_bytes": 10**7}, 0),
    ({"limit_packets": None, "limit_bytes": None}, 0)])
def test_hosts_whose_senders_may_have_to_wait_have_a_program_each(context, limits, threads):
    """Where their first queue holds more than a socket: other hosts of the program would wait, too."""
    network = copy.deepcopy(context.network)
    context = dataclasses.replace(context, network=network)
    for link in network["links"]:
        vars(link).update(limits if link["name"].startswith("n3_") else {"limit_packets": 10**6, "limit_bytes": None})
    programs = traffic.prepare([{**CBR, "paths": ["n3->n1"]}], [variant("cubic")], context)["programs"]
    assert [program["threads"] for program in programs] == 2 * [threads]


def test_gaps_with_a_spread_have_a_seed_of_their_own_for_each_flow(context, jobs):
    workload = traffic.prepare([{**CBR, "gap_spread_percent": 50, "flows": 2}], [variant("cubic")], context)
    (_, _, _), (_, _, sending) = jobs(workload)
    assert [{key: order[key] for key in ("gap_ns", "gaps", "spread", "seed")} for order in sending["send"]] == [
        {"gap_ns": 4_056_000, "gaps": "uniform", "spread": 0.5, "seed": f"3/{place}"} for place in (0, 1)]


def test_random_starts(context):
    starts = [flow["start_us"] for flow in traffic.prepare(
        [{**CBR, "flows": 50, "start_within_us": 1_000_000}], [variant("cubic")], context)["flows"]]
    assert len(set(starts)) > 45 and max(starts) < 1_000_000
    with pytest.raises(FieldError, match="flows may begin as late as 100 s, but stop at 10 s"):
        traffic.prepare([{**CBR, "flows": 50, "start_within_us": 100_000_000}], [variant("cubic")], context)


def test_flows_one_after_the_other(context):
    """Beside that, each has its random time."""
    section = {**CBR, "flows": 3, "start_us": 1_000_000, "stagger_us": 2_000_000}
    assert [flow["start_us"] for flow in traffic.prepare([section], [variant("cubic")], context)["flows"]] == [
        1_000_000, 3_000_000, 5_000_000]
    later = [flow["start_us"] for flow in traffic.prepare(
        [{**section, "start_within_us": 1000}], [variant("cubic")], context)["flows"]]
    assert [start_us // 1000 for start_us in later] == [1000, 3000, 5000] and len({s % 1000 for s in later}) > 1
    with pytest.raises(FieldError, match="flows may begin as late as 13 s, but stop at 10 s") as problem:
        traffic.prepare([{**section, "flows": 7}], [variant("cubic")], context)
    assert problem.value.field == "stagger"


def test_account(context, tmp_path):
    workload = traffic.prepare([CBR], [variant("cubic")], context)
    (context.work_dir / "cbr-n3.counts.json").write_text('{"1": {"sent_packets": 9, "sent_bytes": 90}}')
    (context.work_dir / "cbr-n1.counts.json").write_text('{"1": {"received_packets": 7, "received_bytes": 70}}')
    assert cbr.collect(workload["components"][0], workload, context, tmp_path) == {"flows": [
        {"flow": 1, "sent_packets": 9, "sent_bytes": 90, "received_packets": 7, "received_bytes": 70,
         "lost_packets": 2}]}
