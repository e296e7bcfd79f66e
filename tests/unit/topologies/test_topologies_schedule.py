# SPDX-License-Identifier: GPL-2.0-only
"""Schedules of links: what they may say, the changes that follow, and what netlink is told."""
import struct

import pytest
from hypothesis import given, strategies as st

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.links import records, schedule, varying
from topologies.links.link import Link
from topologies.linux import read_back, tc, tc_messages


def link(*entries, **section):
    section = {"rate_bps": 10**7, "delay_us": 5000, "queue": {"limit": 100}, **section}
    return fields.decode(Link, {**section, "schedule": list(entries)})


def changes(*entries, **section):
    return link(*entries, **section).changes()


def refused(*entries, **section):
    with pytest.raises(FieldError) as problem:
        link(*entries, **section)
    return problem.value.field, str(problem.value)


def record(schedule, **more):
    return records.Link({
        "name": "a_to_b", "device": "a-eth0", "peer_device": "b-eth0", "rate_bps": 10**7, "delay_us": 5000,
        "loss_percent": 0.0, "queue": "pfifo", "queue_options": {"limit": 100}, "limit_packets": 100,
        "limit_bytes": None, "jitter_us": 0, "coalescing_us": 0, "packet_cost_us": 0, "gso": False,
        "lose_segments": [], "lose_copies": 1, "schedule": schedule, **more})


def test_steps_tables_and_outages():
    assert changes({"at_us": [10, 20], "rate_bps": [2000, 3000], "loss_percent": 1.5}, {"at_us": 20, "limit": 5},
                   {"at_us": 15, "outage_us": 30}) == [
        {"at_us": 10, "rate_bps": 2000, "loss_percent": 1.5}, {"at_us": 15, "up": False},
        {"at_us": 20, "rate_bps": 3000, "loss_percent": 1.5, "limit": 5}, {"at_us": 45, "up": True}]


def test_a_ramp_begins_with_what_is_so_and_ends_with_its_value():
    ramp = changes({"at_us": 0, "rate_bps": 4000}, {"at_us": 10_000, "until_us": 50_000, "every_us": 10_000,
                                                    "rate_bps": 8000, "delay_us": 1000})
    assert [(one["at_us"], one["rate_bps"], one.get("delay_us")) for one in ramp] == [
        (0, 4000, None), (20_000, 5000, 4000), (30_000, 6000, 3000), (40_000, 7000, 2000), (50_000, 8000, 1000)]


def test_a_walk_stays_within_its_bounds_and_is_the_same_for_its_seed():
    def walk(seed):
        return [one["rate_bps"] for one in changes({
            "at_us": 0, "until_us": 10**8, "every_us": 10**5, "walk": {
                "least_bps": 9 * 10**6, "most_bps": 11 * 10**6, "step_percent": 5, "seed": seed}})]
    one = walk(1)
    assert len(one) == 1000 and min(one) == 9 * 10**6 and max(one) == 11 * 10**6
    assert all(1 / 1.051 < later / earlier < 1.051 for earlier, later in zip(one, one[1:]))
    assert one == walk(1) != walk(2)


@pytest.mark.parametrize("entries, field, message", [
    ([{"at_us": 1}], "schedule.1", "says nothing that changes"),
    ([{"rate_bps": 10**6}], "schedule.1.at", "is missing"),
    ([{"at_us": [2, 1], "rate_bps": 10**6}], "schedule.1.at", "increasing order"),
    ([{"at_us": [1, 2, 3], "rate_bps": [10**6, 10**5]}], "schedule.1.rate", "3 values expected"),
    ([{"at_us": 1, "rate_bps": 10}], "schedule.1.rate", "at least 1 kbit/s"),
    ([{"at_us": 1, "rate_bps": 10**6}, {"at_us": 1, "rate_bps": 10**5}], "schedule.2.at", "1e-06 s is not after"),
    ([{"at_us": 10**6, "outage_us": 10**6}, {"at_us": 1_500_000, "outage_us": 1}], "schedule.2.at",
     "after the end of the one before expected, and 1.5 s is not after 2 s"),
    ([{"at_us": 1, "limit_bytes": 3000}], "schedule.1.limit", "packets expected"),
    ([{"at_us": 1, "limit": 3, "limit_bytes": 3000}], "schedule.1.limit", "which of them"),
    ([{"at_us": 1, "walk": {"least_bps": 1000, "most_bps": 2000}}], "schedule.1.until", "is missing"),
    ([{"at_us": 1, "until_us": 2, "rate_bps": 10**6}], "schedule.1.until", "ends one step later"),
    ([{"at_us": 0, "until_us": 10**6, "outage_us": 5}], "schedule.1.until", "not both or an outage"),
    ([{"at_us": 0, "until_us": 10**6, "walk": {"least_bps": 2000, "most_bps": 2000}}], "schedule.1.walk.most",
     "more than least"),
    ([{"at_us": 0, "until_us": 10**12, "every_us": 1000, "rate_bps": 10**6}], "schedule.1.every",
     "more than 20000 steps"),
    ([{"at_us": [n * 2 for n in range(20_000)], "rate_bps": 10**6}, {"at_us": 1, "limit": 7}], "schedule.2",
     "more than 20000 changes"),
    ([{"at_us": 1, "every_us": 1000, "rate_bps": 10**6}], "schedule.1.every", "only with until"),
    ([{"at_us": 1, "limit": 2**32}], "schedule.1.limit", "at most 4294967295"),
    ([{"at_us": 0, "until_us": 10**6, "walk": {"least_bps": 2000, "most_bps": 10**12}}], "schedule.1.walk.most",
     "at most 100 Gbit/s"),
])
def test_what_cannot_be(entries, field, message):
    found = refused(*entries)
    assert found[0] == field and message in found[1], found


