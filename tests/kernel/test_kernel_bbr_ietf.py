# SPDX-License-Identifier: GPL-2.0-only
"""What the draft's test cases leave out of our module of the IETF's BBR: marks, probes, connections without SACK."""
import pandas as pd

from analysis.exports import trace as of_trace
from tests.kernel.small_runs import small_scenario


def _model(run):
    """The trace event bbr:bbr_model of the flow's sender."""
    table = run.table("trace")
    values = of_trace.values(table[table["event"] == "bbr_model"])
    sender, = {flow["sender"] for flow in run.json("raw/workload.json")["flows"]}
    samples = run.table("tcp_info")
    port, = set(samples[samples["node"] == sender]["sport"])
    return values[pd.to_numeric(values["sport"]) == port]


def _scenario(queue, **hosts):
    return small_scenario(**{
        "topology.central": {"rate": "10 Mbit/s", "delay": "20 ms", "queue": queue},
        "topology.left_delays": ["0 ms"], "topology.right_delays": ["0 ms"], "traffic": {
            "kind": "greedy", "tool": "sockets", "paths": ["n2->n1"]}, "timing.warmup": "0 s", "timing.test": "6 s",
        "probes": {"queue": {"interval": "100 ms"}, "tcp_info": {"interval": "100 ms"},
                   "trace": {"events": ["bbr:bbr_model"]}}, "hosts": hosts})


def test_marks_are_congestion_as_losses_are(run_scenario):
    """Of a module that does not look at CE, Startup ends by a full pipe, and no bound is ever set."""
    model = _model(run_scenario(_scenario({"kind": "codel", "limit": 133, "ecn": True}, ecn=1), "bbr-ietf"))
    assert set(model["lost"]) == {"0"}
    first, second = model[model["why"] == "high_loss"].iloc[:2].to_dict("records")
    assert (first["t_us"], first["state"], first["inflight_longterm"]) == (410_098, "Drain", "76")
    # each of the two waits before it is 62 or 63 rounds: a draw, which another version of the kernel makes otherwise
    assert (second["t_us"], second["inflight_longterm"]) in {
        (3_592_540, "47"), (3_636_471, "48"), (3_637_689, "48"), (3_681_620, "48")}
    assert second["state"] == "ProbeBW_DOWN"
    # in between, as after a loss, the short-term bounds hold until the next probe
    bound = model[(model["t_us"] > 504_000) & (model["t_us"] < 1_800_000)]
    assert "-1" not in {*bound["bw_shortterm"], *bound["inflight_shortterm"]}


def test_without_sack_the_first_loss_ends_startup(run_scenario):
    model = _model(run_scenario(_scenario({"kind": "pfifo", "limit": 20}, sack=0), "bbr-ietf"))
    drain = model[model["state"] == "Drain"].iloc[0]
    assert (drain["t_us"], drain["why"], drain["lost"], drain["ca_state"]) == (268_388, "high_loss", "1", "3")


def test_a_loss_that_a_probe_repairs_lowers_the_short_term_bounds(run_scenario):
    """The last segment before a pause is lost. The kernel marks no packet: it enters CWR with the next ACK."""
    tree = _scenario({"kind": "pfifo", "limit": 133})
    central = tree["topology"]["central"]
    tree["topology"]["central"] = {"left_to_right": central, "right_to_left": {
        **central, "schedule": [{"at": ["3016700 us", "3060 ms"], "loss": ["100 %", "0 %"]}]}}
    tree["traffic"] = {"name": "flow", "kind": "phases", "paths": ["n2->n1"], "phases": [
        {"at": "0 s"}, {"at": "3 s", "rate": "0 bit/s"}, {"at": "4 s"}]}
    model = _model(run_scenario(tree, "bbr-ietf"))
    assert set(model["lost"]) == {"0"}
    until, after = model[model["t_us"] < 4_083_681], model[model["t_us"] == 4_083_681].iloc[0]
    assert set(until["inflight_shortterm"]) == {"-1"} and set(until["state"].iloc[-3:]) == {"ProbeBW_CRUISE"}
    # 70 % of a window of 70; the delivered rate
    assert (after["inflight_shortterm"], after["bw_shortterm"], after["rate"]) == ("49", "1195508", "1195508")
