# SPDX-License-Identifier: GPL-2.0-only
"""The emulated network is what the scenario says: RTT, rate, buffer, loss, conservation."""
import fnmatch
import math
import re

import pytest

from testbed import PROJECT_DIR
from testbed.core import raw_tables
from tests.kernel.small_runs import H_SHAPE, PARKING_LOT, small_scenario

#: ICMP echo of 56 bytes: Ethernet + IP + ICMP headers
_ECHO_BITS = 98 * 8


def test_idle_round_trips_are_the_drafts_plus_serialisation(greedy_run):
    paths = greedy_run.json("raw/checks.json")["paths"]
    assert [p["base_rtt_us"] for p in paths] == [8000, 78000, 154000, 32000, 102000, 178000, 58000, 128000, 204000]
    serialisation_us = 2 * _ECHO_BITS / 100 + 4 * _ECHO_BITS / 1000
    for path in paths:
        # netem counts delays in units of 64 ns
        assert abs(path["measured_rtt_us"] - path["base_rtt_us"] - serialisation_us) <= 6 * 0.064


def test_saturated_link_carries_its_rate(greedy_run):
    for link in greedy_run.json("raw/checks.json")["bottlenecks"]:
        assert link["measured_bps"] == pytest.approx(100e6, rel=1e-3)


def test_buffer_holds_exactly_its_limit(greedy_run):
    for link in greedy_run.json("raw/checks.json")["bottlenecks"]:
        assert link["longest_queue_packets"] == 850
        assert link["dropped_packets"] > 0


def test_offloads_are_off(greedy_run):
    offloads = greedy_run.json("raw/checks.json")["offloads"]
    assert len(offloads) == 28                  # two ends of seven links, and the wire behind each
    assert not any(on for features in offloads.values() for on in features.values())


def test_every_packet_is_accounted_for(greedy_run):
    links = greedy_run.json("raw/counters.json")["drained"]
    assert len(links) == 14
    for link in links.values():
        assert link["sent_packets"] == link["device_tx_packets"] == link["device_rx_packets"]
        assert link["device_rx_packets"] == link["wire_delivered_packets"] + link["wire_dropped_packets"]
        assert link["queued_packets"] == link["wire_queued_packets"] == 0
    bottleneck = links["right_to_left"]
    assert links["n4_to_r2"]["wire_delivered_packets"] == bottleneck["sent_packets"] + bottleneck["dropped_packets"]


def test_greedy_flow_fills_the_link(greedy_run):
    queue = greedy_run.table("queue")
    queue = queue[(queue["link"] == "right_to_left") & (queue["t_us"] >= 1_000_000)]
    sent = queue["sent_bytes"].iloc[-1] - queue["sent_bytes"].iloc[0]
    seconds = (queue["t_us"].iloc[-1] - queue["t_us"].iloc[0]) / 1e6
    assert sent * 8 / seconds == pytest.approx(100e6, rel=2e-3)


def test_every_raw_file_is_of_the_schema_or_on_its_page(greedy_run):
    there = {path.name for path in (greedy_run.folder / "raw").iterdir()}
    tables = {f"{name}.csv.gz" for name in raw_tables.TABLES}
    page = (PROJECT_DIR / "docs/reference/run-folder.md").read_text()
    rows = re.findall(r"^\| (.*?) \|", page.partition("Other files in `raw/`:")[2].partition("\n\n`")[0], re.MULTILINE)
    others = [re.sub("<.*?>", "*", name) for row in rows for name in re.findall("`([^`]+)`", row)]
    assert {"network.json", "workload.json"} <= {*others} & there
    assert {name for name in there - tables if not any(fnmatch.fnmatch(name, one) for one in others)} == set()


def test_verdict_is_valid(greedy_run):
    verdict = greedy_run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    # every check of one TCP flow looked at something
    assert {c["check"] for c in verdict["checks"] if c["level"] == "ok"} >= {
        "ccas", "conservation", "delays", "delivered", "devices", "edges", "idle_network", "instruments", "littles_law",
        "losses", "minimum", "payload", "sampling", "settings", "sockets", "stack", "stalled", "windows"}


