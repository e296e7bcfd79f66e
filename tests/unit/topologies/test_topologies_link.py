# SPDX-License-Identifier: GPL-2.0-only
"""Links: what they accept, and how tc is told."""
import struct

import pytest

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.base import EmulatedTopo
from topologies.links.link import Link
from topologies.linux import tc, tc_messages


class Pair(EmulatedTopo):
    """Two hosts and a link."""

    def build(self, section):
        self.host("r1"), self.host("r2")
        self.link("r1", "r2", section, section)


def described(**section):
    """A link from r1 to r2 as network.json lists it."""
    return Pair(fields.decode(Link, section)).describe()["links"][0]


def test_a_link():
    link = described(rate_bps=10**8, delay_us=2000, loss_percent=0.5, queue={"limit": 850})
    assert (link["rate_bps"], link["delay_us"], link["loss_percent"]) == (10**8, 2000, 0.5)
    assert link["queue_options"] == {"limit": 850}
    assert (link["name"], link["direction"], link["bottleneck"], link["ifindex"]) == ("r1_to_r2", "", False, 0)
    assert (link["address"], link["mac"]) == ("10.0.1.1", "02:00:00:00:00:01")
    assert described(rate_bps=10**8)["queue_options"] == {"limit": 1000}


@pytest.mark.parametrize("field, section, message", [
    ("rate", {}, "is missing"), ("rate", {"rate": 100}, "such as '100 Mbit/s'"),
    ("rate", {"rate_us": 3}, "such as '100 Mbit/s'"),
    ("rate", {"rate_bps": 0}, "at least 1 kbit/s"), ("rate", {"rate_bps": 999}, "at least 1 kbit/s, not 999 bit/s"),
    ("rate", {"rate_bps": 10**30}, "at most 100 Gbit/s"), ("rate", {"rate_bps": 10**11 + 8}, "at most 100 Gbit/s"),
    ("rate", {"rate_bps": True}, "such as '100 Mbit/s'"), ("rate", {"rate_bps": 1e9}, "such as '100 Mbit/s'"),
    ("delay", {"rate_bps": 10**6, "delay": 3}, "such as '20 ms'"),
    ("delay", {"rate_bps": 10**6, "delay_us": -1}, "at least 0 us"),
    ("delay", {"rate_bps": 10**6, "delay_us": 274 * 10**6 + 1}, "at most 274 s"),
    ("loss", {"rate_bps": 10**6, "loss_percent": 101}, "at most 100 %"),
    ("loss", {"rate_bps": 10**6, "loss_percent": -0.1}, "at least 0 %"),
    ("loss", {"rate_bps": 10**6, "loss_percent": float("nan")}, "a finite number"),
    ("queue.limit", {"rate_bps": 10**6, "queue": {"limit": -1}}, "at least 0"),
    ("queue.limit", {"rate_bps": 10**11, "queue": {"kind": "bfifo", "limit_us": 3600 * 10**6}}, "to 4294967295 B"),
    ("queue", {"rate_bps": 10**6, "queue": "pfifo"}, "a mapping expected, not 'pfifo'"),
    ("jitter", {"rate_bps": 10**6, "jitter_us": 1},
     "a mapping with some of spread, reordering expected"),
])
def test_refused_links(field, section, message):
    with pytest.raises(FieldError) as problem:
        fields.decode(Link, section)
    assert problem.value.field == field and message in str(problem.value)


def test_tc_lines_of_the_sending_side():
    """The shaper makes good what a timer is late; where timers are exact that is nothing, which tc cannot say."""
    link = described(rate_bps=10**8, delay_us=2000, queue={"limit": 850})
    assert tc.egress(link, 0) == [
        "qdisc add dev r1-eth0 root handle 3: htb default 1",
        "class add dev r1-eth0 parent 3: classid 3:1 htb rate 100000000bit ceil 100000000bit burst 1 cburst 1 "
        "quantum 1514",
        "qdisc add dev r1-eth0 parent 3:1 handle 10: pfifo limit 850"]
    assert "burst 50000 cburst 50000 " in tc.egress(link, 4000)[1]
    message, = tc_messages.shaper(7, link, 0)
    assert message == tc_messages.rate(7, 10**8, 0) and tc_messages.shaper(7, link, 4000) == []
    # struct tc_htb_opt: buffer and cbuffer, behind both rates
    assert struct.unpack_from("=II", message, message.index(struct.pack("=I", 12_500_000)) + 16) == (0, 0)


def test_packets_of_many_segments_are_cut_before_they_are_queued():
    link = described(rate_bps=10**8).changed(gso=True)
    assert tc.egress(link, 0)[:2] == [
        "qdisc add dev r1-eth0 root handle 2: tbf rate 1000000000000bit burst 1600 limit 2147483647",
        "qdisc add dev r1-eth0 parent 2:1 handle 3: htb default 1"]
    assert [kind for kind, _ in tc.shaping(link, 0).values()] == ["tbf", "htb", "htb class"]


def test_tc_lines_of_the_receiving_side():
    link = described(rate_bps=10**8, delay_us=2000)
    redirect = ["qdisc add dev r2-eth0 handle ffff: ingress",
                "filter add dev r2-eth0 parent ffff: protocol all matchall action mirred egress redirect dev wr2-eth0"]
    assert tc.ingress(link, "wr2-eth0") == redirect + [
        "qdisc add dev wr2-eth0 root handle 2: netem limit 9375 delay 2000us rate 100000000bit"]
    lossy = tc.ingress(described(rate_bps=10**8, delay_us=2000, loss_percent=0.25), "wr2-eth0")
    assert lossy[:2] == redirect and lossy[2].endswith("rate 100000000bit loss 0.25%")


@pytest.mark.parametrize("rate_bps, delay_us", [(10**4, 0), (10**8, 2000), (10**9, 300_000), (10**10, 1000)])
def test_the_delay_line_never_drops(rate_bps, delay_us):
    """It holds more than its bandwidth-delay product even of the smallest frames."""
    assert tc.wire_limit_packets(described(rate_bps=rate_bps, delay_us=delay_us)) > 2 * rate_bps * delay_us / 8e6 / 64


def test_the_longest_delay_line_is_one_that_netem_takes():
    assert tc.wire_limit_packets(described(rate_bps=10**11, delay_us=274 * 10**6)) == 2**31 - 1
