# SPDX-License-Identifier: GPL-2.0-only
"""Greedy flows by iperf3 and by plain sockets, in virtual time."""

import pandas as pd
import pytest

from tests.kernel.small_runs import small_scenario
from traffic.greedy import scenario as greedy

NARROW = {"rate": "20 Mbit/s", "delay": "2 ms", "queue": {"kind": "pfifo", "limit": 50}}


def sender_samples(finished, number=1):
    """tcp_info of a flow's sender."""
    flow = finished.json("raw/workload.json")["flows"][number - 1]
    table = finished.table("tcp_info")
    mine = (table["node"] == flow["sender"]) & (table["dst"] == flow["dst"]) & (table["dport"] == flow["dport"])
    return table[mine & (table["sport"] == flow["sport"])] if flow["sport"] else table[mine]


def metrics(finished):
    table = pd.read_csv(finished.folder / "metrics.csv")
    return {(row.metric, row.scope): row.value for row in table.itertuples()}


@pytest.fixture(scope="module")
def narrow_runs(run_scenario):
    """{tool: run} of a flow that fills 20 Mbit/s and loses packets; `unaided` is iperf3 as Debian has it."""
    traffic = {"kind": "greedy"}
    return {name: run_scenario(small_scenario(**{"topology.central": NARROW, "timing.test": "2 s",
                                                 "traffic": {**traffic, **how}}))
            for name, how in (("iperf3", {}), ("unaided", {"preload": False}), ("sockets", {"tool": "sockets"}))}


def test_iperf3_limits_the_window_and_may_begin_a_round_trip_late(run_scenario):
    """Ten segments each 200 ms; as up to 3.9, data begin when the server's first message is acknowledged, which
    may take another 40 ms."""
    received = {}
    for nagle in (False, True):
        finished = run_scenario(small_scenario(**{
            "topology.central": {**NARROW, "delay": "100 ms"}, "timing.test": "2 s",
            "traffic": {"kind": "greedy", "window": 10, "nagle": nagle}}))
        samples = sender_samples(finished)
        assert samples["unacked"].max() == 10
        accounts = finished.json("raw/guest.json")["accounts"]
        received[nagle], = (sum(one["received_bytes"].values()) for one in accounts if one["received_bytes"])
        (sent, us), = ((one["sent_bytes"]["1"], one["counted_us"]["1"]) for one in accounts if one["sent_bytes"])
        assert metrics(finished)["written_rate", "all"] == pytest.approx(8 * sent / us)
        assert metrics(finished)["read_rate", "all"] == pytest.approx(
            finished.json("raw/iperf3-flow1.json")["end"]["sum_received"]["bits_per_second"] / 1e6)
    assert received[False] - received[True] == pytest.approx(14_480 * 240 / 200, abs=2 * 1448)


def test_json_of_iperf3_is_kept_and_makes_sense(greedy_run):
    client, server = (greedy_run.json(f"raw/iperf3-flow1{end}.json") for end in ("", "-server"))
    flow, = greedy_run.json("raw/workload.json")["flows"]
    connected, = client["start"]["connected"]
    assert [connected[name] for name in ("local_host", "local_port", "remote_host", "remote_port")] == [
        flow[name] for name in ("src", "sport", "dst", "dport")]
    assert client["start"]["test_start"]["duration"] == 5 and len(client["intervals"]) == 5
    assert client["end"]["sender_tcp_congestion"] == client["end"]["receiver_tcp_congestion"] == "cubic"
    # 1448 bytes of payload in 1514 on the link
    rate = client["end"]["sum_received"]["bits_per_second"]
    assert rate == server["end"]["sum_received"]["bits_per_second"] == pytest.approx(100e6 * 1448 / 1514, rel=0.02)
    accounts = {account["node"]: account for account in greedy_run.json("raw/guest.json")["accounts"]}
    assert accounts[flow["receiver"]]["received_bytes"] == {"1": server["end"]["sum_received"]["bytes"]}
    assert accounts[flow["sender"]]["sent_bytes"] == {"1": client["end"]["sum_sent"]["bytes"]}


