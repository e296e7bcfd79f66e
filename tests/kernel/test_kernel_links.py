# SPDX-License-Identifier: GPL-2.0-only
"""The examples of docs/howto/links.md, run as they stand there: links do what the scenario says."""
import pathlib
import re

import pandas as pd
import pytest
import yaml

from topologies.links import varying
from topologies.links.records import Network

_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
_PAGE = (_DOCS / "howto/links.md").read_text(encoding="utf-8")
FRAME_BYTES = 1514


def example(name):
    """The scenario that the page has under this name."""
    block = re.search(rf"`examples/{name}\.yaml`.*?```yaml\n(.*?)```", _PAGE, re.DOTALL)
    assert block
    return yaml.safe_load(block.group(1).replace("docs/examples", str(_DOCS / "examples")))


@pytest.fixture(scope="module")
def run_example(run_scenario):
    """run_example(name) -> FinishedRun; every example is run once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = run_scenario(example(name))
            verdict = made[name].json("verdict.json")
            assert verdict["verdict"] == "valid", verdict["reasons"]
        return made[name]
    return get


def changing(run):
    return next(link for link in Network(run.json("raw/network.json")).links if varying.changes(link))


def samples_of(run, link):
    queue = run.table("queue")
    queue = queue[queue["link"] == link["name"]]
    # some are noted a microsecond early
    return queue.assign(t_us=(queue["t_us"] + 5) // 10 * 10).set_index("t_us")


def test_rates_step_at_their_times(run_example):
    """Each second has its rate within 0.1 %, the first sample after a step is one of the new rate."""
    run = run_example("steps")
    link = changing(run)
    sent = samples_of(run, link)["sent_bytes"]
    for second in range(1, 39):
        rate_bps = varying.mean_rate_bps(link, second * 1e6, (second + 1) * 1e6)
        carried = sent[(second + 1) * 1_000_000] - sent[second * 1_000_000]
        # a packet at either end; where a step is, the frame that was being sent goes on at the old rate
        assert abs(carried * 8 - rate_bps) <= max(0.001 * rate_bps, 2 * 8 * FRAME_BYTES), second
    for at_us, rate_bps in ((10_000_000, 20e6), (20_000_000, 5e6), (30_000_000, 15e6)):
        first = sent[at_us + 20_000] - sent[at_us + 10_000]
        assert abs(first - rate_bps / 8 * 0.01) <= 1.5 * FRAME_BYTES


def test_ten_seconds_at_a_rate_are_within_a_tenth_of_a_percent(run_example):
    sent = samples_of(run_example("steps"), changing(run_example("steps")))["sent_bytes"]
    for begin_s, rate_bps in ((0, 10e6), (10, 20e6), (20, 5e6), (30, 15e6)):
        begin, end = begin_s * 1_000_000 + 100_000, begin_s * 1_000_000 + 9_990_000
        assert (sent[end] - sent[begin]) * 8e6 / (end - begin) == pytest.approx(rate_bps, rel=0.001)


def test_every_change_is_noted_when_it_took_effect(run_example):
    changes = run_example("steps").table("link_changes")
    assert changes["due_us"].tolist() == changes["t_us"].tolist() == [10_000_000, 20_000_000, 30_000_000]
    assert changes["rate_bps"].tolist() == [20_000_000, 5_000_000, 15_000_000]
    assert changes["delay_us"].tolist() == [5000, 5000, 1000]


def test_a_trace_lets_exactly_its_opportunities_go(run_example):
    """While packets wait each instant sends what it offers, and nothing leaves at other times."""
    run = run_example("replayed")
    rows = run.table("opportunities")
    times_ms = [int(line) for line in (_DOCS / "examples/bursts.trace").read_text().split()]
    due = [ms + turn * times_ms[-1] for turn in range(4) for ms in times_ms if ms + turn * times_ms[-1] < 3500]
    assert [us // 1000 for us, count in zip(rows["due_us"], rows["packets"]) for _ in range(count)] == due
    used = rows["sent_packets"].diff().fillna(rows["sent_packets"])
    busy = rows["due_us"].between(100_000, 3_190_000)
    assert (used[busy] == rows["packets"][busy]).all() and busy.sum() > 1500
    assert (rows["t_us"] - rows["due_us"]).abs().max() <= 1
    link = next(link for link in Network(run.json("raw/network.json")).links if link.opportunities)
    sent = samples_of(run, link)["sent_packets"]
    # a sample at the instant of an opportunity comes before it
    for at_us in range(200_000, 3_100_000, 100_000):
        offered = sum(count for _, count in varying.opportunities(link, at_us, at_us + 100_000))
        assert sent[at_us + 100_000] - sent[at_us] == offered


# -- what wires do to packets --------------------------------------------------------------------

#: of a full packet at 10 Mbit/s, and at the two access links of 1 Gbit/s; a clock costs some us
SENDING_US, MOMENT_US = 1514 * 8 / 10 + 2 * 1514 * 8 / 1000, 30


@pytest.fixture(scope="module")
def wires(run_example):
    """(what the receiver of each flow counted, by sender and receiver; counters of links)"""
    run = run_example("wires")
    guest, workload = run.json("raw/guest.json"), run.json("raw/workload.json")
    counts = {one["flow"]: one for account in guest["traffic"].values() for one in account["flows"]}
    flows = {(flow["sender"], flow["receiver"]): counts[flow["flow"]] for flow in workload["flows"]}
    return flows, run.json("raw/counters.json")["drained"]


def by_chance(count, packets, share, deviation=None):
    """Within five standard deviations: beyond them once in 1.7 million times."""
    deviation = deviation or (packets * share * (1 - share)) ** 0.5
    assert abs(count - packets * share) <= 5 * deviation, (count, packets * share, deviation)


def test_losses(wires):
    flows, links = wires
    gilbert, periodic, policed = flows["n1", "n2"], flows["n2", "n1"], flows["n2", "n3"]
    p, r = 0.01, 0.2
    share = p / (p + r)
    variance = share * (1 - share) * (1 + 2 * (1 - p - r) / (p + r))
    by_chance(gilbert["lost_packets"], gilbert["sent_packets"], share, (gilbert["sent_packets"] * variance) ** 0.5)
    assert abs(periodic["lost_packets"] - periodic["sent_packets"] / 50) <= 1
    # a full bucket, and 2.5 s of its rate; the last packet that fits may be a part of one short
    assert 0 <= 30_000 + 4e6 / 8 * 2.5 - links["r2_to_r3"]["wire_delivered_bytes"] <= 2 * FRAME_BYTES
    assert policed["lost_packets"] == links["r2_to_r3"]["chosen_dropped_packets"] > 1000


def test_reordering_by_displacement(wires):
    """Each early packet overtakes three, but for those that overtake each other or come at the beginning."""
    flows, links = wires
    found, early = flows["n3", "n2"], links["r3_to_r2"]["wire_early_packets"]
    by_chance(early, found["sent_packets"], 0.02)
    assert 0.85 * 3 * early <= found["reordered_packets"] <= 3 * early and found["lost_packets"] == 0
    assert abs(found["delay_p50_us"] - 9000 - SENDING_US) <= MOMENT_US
    assert abs(found["delay_min_us"] - (9000 - 3.5 * 1211.2) - SENDING_US) <= MOMENT_US


def test_jitter_keeps_the_order_unless_it_is_told_not_to(wires):
    flows, _ = wires
    ordered, reordering = flows["n3", "n4"], flows["n4", "n3"]
    for found in (ordered, reordering):
        assert found["delay_min_us"] >= 5000 + SENDING_US - MOMENT_US and found["lost_packets"] == 0
        assert found["delay_max_us"] <= 13_000 + SENDING_US + MOMENT_US
    assert ordered["reordered_packets"] == 0 < 500 < reordering["reordered_packets"]
    deviation = 8000 / 12 ** 0.5 / reordering["received_packets"] ** 0.5
    assert abs(reordering["delay_mean_us"] - 9000 - SENDING_US) <= 5 * deviation + MOMENT_US
    assert ordered["delay_mean_us"] > reordering["delay_mean_us"]


def test_copies_and_attempts(wires):
    flows, links = wires
    doubled, again = flows["n4", "n5"], flows["n5", "n4"]
    by_chance(doubled["duplicate_packets"], doubled["sent_packets"], 0.03)
    assert doubled["reordered_packets"] == doubled["lost_packets"] == 0
    assert links["r4_to_r5"]["wire_delivered_packets"] == doubled["sent_packets"] + doubled["duplicate_packets"]
    # 0.1 / 0.9 more attempts on average, geometrically distributed, of 4 ms each
    base_us, deviation = 5000 + 58 * 8 / 10 + 2 * 58 * 8 / 1000, 4000 * 0.1 ** 0.5 / 0.9
    assert abs(again["delay_mean_us"] - base_us - 4000 * 0.1 / 0.9) <= \
        5 * deviation / again["received_packets"] ** 0.5 + MOMENT_US
    assert again["reordered_packets"] == again["lost_packets"] == 0
    assert abs(again["delay_p50_us"] - base_us) <= MOMENT_US
    more = (again["delay_max_us"] - base_us) / 4000
    # that none of so many needs a second attempt has a probability below one in a million
    assert 0.9 ** again["received_packets"] < 1e-6 and more >= 0.99 and abs(more - round(more)) * 4000 <= MOMENT_US


def test_queues_mark_instead_of_dropping_and_each_mark_is_counted_for_its_flow(run_example):
    """The queues, the headers that leave them and the receivers' stacks count the same: nothing is lost behind them."""
    run = run_example("marks")
    links, nodes = run.json("raw/counters.json")["drained"], run.json("raw/snmp.json")["nodes"]
    flows = {(flow["sender"], flow["receiver"]): flow["flow"] for flow in run.json("raw/workload.json")["flows"]}
    left = run.table("ce_marks").groupby(["link", "flow"])["packets"].sum()
    for number in range(1, 6):
        name = f"r{number}_to_r{number + 1}"
        # PIE drops as long as its probability is above 10 %, as after a slow start it may be
        assert links[name]["ce_marked_packets"] > 0 and (links[name]["dropped_packets"] == 0 or number in (3, 4))
        before = left[f"r{number - 1}_to_r{number}"].get(flows["n1", "n6"], 0) if number in (2, 3) else 0
        assert 0 <= left[name].sum() - links[name]["ce_marked_packets"] <= before
        own = left[name][flows[f"n{2 * number - 1}", f"n{2 * number}"]]
        through = left[name][flows["n1", "n6"]] if number == 3 else 0
        assert nodes[f"n{2 * number}"]["IpExtInCEPkts"][-1] == own + through > own / 2
    assert left["r1_to_r2"].sum() == links["r1_to_r2"]["ce_marked_packets"] and (left["r1_to_r2"] > 0).sum() == 2
    assert not any(link["ce_marked_packets"] for name, link in links.items() if not name.startswith("r"))
    metrics = pd.read_csv(run.folder / "metrics.csv").set_index(["metric", "scope"])["value"]
    for number in flows.values():
        assert 0 < metrics["ce_mark_rate", f"flow_{number}"] < 20 and metrics["ce_marked", f"flow_{number}"] > 0


