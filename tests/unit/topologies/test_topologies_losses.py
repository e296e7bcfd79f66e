# SPDX-License-Identifier: GPL-2.0-only
"""Losses of chosen segments: what is accepted, and the filters that drop them."""
import re

import pytest
from hypothesis import given, settings, strategies as st

import topologies
from testbed.checks import conservation
from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.guest_files import Counters
from topologies.base import PLAIN_ENDS
from topologies.links import losses, records
from topologies.links.link import Link
from topologies.linux import tc

CENTRAL = {"rate_bps": 10**7, "delay_us": 2000}
DUMBBELL = {"kind": "dumbbell", "edge": {"rate_bps": 10**8}, "left_delays_us": [0], "right_delays_us": [0]}


def link(**given):
    return fields.decode(Link, {**CENTRAL, **given})


def refused(**given):
    with pytest.raises(FieldError) as problem:
        link(**given)
    return problem.value


def test_a_link_with_chosen_losses():
    lossy = link(lose_segments=[40, 42], lose_copies=2)
    assert list(lossy.lose_segments) == [40, 42] and lossy.lose_copies == 2
    plain = link()
    assert list(plain.lose_segments) == [] and plain.lose_copies == 1


@pytest.mark.parametrize("value", [40, "40", [0], [-1], [1.5], [True], ["40"], [None], [40, 40], [2_966_139], {40: 42},
                                   list(range(1, 502))])
def test_refused_segments(value):
    assert refused(lose_segments=value).field == "lose_segments"


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, [1], 501])
def test_refused_copies(value):
    assert refused(lose_segments=[1], lose_copies=value).field == "lose_copies"


def test_messages_say_what_is_expected():
    assert "a list expected, not 40" in str(refused(lose_segments=40)) and "not 0" in str(refused(lose_segments=[3, 0]))
    assert "more than 500 losses" in str(refused(lose_segments=[1, 2], lose_copies=251))
    assert link(lose_segments=[1, 2_966_138], lose_copies=250)


def test_errors_name_the_field_of_the_topology():
    for section, field in [({**CENTRAL, "lose_segments": [0]}, "central.lose_segments"),
                           ({"left_to_right": CENTRAL, "right_to_left": {**CENTRAL, "lose_copies": 0}},
                            "central.right_to_left.lose_copies")]:
        with pytest.raises(FieldError) as problem:
            topologies.resolve({**DUMBBELL, "central": section})
        assert problem.value.field == field
    with pytest.raises(FieldError, match="unknown field; fields are: rate, queue") as problem:
        topologies.resolve({**DUMBBELL, "central": CENTRAL, "edge": {"rate_bps": 10**6, "lose_segments": [1]}})
    assert problem.value.field == "edge.lose_segments"


def test_the_description_tells_them():
    links = topologies.resolve({**DUMBBELL, "central": {"left_to_right": CENTRAL, "right_to_left": {
        **CENTRAL, "lose_segments": [40, 42], "lose_copies": 3}}})["links"]
    assert {l["name"]: (l["lose_segments"], l["lose_copies"]) for l in links if l["bottleneck"]} == {
        "left_to_right": ([], 1), "right_to_left": ([40, 42], 3)}


def test_filters_stand_between_the_ingress_and_the_redirect():
    lines = tc.ingress(records.Link({
        "peer_device": "r1-eth0", "rate_bps": 10**7, "delay_us": 0, "loss_percent": 0.0, "lose_segments": [40, 42],
        "lose_copies": 1, **PLAIN_ENDS}), "wr1-eth0")
    assert lines[0].startswith("qdisc add dev r1-eth0 handle ffff: ingress")
    assert "matchall" in lines[3] and "netem" in lines[4] and len(lines) == 5
    assert lines[1] == ("filter add dev r1-eth0 parent ffff: protocol ip pref 1 u32 match ip protocol 6 0xff "
                        "match u16 1500 0xffff at 2 match u32 56472 0xffffffff at 24 "
                        + "action gact pipe random determ continue 2 " * 8 + "action gact drop")
    assert lines[2] == lines[1].replace("56472", "59368")


def passes(lines, copies):
    """Copies of a segment that get past the filters: gact as in net/sched/act_gact.c."""
    counters = [[0] * line.count("random determ continue 2") for line in lines]
    through = []
    for copy in range(1, copies + 1):
        for counter in counters:
            for stage in range(len(counter)):
                counter[stage] += 1
                if counter[stage] % 2 == 0:
                    break                       # continue: to the next filter
            else:
                break                           # dropped
        else:
            through.append(copy)
    return through


@settings(deadline=None, max_examples=30, database=None)
@given(st.integers(1, 20))
def test_exactly_the_first_copies_are_lost(lose_copies):
    lines = losses.filters("x", [7], lose_copies)
    assert passes(lines, 256) == list(range(lose_copies + 1, 257))


def test_every_segment_has_its_own_filters():
    lines = losses.filters("x", [1, 2, 1000], 2)
    numbers = [int(re.search(r"u32 match .* match u32 (\d+) ", line).group(1)) for line in lines]
    assert numbers == [0, 0, 1448, 1448, 999 * 1448, 999 * 1448]


@pytest.mark.parametrize("dropped, level", [(6, "ok"), (5, "suspect"), (0, "suspect"), (7, "suspect")])
def test_the_verdict_counts_them(dropped, level):
    """Conservation: as many as were chosen, and links without chosen losses are not asked."""
    def counters(chosen):
        return {"from": "r1", "to": "r2", "sent_packets": 100, "dropped_packets": 0, "queued_packets": 0,
                "device_tx_packets": 100,
                "device_rx_packets": 100, "wire_delivered_packets": 100 - chosen, "wire_dropped_packets": chosen,
                "chosen_dropped_packets": chosen, "wire_queued_packets": 0}

    counted = Counters({"drained": {"there": counters(dropped), "back": counters(0)}})

    class Evidence:
        counters = counted
        network = records.Network({"nodes": [], "links": [
            {"name": "there", "bottleneck": False, "lose_segments": [3, 4, 9], "lose_copies": 2},
            {"name": "back", "bottleneck": False, "lose_segments": [], "lose_copies": 1}]})
    found = [finding for finding in conservation.check(Evidence) if "chosen" in finding.message]
    assert [(f.level, f.message[:len(f"there: {dropped} of 6")]) for f in found] == [(level, f"there: {dropped} of 6")]
