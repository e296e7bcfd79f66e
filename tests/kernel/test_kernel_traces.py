# SPDX-License-Identifier: GPL-2.0-only
"""Links with traces: what a run uses of them, what a schedule changes beside them, and what is where at the end."""
import collections

import pandas as pd
import pytest

from tests.kernel.small_runs import small_scenario
from tests.kernel.test_kernel_wire import address_of, records
from topologies.links import varying
from topologies.links.records import Link

FRAME_BYTES = 1514


def traced(file, **link):
    """20 Mbit/s of UDP over a link of 1 Gbit/s with a trace."""
    tree = small_scenario(traffic={"kind": "cbr", "rate": "20 Mbit/s", "packet": "1500 B", "paths": ["n2->n1"]},
                          timing={"warmup": "1 s", "test": "2 s"})
    del tree["probes"]["tcp_info"]
    tree["topology"] = {
        "kind": "dumbbell", "central": {"left_to_right": {"rate": "1 Gbit/s", "delay": "5 ms"}, "right_to_left": {
            "rate": "1 Gbit/s", "delay": "5 ms", "trace": str(file), "queue": {"limit": 200}, **link}},
        "edge": {"rate": "10 Gbit/s"}, "left_delays": ["0 ms"], "right_delays": ["1 ms"]}
    return tree


def valid(run):
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    return run


def of_link(run, table):
    rows = run.table(table)
    return rows[rows["link"] == "right_to_left"]


@pytest.fixture(scope="module")
def scheduled(run_scenario, tmp_path_factory):
    """A trace of half a million lines with 1000 opportunities a second, and everything that may change beside it. The
    run ends in an outage, with a full queue."""
    file = tmp_path_factory.mktemp("trace") / "long.trace"
    file.write_text("".join(f"{ms}\n" for ms in range(1, 500_002)))
    return valid(run_scenario(traced(file, queue={"limit": "100 ms"}, schedule=[
        {"at": ["1 s", "1500 ms"], "delay": ["20 ms", "5 ms"]}, {"at": "1 s", "limit": 50},
        {"at": "1200 ms", "loss": "10 %"}, {"at": "1400 ms", "loss": "0 %"}, {"at": "2 s", "outage": "300 ms"},
        {"at": "2700 ms", "outage": "100 s"}])))


def test_outages_take_opportunities_away(scheduled):
    rows = of_link(scheduled, "opportunities")
    assert rows["due_us"].tolist() == [ms * 1000 for ms in range(1, 2700) if not 2000 <= ms < 2300]
    busy = rows["due_us"] > 10_000
    assert (rows["sent_packets"].diff()[busy] == 1).all()


def test_limits_beside_a_trace(scheduled):
    """100 ms at 12.112 Mbit/s, not at that of the wire; then 50 packets, whatever gates do to the FIFO below them."""
    queue = of_link(scheduled, "queue").set_index("t_us")["backlog_packets"]
    assert queue.loc[:1_000_000].max() == 101 and queue.loc[900_000] == 101
    assert queue.loc[1_100_000:].max() == 50 and queue.loc[1_100_000:].min() >= 49


def test_delays_and_losses_beside_a_trace(scheduled):
    changes = of_link(scheduled, "link_changes")
    lost = changes.set_index("due_us")["lost_packets"]
    assert lost[1_200_000] == 0 and 8 <= lost[1_400_000] <= 35 and lost.max() == lost[1_400_000]
    flow, = scheduled.json("raw/guest.json")["traffic"]["cbr"]["flows"]
    # 50 packets, and the delay of 20 ms; all that an outage holds back waits for it
    assert flow["delay_min_us"] > 6000 and flow["delay_max_us"] > 300_000


def test_what_leaves_after_the_end_is_in_no_table(scheduled):
    sent = of_link(scheduled, "queue")["sent_packets"].iloc[-1]
    assert of_link(scheduled, "sojourn")["packets"].sum() == sent == of_link(scheduled, "opportunities")[
        "sent_packets"].iloc[-1]


def test_the_mean_rate_is_that_of_the_time(run_scenario, tmp_path):
    """The rest of the trace is ten times as fast. The verdict takes the end, with a full queue, for what it is."""
    file = tmp_path / "slow-then-fast.trace"
    file.write_text("".join(f"{ms}\n" * (1 if ms <= 3000 else 10) for ms in range(1, 30_001)))
    run = valid(run_scenario(traced(file)))
    values = pd.read_csv(run.folder / "metrics.csv").set_index(["metric", "scope"])["value"]
    assert values["queueing_delay_backlog_mean", "right_to_left"] == pytest.approx(200, abs=0.5)
    assert values["queueing_delay_mean", "right_to_left"] == pytest.approx(199.7, abs=0.5)
    assert values["utilisation", "right_to_left"] == pytest.approx(100, abs=0.1)


def test_small_packets_share_an_opportunity(run_scenario, tmp_path):
    """25 frames of 60 B are a frame: they leave at once, and are on the wire together, each for its own transmission.
    None is there when the next ones leave."""
    file = tmp_path / "one.trace"
    file.write_text("1\n")
    tree = traced(file)
    tree["traffic"] |= {"rate": "14 Mbit/s", "packet": "46 B"}
    tree["timing"] = {"warmup": "100 ms", "test": "400 ms"}
    tree["probes"]["pcap"] = {"nodes": ["r1", "r2"], "interval": "1 ms"}
    run = valid(run_scenario(tree))
    link, = (link for link in run.json("raw/network.json")["links"] if link["name"] == "right_to_left")
    source = address_of(run, "n2")
    left, arrived = ([time_ns for time_ns, address, _ in records(run.folder / f"raw/capture-{device}.pcap.gz")
                      if address == source] for device in (link["device"], link["peer_device"]))
    sending_ns, place = 60 * 8e9 / link["rate_bps"], collections.Counter()
    # from when the queue is full to the end of the run
    for before, after in ((before, after) for before, after in zip(left, arrived) if 50_000_000 < before < 500_000_000):
        place[before] += 1
        assert after - before - link["delay_us"] * 1000 == pytest.approx(place[before] * sending_ns, abs=30)
    assert set(place.values()) == {25} and len(place) == 450
    assert FRAME_BYTES * 8e9 / link["rate_bps"] >= 25 * sending_ns
    assert varying.nominal_bps(Link(link)) == 12_112_000
