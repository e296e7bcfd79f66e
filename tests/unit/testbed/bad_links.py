# SPDX-License-Identifier: GPL-2.0-only
"""Runs whose links change, and that are bad in one way each, as bad_runs.py has those whose links do not."""
import pandas as pd

from tests.unit.testbed.bad_runs import Bad
from tests.unit.testbed.spoils import both, cell, drop, more, no_link, put, scaled, udp, without

_RATE_BPS = 60_003_376          # what the queue of the good run carries, which is never empty
SCHEDULE = [{"at_us": 10_000_000, "rate_bps": _RATE_BPS}, {"at_us": 15_000_000, "loss_percent": 1.0},
            {"at_us": 20_000_000, "up": False}, {"at_us": 20_000_001, "up": True}]
_PACKETS = (49_540, 74_310, 99_080, 99_080)


def changing(files):
    """right_to_left changes, on time and as it was told to; it loses 1 % of what arrives from 15 s on: 743."""
    link = next(link for link in files["network.json"]["links"] if link["name"] == "right_to_left")
    link.update(rate_bps=_RATE_BPS, schedule=SCHEDULE)
    files["link_changes"] = pd.DataFrame([
        {"t_us": change["at_us"], "due_us": change["at_us"], "link": "right_to_left", "rate_bps": _RATE_BPS,
         "delay_us": link["delay_us"], "loss_percent": 1.0 * (number > 0), "limit": 850, "up": int(number != 2),
         "sent_bytes": packets * 1514, "sent_packets": packets, "arrived_packets": packets, "lost_packets": 0}
        for number, (change, packets) in enumerate(zip(SCHEDULE, _PACKETS))])
    lose(743)(files)


def deep(files):
    """What waits is more than the link carries between two samples."""
    files["queue"] = files["queue"].assign(backlog_bytes=10**7)


def stuck_from(from_s):
    """Nothing leaves right_to_left from a time on, to the end."""
    def spoil(files):
        queue, sojourn = files["queue"], files["sojourn"]
        late = (queue["t_us"] > from_s * 10**6) & (queue["link"] == "right_to_left")
        for name in ("sent_packets", "sent_bytes"):
            queue.loc[late, name] = queue[name][~late & (queue["link"] == "right_to_left")].max()
        files["sojourn"] = sojourn[(sojourn["t_us"] < from_s * 10**6) | (sojourn["link"] != "right_to_left")]
    return spoil


stuck = stuck_from(20)


def to_the_end(files):
    """The last change of `changing` is left out, so that its outage has no end."""
    link, = (one for one in files["network.json"]["links"] if one["name"] == "right_to_left")
    link["schedule"] = SCHEDULE[:-1]
    files["link_changes"] = files["link_changes"][:-1]


def slow_wire(files):
    next(link for link in files["network.json"]["links"] if link["name"] == "right_to_left")["rate_bps"] = 50_000_000


def lose(packets):
    def spoil(files):
        files["counters.json"]["drained"]["right_to_left"]["wire_dropped_packets"] = packets
    return spoil


def told(key, value, **counters):
    """n1_to_r1 is told something beside its delay, and counts accordingly."""
    def spoil(files):
        next(link for link in files["network.json"]["links"] if link["name"] == "n1_to_r1")[key] = value
        files["counters.json"]["drained"]["n1_to_r1"].update(counters)
    return spoil


def timed(delay_min_us=4364, delay_p50_us=5000, delay_max_us=9000, **wire):
    """UDP flows whose packets take 4363 us at least over a way on which right_to_left has more of what is given."""
    def spoil(files):
        udp(delay_min_us=delay_min_us, delay_p50_us=delay_p50_us, delay_max_us=delay_max_us,
            received_bytes=450 * 1500)(files)
        next(link for link in files["network.json"]["links"] if link["name"] == "right_to_left").update(wire)
    return spoil


EARLY = {"share_percent": 2.0, "early_us": 1500}
AGAIN = {"loss_percent": 10.0, "delay_us": 4000, "attempts": 7}


def traced(files):
    """right_to_left has a trace: 49,540 opportunities every 10 s, all used by a queue that is never empty."""
    link = next(link for link in files["network.json"]["links"] if link["name"] == "right_to_left")
    link["opportunities"] = {"times": [[10_000_000, 49_540]], "period_us": 10_000_000}
    files["opportunities"] = pd.DataFrame([
        {"t_us": at_us, "due_us": at_us, "link": "right_to_left", "packets": 49_540, "backlog_packets": 850,
         "sent_packets": 49_540 * turn, "sent_bytes": 49_540 * 1514 * turn}
        for turn, at_us in enumerate((10_000_000, 20_000_000), start=1)])


