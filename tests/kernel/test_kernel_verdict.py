# SPDX-License-Identifier: GPL-2.0-only
"""Real runs that are bad in one way, and the verdict on them (the others: tests/unit/testbed/bad_runs.py)."""
import shutil

import pytest

from testbed import checks
from testbed.engines import uml
from testbed.runs import code_bundle
from tests.kernel.small_runs import small_scenario


def reasons(run, check):
    """[(level, message)] of what a check has against a run."""
    verdict = checks.judge_run(run.folder)
    assert not verdict["errors"]
    return [(reason["level"], reason["message"]) for reason in verdict["reasons"] if reason["check"] == check]


def levels(run):
    return {check["check"]: check["level"] for check in checks.judge_run(run.folder)["checks"]}


def test_an_interface_that_takes_the_bottlenecks_place(run_scenario):
    """It is as fast: the bottleneck's queue stays empty, and TCP small queues let ten packets wait at the sender."""
    run = run_scenario(small_scenario(**{"topology.edge": {"rate": "100 Mbit/s", "queue": {"limit": 10000}}}))
    assert run.table("queue")["backlog_packets"].max() == 0
    (level, message), = reasons(run, "edges")
    assert level == "suspect" and message.startswith("n4_to_r2 is no bottleneck, but packets wait there for 1.2")


def test_a_hidden_bottleneck(run_scenario):
    """The edges are slower than what is called the bottleneck: packets wait at r1 for n1's link."""
    run = run_scenario(small_scenario(**{
        "topology.central.rate": "60 Mbit/s", "topology.edge": {"rate": "50 Mbit/s", "queue": {"limit": 10000}},
        "traffic": {"kind": "greedy", "tool": "sockets", "paths": ["n4->n1", "n5->n1"]}}))
    (level, message), *_ = reasons(run, "edges")
    assert level == "suspect" and message.startswith("r1_to_n1 is no bottleneck, but packets wait there for ")


def test_a_payload_that_was_tampered_with(run_scenario, tmp_path, monkeypatch):
    """A sender that leaves a byte out after each write."""
    code = tmp_path / "code"
    shutil.copytree(code_bundle.ensure(), code)
    program = code / "traffic/greedy/threads.py"
    right = "self._place = self._pattern.after(self._place, sent)"
    assert right in program.read_text()
    program.write_text(program.read_text().replace(right, right.replace("sent)", "sent + 1)")))
    shutil.rmtree(program.parent / "__pycache__")
    shutil.rmtree(code / code_bundle.IMAGES)             # which have the byte code of before
    monkeypatch.setattr(uml.code_bundle, "ensure", lambda *_: code)
    traffic = {"kind": "greedy", "tool": "sockets", "paths": ["n4->n1"]}
    run = run_scenario(small_scenario(traffic=traffic))
    (level, message), = reasons(run, "payload")
    assert level == "invalid" and message.startswith("flow 1: ")
    assert "that its receiver got are not what was sent, the first in connection 0 after " in message
    # nothing else is the matter
    assert checks.judge_run(run.folder)["verdict"] == "invalid"
    assert {level for check, level in levels(run).items() if check != "payload"} <= {"ok", "not applicable"}


@pytest.mark.parametrize("buckets", [10, 262144])
def test_closed_connections_that_had_to_be_forgotten(run_scenario, buckets):
    run = run_scenario(small_scenario(**{
        "traffic": {"kind": "tmix", "target": "right_to_left", "load": "20 %"}, "timing.warmup": "1 s",
        "hosts": {"sysctls": {"net.ipv4.tcp_max_tw_buckets": buckets}}}))
    found = reasons(run, "stack")
    if buckets > 1000:
        assert not found
    else:
        (level, message), = found
        assert level == "suspect" and "tcp_max_tw_buckets): TcpExtTCPTimeWaitOverflow " in message


def test_flows_that_have_not_settled_are_told(run_scenario):
    """3 s from a cold start over round trips of 120 and 200 ms: 72 % of the link are used, and 9 % dropped."""
    run = run_scenario(small_scenario(**{
        "topology": {"kind": "dumbbell", "central": {"rate": "100 Mbit/s", "delay": "50 ms", "queue": {"limit": 850}},
                     "edge": {"rate": "1 Gbit/s", "queue": {"kind": "pfifo", "limit": 10000}},
                     "left_delays": ["0 ms"], "right_delays": ["10 ms", "50 ms"]},
        "traffic": {"kind": "greedy", "tool": "sockets", "paths": ["n2->n1", "n3->n1"], "start_within": "100 ms"},
        "timing": {"warmup": "0 s", "test": "3 s"}, "probes.tcp_info.interval": "50 ms"}), cca="reno")
    (reason,) = [one for one in run.json("verdict.json")["reasons"] if one["check"] == "steady"]
    assert reason["level"] == "suspect" and "it is how they begin that was measured" in reason["message"]
