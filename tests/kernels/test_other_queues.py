# SPDX-License-Identifier: GPL-2.0-only
"""DualPI2, Accurate ECN and a scalable congestion control: runs, or a refusal by older kernels."""
import gzip
import types

import pytest

from analysis.metrics import queueing_delay_l4s
from analysis.read.runs import Run
from testbed import PROJECT_DIR
from testbed.scenario import scenario
from tests.kernel.test_kernel_links import example


@pytest.fixture(scope="module")
def resolved(tmp_path_factory):
    """The example as the engine gets it."""
    import yaml
    path = tmp_path_factory.mktemp("l4s") / "l4s.yaml"
    path.write_text(yaml.safe_dump(example("l4s")))
    (_, one), = scenario.expand(str(path), {}, False, [])
    return one.resolved()


def test_dualpi2_and_accurate_ecn_or_one_clear_line(engine, run_scenario, resolved):
    number = [int(part) for part in engine.kernel_release().split(".")[:2]]
    reason = engine.cannot(types.SimpleNamespace(scenario=resolved))
    assert engine.has("dualpi2") == (number >= [6, 17]) and engine.has("accecn") == (number >= [6, 18])
    if number < [6, 18]:
        assert reason.field == "hosts.ecn" and "from 6.18 on" in str(reason)
        assert str(reason).startswith("Accurate ECN (ecn: 3) is not in this kernel, ")
        return
    assert reason is None
    run = run_scenario(example("l4s"))
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    link = run.json("raw/counters.json")["drained"]["right_to_left"]
    marks = run.table("ce_marks")
    assert 0 < marks["packets"].sum() <= link["ce_marked_packets"] <= 2 * marks["packets"].sum()
    qdiscs = run.json("raw/checks.json")["devices"]["r2/r2-eth0"]["qdiscs"]
    assert set(marks["flow"]) == {1} and qdiscs["10:"].startswith("dualpi2 ")
    assert accurate(run.folder / "raw/capture-n2-eth0.pcap.gz")


def l4s_scenario(queue):
    """The scenario l4s, short, behind this queue."""
    import yaml
    tree = yaml.safe_load((PROJECT_DIR / "scenarios/l4s.yaml").read_text(encoding="utf-8"))
    for section in ("choices", "parameters", "quick", "defaults"):
        del tree[section]
    tree["topology"]["central"]["right_to_left"].update(rate="20 Mbit/s", queue=queue)
    return {**tree, "timing": {"prefill": "0 s", "warmup": "3 s", "test": "5 s"}}


@pytest.mark.parametrize("scalable", ["dctcp-l4s", "dctcp-l4s-25ms"])
def test_a_scalable_flow_has_the_queue_for_l4s(engine, run_scenario, scalable):
    """Its packets carry ECT(1) and wait for a millisecond or so; those of CUBIC wait in the other queue."""
    if not engine.has("accecn"):
        pytest.skip("this kernel has no Accurate ECN")
    run = run_scenario(l4s_scenario({"kind": "dualpi2", "limit": 1000}), f"{scalable}+cubic")
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    packets = run.table("sojourn_codepoints").groupby("codepoint")["packets"].sum()
    assert set(packets.index) == {"ect1", "not_ect"} and packets.min() > 1000
    together = run.table("sojourn_hist")
    assert packets.sum() == together[together["link"] == "right_to_left"]["packets"].sum()
    delays = {metric.metric: metric.value for metric in queueing_delay_l4s.compute(Run(run.folder))}
    assert delays["queueing_delay_l4s_p99"] < 3 and delays["queueing_delay_classic_p50"] > 5
    assert set(run.table("ce_marks")["flow"]) == {1}


def test_without_accurate_ecn_it_is_reno_and_said_to_be(engine, run_scenario):
    if engine.has("accecn"):
        pytest.skip("this kernel has Accurate ECN")
    run = run_scenario(l4s_scenario({"kind": "codel", "limit": 1000, "ecn": True}), "dctcp-l4s")
    verdict = run.json("verdict.json")
    assert verdict["verdict"] != "valid" and "dctcp_l4s_reno" in str(verdict["reasons"])
    assert "ect1" not in set(run.table("sojourn_codepoints")["codepoint"])


def accurate(path):
    """True if the first answer to a SYN that left is one of Accurate ECN: AE, CWR, ECE (RFC 9768, table 2)."""
    data, at = gzip.decompress(path.read_bytes()), 24
    while at < len(data):
        kept = int.from_bytes(data[at + 8:at + 12], "little")
        frame = data[at + 16:at + 16 + kept]
        at += 16 + kept
        tcp = 14 + 4 * (frame[14] & 15)
        if frame[23] == 6 and frame[tcp + 13] & 0x12 == 0x12:
            return (frame[tcp + 12] & 1) << 2 | frame[tcp + 13] >> 6 in (0b010, 0b011, 0b100, 0b110)
    return False