def test_a_change_is_before_the_end():
    section = {"links": [{"left_to_right": {"schedule": [{"at_us": [1, 9]}, {"at_us": 5}]}}]}
    schedule.in_time(section, 6)
    with pytest.raises(FieldError, match="5e-06 s is not before the end at 5e-06 s") as problem:
        schedule.in_time(section, 5)
    assert problem.value.field == "links.1.left_to_right.schedule.2.at"


def test_limits_of_some_queues_cannot_change():
    field, message = refused({"at_us": 1, "limit_bytes": 3000}, queue={"kind": "red", "limit_bytes": 10**6})
    assert field == "schedule" and message.endswith("bfifo, codel, fq, fq_codel, fq_pie, pfifo, pie")
    assert changes({"at_us": 1, "limit_bytes": 3000}, queue={"kind": "bfifo", "limit_bytes": 10**6})[0]["limit"] == 3000


def test_a_link_without_a_schedule_has_none_in_its_record():
    from topologies.base import EmulatedTopo

    class Pair(EmulatedTopo):
        def build(self, section):
            self.link(self.host("a"), self.host("b"), section, section)
    plain, = (Pair(fields.decode(Link, {"rate_bps": 10**6})).describe()["links"][:1])
    assert "schedule" not in plain
    found = Pair(link({"at_us": 7, "rate_bps": 2000})).describe()["links"][0]["schedule"]
    assert found == [{"at_us": 7, "rate_bps": 2000}]


# -- what is so when ------------------------------------------------------------------------------

SCHEDULE = [{"at_us": 10, "rate_bps": 2 * 10**7}, {"at_us": 20, "up": False}, {"at_us": 25, "up": True, "limit": 7},
            {"at_us": 30, "delay_us": 1000, "rate_bps": 10**6}]


def test_means_and_bounds():
    one = record(SCHEDULE)
    assert varying.mean_rate_bps(one, 0, 40) == (10 * 10**7 + 15 * 2 * 10**7 + 10 * 10**6) / 40
    assert varying.mean_rate_bps(one, 21, 24) == 0 and varying.mean_rate_bps(record([]), 3, 5) == 10**7
    assert (varying.least(one, "rate_bps"), varying.most(one, "rate_bps")) == (10**6, 2 * 10**7)
    assert (varying.least(one, "delay_us"), varying.most(one, "limit")) == (1000, 100)
    assert varying.longest_pause_us(one) == 5 and varying.longest_pause_us(record([])) == 0
    assert varying.longest_pause_us(record(SCHEDULE[:2])) == float("inf")


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1000, 10**9)), max_size=10), st.integers(0, 300),
       st.integers(1, 300))
def test_spans_cover_an_interval_without_gaps(steps, from_us, length_us):
    at_us, schedule = 0, []
    for wait_us, rate_bps in steps:
        at_us += wait_us
        schedule.append({"at_us": at_us, "rate_bps": rate_bps})
    found = list(varying.spans(record(schedule), from_us, from_us + length_us))
    assert found[0][0] == from_us and found[-1][1] == from_us + length_us
    assert all(end == begin for (_, end, _), (begin, _, _) in zip(found, found[1:]))


# -- what tc and netlink are told -------------------------------------------------------------------