def marking(files):
    """right_to_left marks 500 packets of flow 1 on their way back, 60 of which come with CE from n2_to_r2."""
    for link in files["network.json"]["links"]:
        if link["name"] in ("right_to_left", "n2_to_r2"):
            link["queue_options"] = {**link["queue_options"], "ecn": True}
    for name, packets in (("right_to_left", 500), ("n2_to_r2", 60)):
        files["counters.json"]["drained"][name]["ce_marked_packets"] = packets
    files["snmp.json"]["nodes"]["n1"]["IpExtInCEPkts"] = [100, 550, 550]
    files["ce_marks"] = pd.DataFrame([
        {"t_us": 5_000_000, "link": link, "flow": 1, "backward": 1, "packets": packets, "bytes": packets * 1514}
        for link, packets in (("n2_to_r2", 60), ("right_to_left", 200), ("right_to_left", 350))])


def by_red(files):
    """The same, where two packets that were marked did not leave."""
    marking(files)
    for link in files["network.json"]["links"]:
        link["queue"] = "red"
    files["counters.json"]["drained"]["n2_to_r2"].update(ce_marked_packets=62, dropped_packets=2)


def by_dualpi2(files):
    """The same, where the queue has counted 60 packets 120 times."""
    marking(files)
    for link in files["network.json"]["links"]:
        if link["queue_options"].get("ecn"):
            link["queue"] = "dualpi2"
    files["counters.json"]["drained"]["n2_to_r2"]["ce_marked_packets"] = 120