def test_control_connection_is_no_flow(greedy_run):
    flow, = greedy_run.json("raw/workload.json")["flows"]
    samples = greedy_run.table("tcp_info")
    assert samples[samples["node"] == flow["sender"]]["sport"].nunique() == 2
    found = metrics(greedy_run)
    assert {scope for metric, scope in found if metric == "mean_throughput_l4"} == {"flow_1"}
    assert found["mean_throughput_l4", "flow_1"] == pytest.approx(100 * 1448 / 1514, rel=2e-3)
    assert found["goodput", "right_to_left"] == pytest.approx(100 * 1448 / 1514, rel=2e-3)


def test_preload_and_sockets_do_what_iperf3_does(narrow_runs):
    """TCP's decisions are the kernel's: the same losses, but for the moment at which the flow begins."""
    last = {name: sender_samples(finished).iloc[-1] for name, finished in narrow_runs.items()}
    for name, tolerance in (("iperf3", 2e-3), ("sockets", 0.02)):
        assert last[name]["bytes_acked"] == pytest.approx(last["unaided"]["bytes_acked"], rel=tolerance), name
        assert last[name]["total_retrans"] == pytest.approx(last["unaided"]["total_retrans"], abs=1), name
    for name, sample in last.items():
        assert sample["total_retrans"] >= 4 and sample["rwnd_limited_us"] <= 0.03 * sample["busy_us"], name


def test_flows_last_until_the_end(narrow_runs):
    for finished in narrow_runs.values():
        samples = sender_samples(finished)
        assert samples["t_us"].max() >= 3_000_000 and samples["t_us"].min() <= 200_000


def test_flows_take_turns_with_congestion_controls(run_scenario):
    for tool in ("iperf3", "sockets"):
        finished = run_scenario(small_scenario(**{"traffic.tool": tool, "traffic.flows": 3, "timing.test": "1 s"}),
                                cca="reno+bic")
        assert [set(sender_samples(finished, number)["cca"]) for number in (1, 2, 3)] == [{"reno"}, {"bic"}, {"reno"}]
        found = metrics(finished)
        assert found["mean_agg_throughput_l4", "cca_bic"] == pytest.approx(found["mean_throughput_l4", "flow_2"])
        assert found["mean_throughput_l4", "cca_reno"] == pytest.approx(
            (found["mean_throughput_l4", "flow_1"] + found["mean_throughput_l4", "flow_3"]) / 2)


@pytest.mark.parametrize("first", [0, 2**32 - 3000])
def test_first_byte_has_the_sequence_number_asked_for(run_scenario, first):
    """tcp_probe is asked when a segment arrives: snd_una is then at most what it acknowledges."""
    tree = small_scenario(**{"timing.warmup": "0 s", "timing.test": "1 s", "traffic.tool": "sockets",
                             "traffic.sequence_start": first,
                             "traffic.bytes": "200 kB"})
    tree["probes"]["tcp_probe"] = {}
    finished = run_scenario(tree)
    flow, = finished.json("raw/workload.json")["flows"]
    events = finished.table("tcp_probe")
    sender = events[events["src"].str.startswith(flow["src"] + ":")
                    & events["dst"].eq(f"{flow['dst']}:{flow['dport']}")]
    assert sender["snd_una"].iloc[0] == first and sender["snd_nxt"].iloc[0] == (first + 10 * 1448) % 2**32
    assert sender["snd_una"].iloc[-1] == sender["snd_nxt"].iloc[-1] == (first + 200_000) % 2**32
    accounts = finished.json("raw/guest.json")["accounts"]
    assert [account["received_bytes"] for account in accounts if account["received_bytes"]] == [{"1": 200_000}]
    # 139 segments, four round trips
    delivered_us, = [account["delivered_us"]["1"] for account in accounts if account["delivered_us"]]
    assert 139 * 1514 * 8 / 100 + 8000 < delivered_us < 60_000