def test_a_link_that_changes_has_the_usual_shaper():
    assert tc.egress(record([{"at_us": 1, "rate_bps": 2000}]), 0) == [
        "qdisc add dev a-eth0 root handle 3: htb default 1",
        "class add dev a-eth0 parent 3: classid 3:1 htb rate 10000000bit ceil 10000000bit burst 1 cburst 1 "
        "quantum 1514",
        "qdisc add dev a-eth0 parent 3:1 handle 10: pfifo limit 100"]
    assert {kind for kind, _ in tc.shaping(record([{"at_us": 1, "rate_bps": 2000}]), 0).values()} == {
        "htb", "htb class"}


def test_after_the_traffic_a_link_is_as_its_last_change_before_the_end_says():
    link = record([{"at_us": 1, "rate_bps": 2000, "limit": 7, "loss_percent": 50}, {"at_us": 5, "rate_bps": 4000}])
    assert [tc.shaping(link, 0, ended_us)["3:1"][1]["rate"] for ended_us in (None, 1, 4, 5)] == [1250000, 250, 250, 500]
    assert [read_back.sending(link, 0, 1000, ended_us)["10:"][1]["limit"] for ended_us in (None, 4)] == [100, 7]
    assert [read_back.arriving(link, ended_us)["2:"][1]["loss"] for ended_us in (None, 4)] == [
        (0, 1), (2**31 - 1, 2**31 + 1)]


def test_one_with_outages_has_a_gate_before_it():
    lines = tc.egress(record(SCHEDULE), 0)
    assert [line.split("handle ")[1].split()[:2] for line in lines if "handle" in line] == [
        ["1:", "prio"], ["2:", "tbf"], ["3:", "htb"], ["10:", "pfifo"]]
    assert lines[1] == "filter add dev a-eth0 parent 1: protocol 0x88b5 matchall action gact trap"
    assert [kind for kind, _ in tc.shaping(record(SCHEDULE), 0).values()] == ["prio", "tbf", "htb", "htb class"]


def test_a_delay_that_changes_is_apart_from_the_rate():
    delays = [line for line in tc.ingress(record(SCHEDULE, coalescing_us=50), "wb-eth0") if "netem" in line]
    assert [line.split("handle ")[1].split(" limit")[0] for line in delays] == ["2: netem", "3: netem", "4: netem"]
    assert "delay 0us rate 10000000bit" in delays[0] and "delay 5000us rate 8000000000000000bit" in delays[1]
    assert "parent 3:1" in delays[2] and "slot" in delays[2]


def parts(message):
    """(type, handle, parent, kind, options) of a message."""
    length, what, flags = struct.unpack_from("=IHH", message)
    assert length == len(message) and flags == 5
    ifindex, handle, parent = struct.unpack_from("=iII", message, 20)
    assert ifindex == 77
    size, kind = struct.unpack_from("=HH", message, 36)
    name = message[40:36 + size].rstrip(b"\0").decode()
    at = 36 + (size + 3) // 4 * 4
    size, _ = struct.unpack_from("=HH", message, at)
    return what, handle, parent, name, message[at + 4:at + size]


def test_messages():
    what, handle, parent, kind, options = parts(tc_messages.rate(77, 10**8, 0))
    assert (what, handle, parent, kind) == (40, 0x30001, 0x30000, "htb")
    assert struct.unpack_from("=I", options, 4 + 8) == (12_500_000,)        # bytes per second
    assert parts(tc_messages.limit(77, "pfifo", 7)) == (36, 0x100000, 0x30001, "pfifo", struct.pack("=I", 7))
    assert parts(tc_messages.limit(77, "codel", 7))[-1] == struct.pack("=HHI", 8, 2, 7)
    *_, kind, shut = parts(tc_messages.gate(77, record(SCHEDULE), False))
    rate, ticks, least = struct.unpack_from("=I", shut, 12)[0], struct.unpack_from("=I", shut, 32)[0], \
        struct.unpack_from("=H", shut, 10)[0]
    # a frame fits into the bucket, and takes more out of it than there can be
    assert kind == "tbf" and 1514 < ticks * 64 * rate / 1e9 < least == 65535
    # a FIFO right below a gate gets its limit from it
    assert struct.unpack_from("=I", shut, 28) == (100,)
    *_, granted = parts(tc_messages.grant(77, record(SCHEDULE), 3028))
    assert struct.unpack_from("=HHI", granted, 40) == (8, 6, 3028)
    state = varying.initial(record(SCHEDULE))._replace(loss_percent=50.0)
    *_, kind, netem = parts(tc_messages.wire(77, record(SCHEDULE), state))
    assert kind == "netem" and struct.unpack_from("=II", netem, 8) == (2**31, 0)
    *_, handle, parent, _, netem = parts(tc_messages.delay(77, record(SCHEDULE), state._replace(delay_us=1000)))
    assert (handle, parent) == (0x30000, 0x20001) and struct.unpack_from("=q", netem, 28) == (1_000_000,)