@pytest.fixture(scope="module")
def lossy_run(run_scenario):
    return run_scenario(small_scenario(**{
        "topology.central": {"rate": "20 Mbit/s", "delay": "2 ms", "loss": "1 %",
                             "queue": {"kind": "pfifo", "limit": 50}}}))


def test_random_loss_is_on_the_wire_not_in_the_queue(lossy_run):
    link = lossy_run.json("raw/counters.json")["drained"]["right_to_left"]
    packets, lost = link["device_rx_packets"], link["wire_dropped_packets"]
    assert packets > 3000
    # five standard deviations of a binomial distribution
    assert abs(lost - 0.01 * packets) < 5 * math.sqrt(packets * 0.01 * 0.99)
    assert packets == link["wire_delivered_packets"] + lost


_FULL_QUEUE = small_scenario(**{
    # from Linux 6.16 on iperf3 reads every packet, and each wake-up moves others by a step of the clock
    "traffic.tool": "sockets",
    "topology.central": {"rate": "20 Mbit/s", "delay": "2 ms", "queue": {"kind": "pfifo", "limit": 50}}})


@pytest.fixture(scope="module")
def full_queue_run(run_scenario):
    """A CUBIC flow that fills a 50-packet buffer at 20 Mbit/s."""
    return run_scenario(_FULL_QUEUE)


def test_sojourn_of_a_full_queue_is_its_transmission_time(full_queue_run):
    """The 50th packet waits for 49 others and the rest of the one being sent, 605.6 us each."""
    run = full_queue_run
    sojourn = run.table("sojourn")
    longest_us = sojourn.loc[sojourn["link"] == "right_to_left", "max_us"].max()
    packet_us = 1514 * 8 / 20
    assert 49 * packet_us <= longest_us <= 50 * packet_us + 1
    queue = run.table("queue")
    assert queue.loc[queue["link"] == "right_to_left", "backlog_packets"].max() == 50


def test_a_probe_measures_the_same_without_its_module(full_queue_run, run_scenario, engine, monkeypatch):
    """Packets traced, and queues asked for over netlink, instead of noted by the module.

    Of what is due at the same instant the scheduler says what comes first. So rows differ by a packet that came in
    between, and times by a little.
    """
    assert [file.name for file in engine.probe_modules(["sojourn", "queue"])] == ["queues.ko"]
    monkeypatch.setattr(engine, "probe_modules", lambda names: [])
    other = run_scenario(_FULL_QUEUE)
    for name in ("queue", "edge_queue"):
        metered, asked = full_queue_run.table(name), other.table(name)
        assert metered[["t_us", "link"]].equals(asked[["t_us", "link"]])
        assert (metered["t_us"] % 10_000 == 0).all()
        apart = (metered.drop(columns="link") - asked.drop(columns="link")).abs()
        assert (apart.max(axis=1) > 0).mean() < 0.01
        assert apart["sent_packets"].max() <= 1 and apart["backlog_bytes"].max() <= 1514
    noted, traced = full_queue_run.table("sojourn"), other.table("sojourn")
    assert noted[["t_us", "link"]].equals(traced[["t_us", "link"]])
    apart = (noted.drop(columns="link") - traced.drop(columns="link")).abs()
    assert (apart["packets"] > 0).mean() < 0.01 and apart["packets"].max() <= 1
    assert (apart[["mean_us", "min_us", "max_us"]].max(axis=1) < 2).mean() > 0.98
    totals = [run.table("sojourn_hist").groupby("link")["packets"].sum().to_dict() for run in (full_queue_run, other)]
    assert totals[0] == totals[1]


@pytest.mark.parametrize("queue", [{"kind": "codel", "limit": 1000}, {"kind": "cake", "limit": "150000 B"}],
                         ids=lambda queue: queue["kind"])
