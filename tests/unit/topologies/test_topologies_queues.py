# SPDX-License-Identifier: GPL-2.0-only
"""Queues: what scenarios may ask for, what tc is told, and what each holds."""
import dataclasses
import inspect
import struct

import pytest
from hypothesis import given, settings, strategies as st

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies import queues
from topologies.links.records import Link
from topologies.linux import tc, tc_messages
from topologies.queues import _red
from topologies.queues._queue import bytes_for_time, packets_for_time

QUEUES = queues.kinds()


@dataclasses.dataclass(frozen=True)
class Holder:
    queue: queues.Queue = queues.field()


def queue(**section):
    return fields.decode(Holder, {"queue": section}).queue


def words(rate_bps=10**8, **section):
    return tc.queue_words(Link(queue(**section).describe(rate_bps)))


def refused(rate_bps=10**8, **section):
    with pytest.raises(FieldError) as problem:
        queue(**section).options(rate_bps)
    return problem.value.field.removeprefix("queue."), str(problem.value)


def test_a_limit_in_packets():
    described = queue(kind="pfifo", limit=850).describe(10**8)
    assert described == {"queue": "pfifo", "queue_options": {"limit": 850}, "queue_traits": ["tail_drop", "flow_blind"],
                         "limit_packets": 850, "limit_bytes": None, "capacity_packets": 850,
                         "capacity_bytes": 850 * 1514, "capacity_us": 102_952}
    assert queue() == queue(kind="pfifo") and queue().options(1000) == {"limit": 1000}


def test_a_limit_in_bytes():
    described = queue(kind="bfifo", limit_bytes=850 * 1514).describe(10**8)
    assert (described["limit_packets"], described["limit_bytes"]) == (None, 850 * 1514)
    same = queue(kind="pfifo", limit=850).describe(10**8)
    capacities = [key for key in same if "capacity" in key]
    assert len(capacities) == 3 and [described[key] for key in capacities] == [same[key] for key in capacities]


def test_a_limit_as_a_time_is_turned_into_the_unit_of_the_queue():
    """100 ms at 100 Mbit/s are 833 packets, or 1.25 MB where the limit is in bytes."""
    assert packets_for_time(10**8, 100_000) == 833 and packets_for_time(10**6, 1) == 1
    assert bytes_for_time(10**8, 100_000) == 1_250_000 and bytes_for_time(10**6, 1) == 1514
    for kind in QUEUES.keys() - {"cake"}:
        described = queue(kind=kind, limit_us=100_000).describe(10**8)
        limit = {"limit_packets": 833, "limit_bytes": None} if kind not in ("bfifo", "red") else {
            "limit_packets": None, "limit_bytes": 1_250_000}
        assert {key: described[key] for key in limit} == limit
        assert described["queue_options"]["limit"] in (833, 1_250_000)
        assert 820 <= described["capacity_packets"] <= 833 and 99_000 <= described["capacity_us"] <= 101_000


def test_every_queue_tells_its_limit():
    """Where none is given, the kernel's own."""
    in_packets = [kind for kind in QUEUES if kind not in ("bfifo", "red", "cake")]
    assert {kind: queue(kind=kind).describe(10**8)["limit_packets"] for kind in in_packets} == {
        "pfifo": 1000, "codel": 1000, "fq_codel": 10240, "pie": 1000, "fq_pie": 10240,
        "fq": 10_000, "sfq": 127, "choke": 1000, "dualpi2": 10_000}
    assert queue(kind="cake").describe(10**8)["limit_bytes"] == 10_240 * 1514
    assert refused(kind="bfifo") == ("limit", "is missing") == refused(kind="red")


