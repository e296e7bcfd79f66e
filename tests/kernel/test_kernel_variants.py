# SPDX-License-Identifier: GPL-2.0-only
"""Named variants, modules and flows that take turns, in real runs."""
import copy

import pytest

from tests.kernel.small_runs import small_scenario

TWO_FLOWS = {"kind": "greedy", "tool": "sockets", "paths": ["n4->n1", "n5->n2"], "stagger": "100 ms"}
#: without SACK the losses that a long queue leads to in slow start are repaired one by one, and meanwhile
#: what came out of order fills the receive window: for longer than other tests of a second take
SHORT = {"topology.central.queue": {"kind": "pfifo", "limit": 50}, "timing.warmup": "2 s"}
#: 20 and 200 ms, each flow with hosts of its own; the buffer is 25 ms, so that losses are frequent
RTT_20_AND_200 = {
    "topology.central": {"rate": "50 Mbit/s", "delay": "2 ms", "queue": {"kind": "pfifo", "limit": 104}},
    "topology.edge": {"rate": "1 Gbit/s"}, "topology.left_delays": ["0 ms", "90 ms"],
    "topology.right_delays": ["8 ms", "8 ms"],
    "traffic": {"kind": "greedy", "tool": "sockets", "paths": ["n3->n1", "n4->n2"]},
    "timing.warmup": "20 s", "timing.test": "60 s",
    "probes": {"queue": {"interval": "100 ms"}, "tcp_info": {"interval": "1 s"}}}


def observed(run):
    return run.json("raw/checks.json")["congestion_controls"]["parameters"]


def senders(run):
    """{flow: rows of tcp_info of its sender}."""
    samples = run.table("tcp_info")
    return {f["flow"]: samples[(samples["node"] == f["sender"]) & (samples["dst"] == f["dst"])
                               & (samples["dport"] == f["dport"])] for f in run.json("raw/workload.json")["flows"]}


def test_settings_of_a_variant_are_in_force(run_scenario):
    newreno = run_scenario(small_scenario(**{"timing.test": "1 s", **SHORT}), cca="newreno")
    assert newreno.json("verdict.json")["verdict"] == "valid", newreno.json("verdict.json")["reasons"]
    sysctls = newreno.json("raw/checks.json")["sysctls"]
    assert all(values["net.ipv4.tcp_sack"] == values["net.ipv4.tcp_recovery"] == "0" for values in sysctls.values())
    assert set(newreno.table("tcp_info")["cca"]) == {"reno"}


def test_a_module_is_told_the_rate_of_the_bottleneck(run_scenario):
    run = run_scenario(small_scenario(**{"timing.test": "1 s"}), cca="libra")
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    parameters = observed(run)["tcp_libra"]
    assert (parameters["unit"], parameters["capacity"]) == ("1000", "100000")
    assert set(run.table("tcp_info")["cca"]) == {"libra"}


def test_parameters_of_the_kernels_own(run_scenario, tmp_path):
    (tmp_path / "cubic-no-hystart.yaml").write_text("kernel_cca: cubic\nparameters: {hystart: 0}\n")
    run = run_scenario(small_scenario(**{"timing.test": "1 s"}), cca=str(tmp_path / "cubic-no-hystart.yaml"))
    assert observed(run)["tcp_cubic"]["hystart"] == "0"
    (tmp_path / "cubic-odd.yaml").write_text("kernel_cca: cubic\nparameters: {no_such_thing: 0}\n")
    with pytest.raises(AssertionError, match="parameter no_such_thing of tcp_cubic cannot be set to 0"):
        run_scenario(small_scenario(), cca=str(tmp_path / "cubic-odd.yaml"))


@pytest.mark.parametrize("tool", ["sockets", "iperf3"])
def test_odd_flows_libra_even_flows_bic(run_scenario, tool):
    run = run_scenario(small_scenario(**{"traffic": {**TWO_FLOWS, "tool": tool, "flows": 2}, "timing.test": "3 s"}),
                       cca="libra+bic")
    verdict = run.json("verdict.json")
    # three seconds are short for it
    assert {reason["check"] for reason in verdict["reasons"]} <= {"steady"}, verdict["reasons"]
    assert any("4 sockets of 4 flows said that they use bic, libra" in c["message"] for c in verdict["checks"])
    if tool == "sockets":
        assert {flow: set(rows["cca"]) for flow, rows in senders(run).items()} == {1: {"libra"}, 2: {"bic"},
                                                                                   3: {"libra"}, 4: {"bic"}}


def test_variants_with_other_settings_take_turns_on_hosts_of_their_own(run_scenario):
    run = run_scenario(small_scenario(**{"traffic": TWO_FLOWS, "timing.test": "1 s", **SHORT}), cca="newreno+sack")
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    sysctls = run.json("raw/checks.json")["sysctls"]
    assert [sysctls[n]["net.ipv4.tcp_sack"] for n in ("n1", "n4", "n2", "n5")] == ["0", "0", "1", "1"]
    together = {**copy.deepcopy(TWO_FLOWS), "paths": ["n4->n1"], "flows": 2}
    with pytest.raises(AssertionError, match="newreno and sack want different net.ipv4.tcp_sack"):
        run_scenario(small_scenario(**{"traffic": together}), cca="newreno+sack")


def ratio(run):
    """Payload acknowledged after warm-up, flow 1 (20 ms) over flow 2 (200 ms)."""
    delivered = []
    for rows in senders(run).values():
        rows = rows[rows["t_us"] >= 20_000_000]
        delivered.append(rows["bytes_acked"].max() - rows["bytes_acked"].min())
    return delivered[0] / delivered[1]


def test_libra_is_fair_where_reno_is_not(run_scenario):
    """docs/results/rtt-fairness.md has five seeds of two minutes; this is one seed of one."""
    reno, libra = (ratio(run_scenario(small_scenario(**RTT_20_AND_200), cca=cca)) for cca in ("reno", "libra"))
    assert reno > 4
    assert 0.5 < libra < 2