def test_packets_that_are_dropped_from_inside_a_queue_are_timed_neither_with_the_module_nor_without(
        run_scenario, engine, monkeypatch, queue):
    """Their addresses come back with other packets; CAKE says of some that it did not take them."""
    tree = small_scenario(**{"topology.central": {"rate": "20 Mbit/s", "delay": "2 ms", "queue": queue},
                             "traffic": {"kind": "cbr", "rate": "24 Mbit/s", "paths": ["n4->n1"]},
                             "timing": {"warmup": "500 ms", "test": "1 s"}})
    runs = [run_scenario(tree)]
    monkeypatch.setattr(engine, "probe_modules", lambda names: [])
    runs.append(run_scenario(tree))
    counted, traced = (run.table("sojourn").groupby("link")["packets"].sum() for run in runs)
    queues = [run.table("queue").groupby("link")[["sent_packets", "drops"]].max().loc["right_to_left"] for run in runs]
    assert min(one["drops"] for one in queues) > 50
    assert [abs(timed["right_to_left"] - one["sent_packets"]) <= 1 for timed, one in zip((counted, traced), queues)] \
        == [True, True]
    # as long as both have dropped the same packets: then a step of the clock makes them differ
    early = [run.table("sojourn").query("t_us < 100_000 and link == 'right_to_left'") for run in runs]
    assert early[0]["packets"].tolist() == early[1]["packets"].tolist()
    assert early[0]["mean_us"].tolist() == pytest.approx(early[1]["mean_us"].tolist(), rel=1e-3)


@pytest.mark.parametrize("queue", [
    {"kind": "codel", "limit": 1000, "target": "5 ms", "interval": "100 ms"},
    {"kind": "fq_codel", "limit": 1000},
    {"kind": "red", "limit": "400000 B", "min": "30000 B", "max": "90000 B", "avpkt": "1000 B", "burst": 55,
     "bandwidth": "20 Mbit/s", "probability": 0.02},
    {"kind": "pie", "limit": 1000},
], ids=lambda q: q["kind"])
def test_queue_disciplines_keep_the_queue_short_and_the_accounts_right(run_scenario, queue):
    run = run_scenario(small_scenario(**{
        "topology.central": {"rate": "20 Mbit/s", "delay": "2 ms", "queue": queue}, "timing.test": "2 s"}))
    conservation = [c for c in run.json("verdict.json")["checks"] if c["check"] == "conservation"]
    assert conservation and all(c["level"] == "ok" for c in conservation), conservation
    samples = run.table("queue")
    late = samples[(samples["link"] == "right_to_left") & (samples["t_us"] > 1_500_000)]
    assert late["backlog_packets"].mean() < 100


def test_tcp_probe_sees_every_acknowledgement_and_the_slow_start(run_scenario):
    """cwnd starts at 10 and grows by one for every segment acknowledged in slow start."""
    tree = small_scenario(**{"timing.test": "1 s"})
    tree["probes"]["tcp_probe"] = {}
    run = run_scenario(tree, cca="reno")
    events = run.table("tcp_probe")
    # path 0 is n1-n4; right to left means that n4 sends from its own port to n1's port 6000
    sender = events[events["dst"].str.endswith(":6000") & (events["src"] == "10.0.5.1:30000")]
    assert len(sender) > 1000
    assert sender["snd_cwnd"].iloc[0] == 10
    assert (sender["t_us"].diff().dropna() >= 0).all()
    assert sender["srtt_us"].median() >= 8000
    assert run.json("raw/guest.json")["probes"]["tcp_probe"] == {"lost_events": 0}
    # three round trips: from then on the path, not cwnd, is what limits the flow
    first = sender[sender["t_us"] < sender["t_us"].iloc[0] + 22_000]
    acknowledged = (first["snd_una"].iloc[-1] - first["snd_una"].iloc[0]) / 1448
    assert abs(first["snd_cwnd"].iloc[-1] - 10 - acknowledged) <= 2