@pytest.mark.parametrize("section, expected", [
    ({"kind": "pfifo", "limit": 850}, "pfifo limit 850"),
    ({"kind": "bfifo", "limit_bytes": 150_000}, "bfifo limit 150000"),
    ({"kind": "codel", "limit": 1000, "target_us": 5000, "interval_us": 100_000, "ecn": True},
     "codel limit 1000 target 5000us interval 100000us ecn"),
    ({"kind": "codel", "ecn": False}, "codel limit 1000 noecn"),
    ({"kind": "fq_codel", "flows": 1024, "quantum_bytes": 1514, "ecn": False},
     "fq_codel limit 10240 flows 1024 quantum 1514 noecn"),
    ({"kind": "pie", "tupdate_us": 15_000, "alpha": 2, "beta": 20}, "pie limit 1000 tupdate 15000us alpha 2 beta 20"),
    ({"kind": "red", "limit_bytes": 10**6, "min_bytes": 30_000, "max_bytes": 90_000, "avpkt_bytes": 1000, "burst": 55,
      "bandwidth_bps": 10**7, "probability": 0.1, "harddrop": True, "adaptive": True, "ecn": False},
     "red limit 1000000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10000000bit probability 0.1 "
     "harddrop adaptive"),
    ({"kind": "red", "limit_bytes": 400_000},
     "red limit 400000 min 33333 max 100000 avpkt 1000 burst 56 bandwidth 100000000bit probability 0.02"),
    ({"kind": "red", "limit_bytes": 400_000, "min_bytes": 10_000},
     "red limit 400000 min 10000 max 30000 avpkt 1000 burst 17 bandwidth 100000000bit probability 0.02"),
    ({"kind": "fq_pie", "target_us": 5000, "flows": 64, "quantum_bytes": 1514, "ecn": True},
     "fq_pie limit 10240 target 5000us ecn flows 64 quantum 1514"),
    ({"kind": "sfq", "perturb_us": 10_000_000}, "sfq limit 127 perturb 10"),
    ({"kind": "choke", "limit": 400},
     "choke limit 400 min 33 max 100 avpkt 1000 burst 56 bandwidth 100000000bit probability 0.02"),
    ({"kind": "choke", "limit": 400, "min": 10, "max": 50, "burst": 40, "ecn": True, "probability": 0.1},
     "choke limit 400 min 10 max 50 avpkt 1000 burst 40 bandwidth 100000000bit probability 0.1 ecn"),
    ({"kind": "choke", "limit": 400, "min": 10, "max": 50, "ecn": False},
     "choke limit 400 min 10 max 50 avpkt 1000 burst 24 bandwidth 100000000bit probability 0.02"),
    ({"kind": "cake"}, "cake unlimited memlimit 15503360"),
    ({"kind": "cake", "limit_bytes": 500_000, "rtt_us": 30_000, "priority": "besteffort", "isolation": "flows",
      "ack_filter": "aggressive"},
     "cake unlimited memlimit 500000 rtt 30000us ack-filter-aggressive besteffort flows"),
    ({"kind": "cake", "ack_filter": False}, "cake unlimited memlimit 15503360 no-ack-filter"),
    ({"kind": "fq", "flow_limit": 100}, "fq limit 10000 flow_limit 100"),
])
def test_tc_words(section, expected):
    assert " ".join(words(**section)) == expected