def test_cake_and_choke_drop_what_is_in_the_queue_and_every_packet_is_accounted_for(run_example):
    """The verdict (conservation, marks, instruments, Little's law) is valid; both queues mark the flows that understand
    it, and drop of the one that does not. CAKE holds as much as its memory limit says."""
    run = run_example("queues")
    links, network = run.json("raw/counters.json")["drained"], run.json("raw/network.json")
    kinds = {link["name"]: link["queue"] for link in network["links"] if link["bottleneck"]}
    assert {kinds["r1_to_r2"], kinds["r2_to_r3"]} == {"cake", "choke"}
    flows = run.json("raw/workload.json")["flows"]
    marks = run.table("ce_marks").groupby(["link", "flow"])["packets"].sum()
    for name, sender in (("r1_to_r2", "n1"), ("r2_to_r3", "n3")):
        assert 0 < marks[name].sum() <= links[name]["ce_marked_packets"]
        assert set(marks[name].index) <= {flow["flow"] for flow in flows
                                          if (flow["transport"], flow["sender"]) == ("tcp", sender)}
    # CHOKe drops of what it has marked, CAKE marks what leaves
    assert marks["r1_to_r2"].sum() == links["r1_to_r2"]["ce_marked_packets"]
    counts = {one["flow"]: one for account in run.json("raw/guest.json")["traffic"].values()
              for one in account.get("flows", ())}
    assert all(counts[flow["flow"]]["lost_packets"] > 20 for flow in flows if flow["transport"] == "udp")
    measured = {one["link"]: one for one in run.json("raw/checks.json")["bottlenecks"]}
    cake = next(link for link in network["links"] if link["queue"] == "cake")
    # of seeds 1 to 6 three have 82, the others 81
    assert cake["capacity_packets"] == 82 and measured["r1_to_r2"]["longest_queue_packets"] in (81, 82)


def test_jumbo_frames(run_example):
    """20 ms of 100 Mbit/s are 28 packets of 9000 bytes, and segments have 8948 bytes."""
    run = run_example("jumbo")
    link = next(link for link in run.json("raw/network.json")["links"] if link["name"] == "right_to_left")
    assert (link["mtu_bytes"], link["limit_packets"], link["capacity_bytes"]) == (9000, 28, 28 * 9014)
    samples = run.table("tcp_info")
    assert set(samples.loc[samples["bytes_acked"] > 0, "mss"]) == {8948}
    assert run.table("queue")["backlog_packets"].max() <= 28