def test_one_host_is_sampled_more_often(run_scenario):
    """Ten times as often as all others, and at the instants of both it is the same sample."""
    tree = small_scenario(**{"timing.test": "2 s"})
    tree["probes"] |= {"tcp_info": {"interval": "500 ms"}, "tcp_info_often": {"hosts": "n4", "interval": "50 ms"}}
    run = run_scenario(tree, cca="reno")
    often, samples = run.table("tcp_info_often"), run.table("tcp_info")
    assert set(often["node"]) == {"n4"} and set(samples["node"]) > {"n4"}
    sending = often[(often["dport"] == 6000) & (often["sport"] == often["sport"].iloc[0])]
    assert sending["t_us"].diff().dropna().between(49_000, 51_000).all() and len(sending) > 30
    both = sending.merge(samples, on=["node", "sport", "dport"], suffixes=("", "_rare"))
    both = both[(both["t_us"] - both["t_us_rare"]).abs() < 1000]
    # one dump comes right after the other: at most a few segments are acknowledged between them
    assert len(both) > 3 and ((both["bytes_acked"] - both["bytes_acked_rare"]).abs() < 100_000).all()
    assert run.json("verdict.json")["verdict"] == "valid"


# -- other networks -----------------------------------------------------------------------

@pytest.fixture(scope="module")
def parking_lot_run(run_scenario):
    return run_scenario(small_scenario(topology=PARKING_LOT, traffic=[
        {"kind": "greedy", "tool": "sockets", "paths": ["n1->n6"]},
        {"name": "cross", "kind": "greedy", "tool": "sockets", "paths": ["n2->n3", "n4->n5"]}]))


def test_a_parking_lot_is_valid(parking_lot_run):
    verdict = parking_lot_run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    told = [check["message"] for check in verdict["checks"] if check["check"] == "conservation"]
    assert [message.partition(":")[0] for message in told[:3]] == ["r1", "r2", "r3"]


def test_every_bottleneck_of_a_parking_lot_is_measured(parking_lot_run):
    found = {link["link"]: link for link in parking_lot_run.json("raw/checks.json")["bottlenecks"]}
    assert list(found) == ["r1_to_r2", "r2_to_r1", "r2_to_r3", "r3_to_r2"]
    for name, rate_bps in (("r1_to_r2", 20e6), ("r3_to_r2", 10e6)):
        assert found[name]["measured_bps"] == pytest.approx(rate_bps, rel=1e-3)
    # 50 ms are 83 packets at 20 Mbit/s, and 62.5 kB at 10 Mbit/s: 41 packets
    assert found["r1_to_r2"]["longest_queue_packets"] == 83
    assert found["r2_to_r3"]["longest_queue_bytes"] == 41 * 1514 and found["r2_to_r3"]["longest_queue_packets"] == 41


def test_round_trips_of_a_parking_lot(parking_lot_run):
    paths = parking_lot_run.json("raw/checks.json")["paths"]
    assert [path["base_rtt_us"] for path in paths] == [30_000, 16_000, 20_000]
    for path in paths:
        assert 0 <= path["measured_rtt_us"] - path["base_rtt_us"] - path["serialisation_us"] <= 6


def test_the_network_is_what_the_plan_says(parking_lot_run):
    assert parking_lot_run.json("raw/network.json") == parking_lot_run.json("plan.json")["scenario"]["network"]


def test_the_idle_h_and_a_constant_bit_rate_against_a_flow(run_scenario):
    """Idle round trips, rate and buffer; then a flow takes what a constant bit rate leaves of the crossbar."""
    run = run_scenario(small_scenario(topology=H_SHAPE, traffic=[
        {"name": "tcp", "kind": "greedy", "tool": "sockets", "paths": ["n1->n4"]},
        {"name": "udp", "kind": "cbr", "paths": ["n7->n8"], "rate": "4 Mbit/s"}]), cca="reno")
    checks = run.json("raw/checks.json")
    assert [path["base_rtt_us"] for path in checks["paths"]] == [60_000, 60_000, 20_000]
    for path in checks["paths"]:
        assert 0 <= path["measured_rtt_us"] - path["base_rtt_us"] - path["serialisation_us"] <= 6
    for link in checks["bottlenecks"]:
        assert link["measured_bps"] == pytest.approx(10e6, rel=1e-3) and link["longest_queue_packets"] == 20
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    link = run.json("raw/counters.json")["drained"]["left_to_right"]
    assert link["sent_packets"] == link["wire_delivered_packets"] and link["queued_packets"] == 0


