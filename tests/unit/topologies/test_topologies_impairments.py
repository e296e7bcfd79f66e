# SPDX-License-Identifier: GPL-2.0-only
"""What wires do to packets: what may be asked for, what tc and netlink are told, what follows from it."""
import struct

import pytest

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.base import EmulatedTopo
from topologies.links import varying, wires
from topologies.links.link import Link
from topologies.linux import tc, tc_messages


class Pair(EmulatedTopo):
    def build(self, section):
        self.link(self.host("a"), self.host("b"), section, section)


def link(**section):
    return Pair(fields.decode(Link, {"rate_bps": 10**7, "delay_us": 9000, **section})).describe()["links"][0]


def stages(**section):
    """The netems of the wire, without what they have in common; what else is done before them."""
    lines = tc.ingress(link(**section), "w")
    return [line.split(" delay ")[1] for line in lines if "netem" in line], lines[1].split("matchall ")[1]


REDIRECT = "action mirred egress redirect dev w"
RATE, ENDLESS = "rate 10000000bit", "rate 8000000000000000bit"


@pytest.mark.parametrize("section, netems, actions", [
    ({"loss_model": {"kind": "gilbert-elliott", "to_bad_percent": 1, "to_good_percent": 20}},
     [f"9000us {RATE} loss gemodel 1% 20% 100% 0%"], ""),
    ({"loss_model": {"kind": "periodic", "every": 50}}, [f"9000us {RATE}"], "action gact pipe random determ drop 50 "),
    ({"policer": {"rate_bps": 4 * 10**6, "burst_bytes": 3000}}, [f"9000us {RATE}"],
     "action police rate 4000000bit burst 3000 mtu 2047 overhead 14 conform-exceed drop/pipe "),
    ({"duplicate_percent": 2.5}, [f"9000us {RATE} duplicate 2.5%"], ""),
    ({"jitter": {"spread_us": 1000}}, [f"0us {RATE}", f"9500.0us 500.0us {ENDLESS}"], ""),
    ({"jitter": {"spread_us": 1000, "reordering": True}}, [f"0us {RATE}", "9500.0us 500.0us"], ""),
    ({"reorder": {"share_percent": 2, "early_us": 4000}}, [f"5000us {RATE}", "4000us reorder 2%"], ""),
    ({"reorder": {"share_percent": 2, "displacement": 3}}, [f"4761us {RATE}", "4239us reorder 2%"], ""),
    ({"retransmission": {"loss_percent": 10, "delay_us": 4000, "attempts": 1}},
     [f"0us {RATE}", f"9000us {ENDLESS} loss 1%"], ""),
    ({"shaper": True}, [f"9000us {ENDLESS}"], ""), ({"shaper": False}, [f"9000us {RATE}"], "")])
def test_what_tc_is_told(section, netems, actions):
    assert stages(**section) == (netems, actions + REDIRECT)


@pytest.mark.parametrize("section, field, message", [
    ({"loss_model": {}}, "loss_model.kind", "is missing"),
    ({"loss_model": {"kind": "gilbert-elliott", "to_bad_percent": 0, "to_good_percent": 1}}, "loss_model.to_bad",
     "above"),
    ({"loss_model": {"kind": "periodic", "every": 1}}, "loss_model.every", "at least 2"),
    ({"loss_model": {"kind": "periodic", "every": 10_001}}, "loss_model.every", "at most 10000"),
    ({"loss_model": {"kind": "periodic", "every": 9}, "loss_percent": 1}, "loss_model", "not together with loss"),
    ({"loss_model": {"kind": "periodic", "every": 9}, "schedule": [{"at_us": 1, "loss_percent": 1}]}, "loss_model",
     "not together with loss"),
    ({"policer": {"rate_bps": 10**6, "burst_bytes": 3000}, "lose_segments": [1]}, "policer", "with lose_segments"),
    ({"policer": {"rate_bps": 10**6, "burst_bytes": 300}}, "policer.burst", "at least"),
    ({"reorder": {"share_percent": 2}}, "reorder.early", "either early"),
    ({"reorder": {"share_percent": 2, "early_us": 1, "displacement": 1}}, "reorder.early", "either early"),
    ({"reorder": {"share_percent": 2, "displacement": 8}}, "reorder", "10295 us early on a link with a delay of 9000"),
    ({"jitter": {"spread_us": 5}, "reorder": {"share_percent": 1, "early_us": 1}}, "reorder", "together with jitter"),
    ({"jitter": {"spread_us": 5}, "schedule": [{"at_us": 1, "delay_us": 1}]}, "jitter", "together with schedule"),
    ({"retransmission": {"loss_percent": 10, "delay_us": 300_000}}, "retransmission.delay", "at most 268 ms"),
    # more than the kernel's numbers hold
    ({"jitter": {"spread_us": 4_294_968}}, "jitter.spread", "at most 4294967 us"),
    ({"policer": {"rate_bps": 10**6, "burst_bytes": 34_359_739}}, "policer.burst", "at most 274 s of the rate"),
    ({"reorder": {"share_percent": 2, "displacement": 1}, "schedule": [{"at_us": 1, "rate_bps": 10**6}]},
     "reorder.displacement", "early expected"),
    ({"shaper": True, "schedule": [{"at_us": 1, "rate_bps": 10**6}]}, "shaper", "a schedule that changes the rate"),
    ({"loss_model": {"kind": "periodic", "every": 9}, "retransmission": {"loss_percent": 10, "delay_us": 9}},
     "retransmission", "with loss_model"),
])
def test_what_cannot_be(section, field, message):
    with pytest.raises(FieldError) as problem:
        link(**section)
    assert problem.value.field == field and message in str(problem.value), str(problem.value)