@pytest.mark.parametrize("field, section, message", [
    ("kind", {"kind": "blue"}, "expected, not 'blue'"),
    ("limit", {"kind": "choke", "limit": 131_072}, "from 1 to 131071 packets expected"),
    ("max", {"kind": "choke", "limit": 400, "min": 50, "max": 50}, "min < max <= limit expected, not 50, 50 and 400"),
    ("burst", {"kind": "choke", "limit": 400, "min": 20, "max": 50, "burst": 19}, "19 packets of 1000 B are too few"),
    ("burst", {"kind": "choke", "limit": 131_071, "min": 60_000, "max": 131_000, "burst": 10**6}, "cannot average"),
    ("limit", {"kind": "cake", "limit_bytes": 2303}, "from 2304 to 4294967295 B expected, not 2303 B"),
    ("isolation", {"kind": "cake", "isolation": "none"}, "flowblind"),
    ("coupling_factor", {"kind": "dualpi2", "coupling_factor": 0}, "at least 1"),
    ("target", {"kind": "pfifo", "target_us": 3}, "unknown field; fields are: kind, limit"),
    ("limit", {"limit": -1}, "at least 0"), ("limit", {"limit": 0}, "from 1 to 4294967295 packets expected, not 0"),
    ("limit", {"limit": 2**32}, "from 1 to 4294967295 packets expected"), ("limit", {"limit": True}, "whole number"),
    ("limit", {"limit": "many"}, "a whole number expected, not 'many'"), ("limit", {"limit_us": 0}, "at least 1 us"),
    ("limit", {"limit_bytes": 150_000}, "such as '20 ms' expected"),
    ("limit", {"kind": "bfifo", "limit": 850}, "such as '20 ms' or '1500 B' expected"),
    ("limit", {"kind": "bfifo", "limit_bytes": 1000}, "from 1514 to 4294967295 B"),
    ("limit", {"kind": "sfq", "limit": 1}, "from 2 to 16256 packets"),
    ("limit", {"kind": "sfq", "limit": 16257}, "from 2 to 16256 packets"),
    ("ecn", {"kind": "codel", "ecn": 1}, "yes or no"), ("target", {"kind": "codel", "target_bytes": 5}, "'20 ms'"),
    ("interval", {"kind": "codel", "interval": 100}, "'20 ms'"),
    ("target", {"kind": "codel", "target_us": 2**62}, "at most 3600 s"),
    ("flows", {"kind": "fq_codel", "flows": 65537}, "at most 65536"),
    ("perturb", {"kind": "sfq", "perturb_us": 5}, "whole seconds"),
    ("bandwidth", {"kind": "red", "limit_bytes": 10**6, "bandwidth_us": 5}, "'100 Mbit/s'"),
    ("max", {"kind": "red", "limit_bytes": 10**5, "max_bytes": 10**6},
     "min < max <= limit expected, not 333333, 1000000 and 100000 B"),
    ("max", {"kind": "red", "limit_bytes": 10**5, "min_bytes": 5000, "max_bytes": 5000}, "min < max"),
    ("burst", {"kind": "red", "limit_bytes": 10**6, "min_bytes": 30_000, "max_bytes": 90_000, "burst": 29},
     "29 packets of 1000 B are too few for min = 30000 B"),
    ("burst", {"kind": "red", "limit_bytes": 4 * 10**9, "min_bytes": 10**8, "max_bytes": 10**9, "burst": 10**6},
     "cannot average"),
    ("probability", {"kind": "red", "limit_bytes": 10**6, "probability": 0}, "above 0"),
    ("probability", {"kind": "red", "limit_bytes": 10**9, "min_bytes": 10**5, "max_bytes": 501 * 10**5, "burst": 3,
                     "avpkt_bytes": 65535},
     "more than 0.0233 expected where max - min is 50000000 B"),
    ("probability", {"kind": "choke", "limit": 400, "probability": 1e-6}, "more than 3.12e-05 expected"),
    ("avpkt", {"kind": "red", "limit_bytes": 10**6, "avpkt_bytes": 0}, "at least 1 B"),
])
def test_refused_queues(field, section, message):
    got, text = refused(**section)
    assert got == field and message in text


def test_the_weight_is_the_one_of_tc():
    """tc-red(8): with min 30000, avpkt 1000 and burst 55 tc says ewma 5."""
    assert _red.red_weight(30_000, 55, 1000) == 5
    assert _red.red_weight(30_000, 28, 1000) is None is _red.red_weight(1, 1, 1000)


def test_every_queue_says_what_it_is():
    for kind, section in QUEUES.items():
        assert inspect.getdoc(section) and queue(kind=kind, limit_us=10**6).kind == kind


VALUES = st.booleans() | st.integers(-1, 2**33) | st.floats() | st.text(max_size=3)


def sections(kind):
    names = [field.name for field in dataclasses.fields(QUEUES[kind]) if field.name != "kind"]
    return st.fixed_dictionaries({"kind": st.just(kind)}, optional=dict.fromkeys(names, VALUES))


@settings(deadline=None, max_examples=500, database=None)
@given(st.sampled_from(sorted(QUEUES)).flatmap(sections), st.integers(1000, 10**11))
def test_any_section_is_a_queue_or_refused(section, rate_bps):
    try:
        described = queue(**section).describe(rate_bps)
    except FieldError as problem:
        assert "\n" not in str(problem)
        return
    assert (described["limit_packets"] is None) != (described["limit_bytes"] is None)
    assert described["capacity_packets"] >= 1 and 1514 <= described["capacity_bytes"]
    assert all(word and word.isascii() and " " not in word for word in tc.queue_words(Link(described)))


def test_a_full_packet_takes_more_of_cake_s_limit_than_its_bytes():
    """The kernel counts the memory of packets: a limit as a time is that of the packets."""
    assert queue(kind="cake", limit_bytes=230_400).describe(10**8)["capacity_packets"] == 100
    described = queue(kind="cake", limit_us=100_000).describe(10**8)
    assert described["limit_bytes"] == 1_250_000 * 2304 // 1514 and abs(described["capacity_us"] - 100_000) < 10