def test_idle_checks_of_a_slow_link_are_short(run_scenario):
    """Half a minute at 64 kbit/s, and what fills and empties the buffer."""
    central = {"rate": "64 kbit/s", "delay": "5 ms", "queue": {"limit": "1250 ms"}}
    run = run_scenario(small_scenario(**{"topology.central": central}))
    for link in run.json("raw/checks.json")["bottlenecks"]:
        assert 158 <= link["window_packets"] <= 180 and link["filled"] and link["longest_queue_packets"] == 7
        assert link["measured_bps"] == pytest.approx(64_000, rel=1e-5)


_RED_AS_NS2_HAS_IT = {"kind": "red", "limit": "75 kB", "min": "7500 B", "max": "22500 B", "avpkt": "1500 B",
                      "burst": 300, "probability": 0.1}


@pytest.mark.parametrize("queue, edge, hosts, holds", [
    (_RED_AS_NS2_HAS_IT, "1 Gbit/s", 1, None),          # an average over 512 packets lags: the queue runs empty
    ({"kind": "pfifo", "limit": 1}, "1 Gbit/s", 1, 1), ({"kind": "bfifo", "limit": "1514 B"}, "1 Gbit/s", 1, 1),
    ({"kind": "fq_codel", "limit": 2}, "1 Gbit/s", 1, None),
    ({"kind": "pfifo", "limit": 100}, "1 Mbit/s", 20, 100)])    # hosts in step: the queue is full once in 12 ms
def test_an_overloaded_link_carries_its_rate_while_it_has_something_to_send(run_scenario, queue, edge, hosts, holds):
    run = run_scenario(small_scenario(topology={
        "kind": "dumbbell", "central": {"rate": "10 Mbit/s", "delay": "2 ms", "queue": queue},
        "edge": {"rate": edge, "queue": {"limit": 1000}}, "left_delays": ["1 ms"] * hosts,
        "right_delays": ["1 ms"] * hosts}, **{"timing.test": "2 s"},
        traffic={"kind": "cbr", "rate": "500 kbit/s", "paths": [f"n{hosts + 1}->n1"]}))
    for link in run.json("raw/checks.json")["bottlenecks"]:
        assert link["measured_bps"] == pytest.approx(10e6, rel=1e-3) and link["window_packets"] > 2000
        assert holds in (None, link["longest_queue_packets"])
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]


def test_nothing_of_the_idle_tests_is_left_when_traffic_begins(run_scenario):
    """Edges that are hardly faster than a small bottleneck hold what sockets had sent: some 90 packets each."""
    run = run_scenario(small_scenario(**{
        "topology.central": {"rate": "10 Mbit/s", "delay": "1 ms", "queue": {"limit": 5}},
        "topology.edge.rate": "12 Mbit/s", "topology.left_delays": ["0 ms"], "topology.right_delays": ["0 ms"],
        "traffic": {"kind": "cbr", "rate": "20 kbit/s", "packet": "500 B", "paths": ["n2->n1"]}}))
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    counters = run.json("raw/counters.json")["drained"]
    flow, = run.json("raw/guest.json")["traffic"]["cbr"]["flows"]
    assert counters["right_to_left"]["sent_packets"] == flow["sent_packets"] == flow["received_packets"] > 0
    assert counters["left_to_right"]["sent_packets"] == 0


@pytest.mark.parametrize("sysctl, value, message", [
    ("net.ipv4.tcp_no_such_thing", 1, "net.ipv4.tcp_no_such_thing: the kernel knows no such setting"),
    ("net.ipv4.tcp_fin_timeout", "many", "net.ipv4.tcp_fin_timeout: the kernel refuses 'many'")])
def test_settings_that_the_kernel_refuses(run_scenario, sysctl, value, message):
    with pytest.raises(AssertionError, match=message) as problem:
        run_scenario(small_scenario(hosts={"sysctls": {sysctl: value}}))
    assert "\n" not in str(problem.value)