def test_another_rate_leaves_all_else_as_it_is():
    """netem takes what a message does not say of loss and copies as none."""
    def told(**section):
        one = link(schedule=[{"at_us": 1, "rate_bps": 10**6}], **section)
        message = tc_messages.wire(3, one, varying.initial(one))
        options = message[message.index(b"netem") + 12:]
        attributes, at = {}, 24
        while at < len(options):
            size, kind = struct.unpack_from("=HH", options, at)
            attributes[kind] = options[at + 4:at + size]
            at += (size + 3) // 4 * 4
        return struct.unpack_from("=IIIIII", options)[4], struct.unpack("=q", attributes[10])[0], attributes.get(5)
    assert told() == (0, 9_000_000, None)
    assert told(duplicate_percent=25)[0] == 2**30
    assert told(reorder={"share_percent": 2, "early_us": 4000})[1] == 5_000_000
    assert told(jitter={"spread_us": 4000})[1] == 0
    states = told(loss_model={"kind": "gilbert-elliott", "to_bad_percent": 25, "to_good_percent": 50,
                              "bad_loss_percent": 75})[2]
    assert struct.unpack("=HHIIII", states) == (20, 2, 2**30, 2**31, 2**30, 0)


def test_a_plain_link_has_none_of_it_in_its_record():
    assert not {"loss_model", "jitter", "reorder", "duplicate_percent", "policer", "retransmission",
                "shaper"} & link().keys()
    assert tc_messages.setup(3, link()) == []


def test_a_frame_takes_its_time_on_a_link_and_none_behind_a_shaper():
    assert wires.frame_us(link(), 1250) == 1000 and wires.frame_us(link(), 1250, 10**6) == 10_000
    assert wires.frame_us(link(shaper=True), 1250) == 0


def test_attempts_are_as_probable_as_they_should_be():
    one = link(retransmission={"loss_percent": 10, "delay_us": 4000, "attempts": 4})
    counts = wires.attempts(one.retransmission)
    assert sum(counts) == 16384 and [round(count / 16384, 3) for count in counts] == [0.9, 0.09, 0.009, 0.001, 0.0]
    message, = tc_messages.setup(3, one)
    table = struct.unpack("=16384h", message[-32768:])
    assert [table.count(number * 1024) for number in range(5)] == counts
    # 8 steps of jitter: x 1024 / 8192 they make one
    assert struct.pack("=q", 8 * 4000 * 1000) in message


def test_bounds_of_delays_and_losses():
    one = link(reorder={"share_percent": 2, "early_us": 4000})
    assert (wires.least_delay_us(one), wires.late_us(one), wires.reorders(one)) == (5000, 0, True)
    again = link(retransmission={"loss_percent": 10, "delay_us": 4000})
    assert (wires.late_us(again), wires.reorders(again)) == (28_000, False)
    assert wires.lost_share(again) == pytest.approx(1e-8)
    assert [wires.reorders(link(jitter={"spread_us": 5, "reordering": on})) for on in (True, False)] == [True, False]
    states = link(loss_model={"kind": "gilbert-elliott", "to_bad_percent": 50, "to_good_percent": 50,
                              "bad_loss_percent": 60, "good_loss_percent": 20})
    # states that forget at once lose as a coin does
    assert wires.lost_share(states) == pytest.approx(0.4)
    assert wires.lost_deviation(states, 100) == pytest.approx((100 * 0.4 * 0.6) ** 0.5)
    policed = link(policer={"rate_bps": 10**6, "burst_bytes": 3000})
    assert wires.drops_at_ingress(policed) and not wires.drops_at_ingress(states)