CHECKS = [
    Bad("delays", "too early", timed(delay_min_us=4360), "invalid",
        "flow 9: a packet took 4.360 ms, its way takes 4.363 ms at least"),
    Bad("delays", "earlier than early", timed(delay_min_us=2860, reorder=EARLY), "invalid",
        "flow 9: a packet took 2.860 ms, its way takes 2.863 ms at least"),
    Bad("delays", "early without an end", timed(delay_min_us=2864, delay_p50_us=2866, reorder=EARLY), "invalid",
        "flow 9: half of the packets took no longer than 2.866 ms, those that nothing lets go early take 4.363 ms"),
    Bad("delays", "no jitter", timed(delay_max_us=7300, jitter={"spread_us": 6000, "reordering": False}), "invalid",
        "no packet took longer than 7.300 ms: nothing was delayed at random, 7.363 ms expected"),
    Bad("delays", "nothing sent again", timed(delay_max_us=8300, retransmission=AGAIN), "invalid",
        "no packet took longer than 8.300 ms: nothing was delayed at random, 8.363 ms expected"),
    Bad("delays", "too short a round trip", cell("tcp_info", "min_rtt_us", 6990, 40), "invalid",
        "flow 1: a round trip took 6.990 ms, its way takes 8.026 ms at least"),
    Bad("marks", "not counted", both(marking, without("ce_marks")), "suspect",
        "the marks of 2 queues were not counted"),
    Bad("marks", "no room", both(marking, put("guest.json", "probes/ce_marks", {"lost_packets": 3})), "invalid",
        "there was no room for 3 packets with CE"),
    Bad("marks", "of no flow", both(marking, cell("ce_marks", "flow", 0, 0)), "suspect",
        "60 packets with CE are of none of the 1 flows"),
    Bad("marks", "one too few", both(marking, more("ce_marks", "packets", -1, 0)), "invalid",
        "n2_to_r2: 59 packets left with CE, of 60 that its queue marked$"),
    Bad("marks", "more than were marked or came so", both(marking, cell("ce_marks", "packets", 211, 1)), "invalid",
        "right_to_left: 561 packets left with CE, of 500 that its queue marked and 60 that came with it"),
    Bad("marks", "fewer than half of what dualpi2 counts", both(by_dualpi2, more("ce_marks", "packets", -1, 0)),
        "invalid", "n2_to_r2: 59 packets left with CE, of 120 that its queue marked$"),
    Bad("marks", "fewer arrived", both(marking, put("snmp.json", "nodes/n1/IpExtInCEPkts", [1, 549, 549])), "invalid",
        "n1: 549 packets arrived with CE, 550 left the queues that mark"),
    Bad("schedule", "a trace, not recorded", both(traced, without("opportunities")), "suspect",
        "no record of the opportunities of its trace"),
    Bad("schedule", "an instant of a trace is missing", both(traced, drop("opportunities", slice(1, 2))), "invalid",
        "49540 opportunities at 1 instants, up to 0 us late, not the 99080 of its trace"),
    Bad("schedule", "an instant of a trace is late", both(traced, more("opportunities", "t_us", 2, 1)), "invalid",
        "99080 opportunities at 2 instants, up to 2 us late"),
    Bad("schedule", "more than a trace offers", both(traced, more("opportunities", "sent_bytes", 1, 1)), "invalid",
        "of 99080 opportunities of its trace 1 instants did not use what they should"),
    Bad("schedule", "less, though packets wait", both(traced, more("opportunities", "sent_bytes", -1514, 1)), "invalid",
        "1 instants did not use what they should"),
    Bad("schedule", "a trace offers more than its wire sends", both(traced, slow_wire), "suspect",
        "up to 12503560 bytes of its trace's opportunities waited on the wire, .* rate of 50 Mbit/s: 60.0028 Mbit/s"),
    Bad("littles_law", "packets unseen before an outage at the end", both(stuck, scaled("sojourn", "packets", 0.9)),
        "suspect", r"8\d\d.\d\d packets queued on average"),
    Bad("conservation", "too many doubled", told("duplicate_percent", 1.0, wire_delivered_packets=76_000), "suspect",
        r"n1_to_r1 sent 1000 of 75000 packets twice, 750 expected \(1 %\)"),
    Bad("conservation", "too few early", told("reorder", {"share_percent": 1.0, "early_us": 2000},
                                              wire_early_packets=3), "suspect",
        r"n1_to_r1 let 3 of 75000 packets go 2 ms early, 750 expected"),
    Bad("losses", "not every 100th", told("loss_model", {"kind": "periodic", "every": 100}, wire_dropped_packets=748,
                                          chosen_dropped_packets=748), "invalid",
        "n1_to_r1 lost 748 of 75000 packets, every 100th"),
    Bad("losses", "too much for a policer", told("policer", {"rate_bps": 10**6, "burst_bytes": 3000},
                                                 wire_delivered_bytes=6_000_000), "invalid",
        "n1_to_r1: its policer dropped 0 of 75000 packets, 6000000 bytes went on, of 5628000"),
    Bad("datagrams", "more than were doubled", both(udp(duplicate_packets=3), told(
        "duplicate_percent", 1.0, wire_delivered_packets=75_001)), "invalid", "0 doubled on their way and 3 of them"),
    Bad("losses", "changing, not recorded", both(changing, without("link_changes")), "suspect",
        "right_to_left: no record of its changes"),
    Bad("losses", "changing, too many", both(changing, lose(1000)), "suspect",
        r"right_to_left lost 1000 of 148620 packets at random, 743 expected \(4 changes"),
    Bad("schedule", "not recorded", both(changing, without("link_changes")), "suspect", "no record of the changes"),
    Bad("schedule", "another link", both(changing, no_link("link_changes", "right_to_left")), "invalid",
        "right_to_left: 0 changes were made, not the 4"),
    Bad("schedule", "one missing", both(changing, drop("link_changes", slice(1, 2))), "invalid",
        "right_to_left: 3 changes were made, not the 4"),
    Bad("schedule", "another rate", both(changing, cell("link_changes", "rate_bps", 10**7, 1)), "invalid",
        "4 changes were made, not the 4 that"),
    Bad("schedule", "late", both(changing, more("link_changes", "t_us", 2, 1)), "invalid",
        "right_to_left: 4 changes, at most 2 us late"),
    Bad("schedule", "late on a wall clock", both(changing, more("link_changes", "t_us", 6000, 1)), "suspect",
        "right_to_left: 4 changes, at most 6000 us late", {"clock": "real"}),
    Bad("schedule", "sent in an outage", both(changing, more("link_changes", "sent_packets", 3, 3)), "invalid",
        "right_to_left sent 3 packets during outages"),
    Bad("schedule", "sent in an outage to the end", both(changing, to_the_end), "invalid",
        "right_to_left sent 49540 packets during outages"),
    Bad("schedule", "another rate than its own", both(changing, more("queue", "sent_bytes", 10**6, slice(15, 31))),
        "invalid", "right_to_left carried 226010680 bytes from 0 to 30 s, when its queue was never empty, not 2250"),
    Bad("schedule", "less than its rate", both(changing, deep, more("queue", "sent_bytes", -10**6, slice(15, 31))),
        "invalid", "right_to_left carried 224010680 bytes from 0 to 30 s, when its queue was never empty, not 2250"),
]


#: (check, change): what is fine for a link that changes
FINE = [("delays", timed()), ("delays", timed(delay_min_us=2864, reorder=EARLY)),
        ("delays", timed(jitter={"spread_us": 6000, "reordering": True})), ("delays", timed(retransmission=AGAIN)),
        ("delays", changing), ("marks", marking), ("marks", by_red),
        ("marks", by_dualpi2),
        ("schedule", both(changing, deep)), ("schedule", traced), ("losses", changing), ("instruments", changing),
        ("littles_law", changing), ("littles_law", stuck),
        ("delivered", changing), ("times", changing), ("edges", changing)]