def test_dualpi2_is_made_by_netlink():
    """struct nlmsghdr, struct tcmsg, and attributes of uapi/linux/pkt_sched.h, which newer parts want to be nested."""
    link = Link({"device": "r1-eth1", "rate_bps": 10**8, **queue(
        kind="dualpi2", limit=500, target_us=15_000, alpha=0.16, step_thresh_us=1000, coupling_factor=2,
        overload="drop", drop_at="enqueue", classify="any_ect", classic_protection=10).describe(10**8)})
    assert tc._queue_lines(link, "1:1") == []
    other = link.changed(queue="pfifo", queue_options={"limit": 5})
    assert tc._queue_lines(other, "1:1") == ["qdisc add dev r1-eth1 parent 1:1 handle 10: pfifo limit 5"]
    assert tc.anew(link) == ["qdisc del dev r1-eth1 parent 3:1"]
    message, = tc_messages.queue(7, link)
    length, what, flags = struct.unpack_from("=IHH", message)
    assert (length, what, flags) == (len(message), 36, 0x1 | 0x4 | 0x200 | 0x400)
    assert struct.unpack_from("=iIII", message, 20) == (7, 0x100000, 0x30001, 0)
    outer = {kind: message[at:at + size] for kind, at, size in raw_attributes(message, 36)}
    assert outer[1] == b"dualpi2\0" and set(outer) == {1, 2 | 0x8000}
    options = outer[2 | 0x8000]
    assert {kind: int.from_bytes(options[at:at + size], "little") for kind, at, size in raw_attributes(options, 0)} == {
        1: 500, 3: 15_000, 5: 41, 8: 1000, 10: 2, 11: 1, 12: 1, 13: 10, 14: 3}
    assert tc_messages.queue(7, other) == []


@pytest.mark.parametrize("options, codepoints", [
    ({}, {"ect1", "ce"}), ({"classify": "any_ect"}, {"ect0", "ect1", "ce"}), ({"drop_at": "enqueue"}, {"ect1"})])
def test_dualpi2_says_which_packets_are_l4s(options, codepoints):
    assert queues.kind("dualpi2").l4s_codepoints(options) == codepoints
    assert queues.kind("codel").l4s_codepoints({"ecn": True}) == {"ect1"}


def raw_attributes(data, at):
    """(kind with its flags, offset, length) of netlink attributes."""
    while at < len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        yield kind, at + 4, size - 4
        at += (size + 3) & ~3


@pytest.mark.parametrize("trace, parent", [
    ({}, "3:1"), ({"opportunities": {"times": [[1000, 1]], "period_us": None}}, "2:1")])
def test_a_queue_that_is_made_anew(trace, parent):
    described = queue(kind="pie", limit=100).describe(10**7)
    link = Link({"device": "r1-eth1", "rate_bps": 10**7, **described, **trace})
    assert tc.anew(link) == [f"qdisc del dev r1-eth1 parent {parent}",
                             f"qdisc add dev r1-eth1 parent {parent} handle 10: {' '.join(tc.queue_words(link))}"]


@pytest.mark.parametrize("section, traits", [
    ({"kind": "pfifo"}, {"tail_drop", "flow_blind"}), ({"kind": "codel"}, {"flow_blind", "drops_queued"}),
    ({"kind": "codel", "ecn": True}, {"flow_blind", "drops_queued", "marks"}), ({"kind": "fq_pie"}, set()),
    ({"kind": "cake"}, {"drops_queued", "may_deny", "marks"}),
    ({"kind": "fq_codel"}, {"drops_queued", "may_deny"}), ({"kind": "fq"}, {"paces"}),
    ({"kind": "cake", "ack_filter": "on"}, {"drops_queued", "may_deny", "marks", "drops_uncounted"})])
def test_traits_are_in_network_json(section, traits):
    described = Link(queue(**section).describe(10**8))
    assert set(described.queue_traits) == traits
    assert set(queues.traits(described).names()) == traits
    # runs of earlier versions
    earlier = Link({"queue": described.queue, "queue_options": described.queue_options})
    assert set(queues.traits(earlier).names()) == traits
    other = Link({"queue": "of_another_version", "queue_traits": sorted(traits)})
    assert queues.traits(other) == queues.traits(described)