def test_failure_of_iperf3_fails_the_run_with_its_words(run_scenario, monkeypatch):
    def prepare(section, component, flows, context, whole=greedy.prepare):
        prepared = whole(section, component, flows, context)
        job = context.work_dir / "greedy-n4.json"
        job.write_text(job.read_text().replace('"port": 6000', '"port": 6999'))
        return prepared
    monkeypatch.setattr(greedy, "prepare", prepare)
    with pytest.raises(AssertionError,
                       match="iperf3 client of flow 1: unable to connect to server.*Connection refused"):
        run_scenario(small_scenario(**{"timing.test": "1 s"}))


def test_flows_in_slow_start_do_not_wait_for_their_readers(run_scenario):
    """Nine at 1 Gbit/s and 80 ms, driven by a ring: what lies unread takes from windows, which double each round
    trip."""
    wide = {"rate": "1 Gbit/s", "delay": "40 ms", "queue": {"kind": "pfifo", "limit": "80 ms"}}
    finished = run_scenario(small_scenario(**{
        "topology.central": wide, "topology.edge.rate": "10 Gbit/s", "timing.test": "2 s",
        "traffic": {"kind": "greedy", "tool": "sockets", "flows": 9, "paths": ["n4->n1"]}}))
    for number in range(1, 10):
        samples = sender_samples(finished, number)
        assert samples["cwnd"].max() > 300 and samples["rwnd_limited_us"].max() < 20_000
    account = next(one for one in finished.json("raw/guest.json")["accounts"] if one["received_bytes"])
    # what came after the last sample, and what had come and not been read, is in the account
    got = finished.table("tcp_info").query("node == 'n1'").groupby("sport")["bytes_received"].max().sum()
    assert sum(account["received_bytes"].values()) >= got > 50_000_000


def test_many_flows_with_small_windows_are_read_at_once(run_scenario):
    """Sixty that share 20 Mbit/s, driven by a ring: none is ever limited by its receiver."""
    finished = run_scenario(small_scenario(**{
        "topology.central": {"rate": "20 Mbit/s", "delay": "2 ms", "queue": {"kind": "pfifo", "limit": 500}},
        "traffic": {"kind": "greedy", "tool": "sockets", "flows": 60, "paths": ["n4->n1"]}}))
    received, = (one for one in finished.json("raw/guest.json")["accounts"] if one["received_bytes"])
    assert all(end["ccas"] == {"cubic": 1} and end["wrong_pieces"] == 0 for end in received["ends"])
    samples = finished.table("tcp_info").query("node == 'n4'").groupby("sport").last()
    assert len(samples) == 60 and not samples["rwnd_limited_us"].any()
    # what was acknowledged before the end was read in it
    assert sum(received["received_bytes"].values()) >= samples["bytes_acked"].sum() > 9_000_000


def test_seeds_are_different_runs_unless_nothing_is_random(run_scenario):
    """By default flows start at random, and hosts have jitter; without both, seeds are one run."""
    common = {"traffic.tool": "sockets"}
    usual, exact = ([run_scenario(small_scenario(**common, **changes), seed=seed) for seed in (1, 2)] for changes in (
        {"traffic.start_within": None, "hosts": {"jitter": None}}, {}))
    flows = [run.json("raw/workload.json")["flows"][0] for run in usual]
    assert 0 < flows[0]["start_us"] != flows[1]["start_us"] > 0
    assert all(flow["start_us"] < flow["base_rtt_us"] for flow in flows)
    for run, jitter_us in ((usual[0], 121), (exact[0], 0)):     # 1514 bytes at 100 Mbit/s
        assert {link["name"]: link["jitter_us"] for link in run.json("raw/network.json")["links"]
                if link["name"] in ("n4_to_r2", "n1_to_r1", "right_to_left")} == {
            "n4_to_r2": jitter_us, "n1_to_r1": jitter_us, "right_to_left": 0}
    assert {run.json("verdict.json")["verdict"] for run in (*usual, *exact)} == {"valid"}
    hashes = [run.json("run.json")["raw_files_sha256"] for run in (*usual, *exact)]
    different = [{name for name in one if one[name] != other[name]} for one, other in (hashes[:2], hashes[2:])]
    assert different[0] >= {"queue.csv.gz", "sojourn.csv.gz", "tcp_info.csv.gz"} and not different[1] & {
        "queue.csv.gz", "sojourn.csv.gz"}
