# SPDX-License-Identifier: GPL-2.0-only
"""Options of qdiscs that a kernel handed out (6.12), against what a scenario asked for."""
import dataclasses

import pytest

from testbed.core import fields
from testbed.guest import late
from testbed.probes._netlink import attributes
from topologies import queues
from topologies.links.records import Link
from topologies.linux import read_back, tc, tc_messages
from topologies.queues import _red

#: of RED with probability 1, told by tc as 1.0 (which is 0 to the kernel) and as the largest number below it
_RED = "18000100{limit}30750000{most}0a0f0c01"
_P_OF_TC = {1.0: "0.99999999976716936", 0.9999999: "0.9999999", 0.02: "0.02", 1e-12: "2.3516e-10"}


def red(kind="red", probability=1.0, **options):
    return Link({"queue": kind, "queue_options": {
        "limit": 10**6, "min": 30000, "max": 62769, "avpkt": 1500, "burst": 21, "bandwidth": 10**8,
        "probability": probability, **options}})


@pytest.mark.parametrize("probability, said", _P_OF_TC.items())
def test_probabilities_keep_all_their_digits(probability, said):
    words = tc.queue_words(red(probability=probability))
    exactly = 1e-14 if probability > 1e-9 else 1e-4
    assert float(words[words.index("probability") + 1]) == pytest.approx(float(said), rel=exactly)
    # what tc makes of it: the whole part of p * 2^32, in 32 bits
    assert int(float(said) * 2**32) == _red.red_probability(probability) > 0


def test_a_probability_that_the_kernel_made_up_is_found():
    wanted = queues.kind("red").wanted(red()["queue_options"], 4000)
    assert wanted["probability"] == 2**32 - 1 and wanted["flags"] == 0
    options = bytes.fromhex("14000100" + "40420f00" + "30750000" + "31f50000" + "04100d00" + "08000300" + "00800080")
    assert read_back.differences("red", options, {"probability": wanted["probability"]}) == [
        "probability 0.5000076294, not 0.9999999998"]


def test_red_that_is_to_adapt_has_the_flag_for_which_the_kernel_starts_its_timer():
    """In struct tc_red_qopt, and not in an attribute of the flags', which would be another way to the same dump."""
    link = red(probability=0.02, adaptive=True, ecn=True)
    message, = tc_messages.queue(7, link)
    outer = {kind: message[at:at + size] for kind, at, size in attributes(message, 36, len(message))}
    inner = {kind: outer[2][at:at + size] for kind, at, size in attributes(outer[2], 0, len(outer[2]))}
    assert outer[1] == b"red\0" and set(inner) == {1, 2, 3} and inner[1][15] == 1 | 4
    wanted = queues.kind("red").wanted(link["queue_options"], 4000)
    assert read_back.differences("red", outer[2], wanted) == []
    assert tc_messages.queue(7, red(adaptive=False)) == []


def test_what_the_kernel_divides_by_the_width():
    held_probability = queues.kind("red").held_probability
    assert held_probability(red()["queue_options"]) == pytest.approx(1, rel=1e-5)
    # 2^32 * 0.02 / 40,000,000 is 2.1, of which it keeps 2
    wide = red(probability=0.02, min=10**7, max=5 * 10**7)["queue_options"]
    assert held_probability(wide) == pytest.approx(8e7 / 2**32)


def test_adaptive_red_may_be_anywhere_that_it_goes():
    least, most = queues.kind("red").wanted(red(probability=0.02, adaptive=True)["queue_options"], 4000)["probability"]
    assert (round(least / 2**32, 4), round(most / 2**32, 4)) == (0.009, 0.51)


def test_units_of_the_kernel():
    of = {kind: read_back._queue(Link({"queue": kind, "queue_options": options}), 4000, None) for kind, options in (
        ("codel", {"limit": 10, "target": 5017, "ecn": True}),
        ("pie", {"limit": 10, "target": 5_000_000, "tupdate": 5}),
        ("cake", {"limit": 9, "priority": "precedence", "isolation": "flowblind"}),
        ("dualpi2", {"limit": 9, "alpha": 0.16, "overload": "drop"}))}
    assert of == {"codel": {"limit": 10, "target": 5016, "ecn": 1},
                  "pie": {"limit": 10, "target": 705_032, "tupdate": 4000},
                  "cake": {"rate": 0, "limit": 9, "priority": 4, "isolation": 0},
                  "dualpi2": {"limit": 9, "alpha": (40, 41), "overload": 1}}


@pytest.mark.parametrize("kind", queues.names())
def test_every_option_of_every_queue_is_looked_for(kind):
    """An option that a scenario can name is a parameter that is compared, or one that tc makes others of."""
    made = {"avpkt", "burst", "bandwidth", "ecn", "harddrop", "adaptive"} if kind in ("red", "choke") else set()
    names = {fields.plain(one.name) for one in dataclasses.fields(queues.kind(kind))} - {"kind"}
    assert names - made <= read_back.places_of(kind).keys()


def test_lines_of_a_kernels_log():
    log = ["x: loading out-of-tree module taints kernel.", "WARNING: CPU: 0 PID: 0 at include/net/tcp.h:1322 "
           "x_avoid+0x57/0x63 [tcp_x]", "Modules linked in: tcp_x(O)", "BUG: scheduling while atomic: swapper/0/0x100",
           "Call Trace:", " ? __schedule+0x7/0x9", " ? x_avoid+0x10/0x20 [tcp_x]", "all is well"]
    assert late.complaints(log) == [
        "WARNING: CPU: 0 PID: 0 at include/net/tcp.h:1322 x_avoid+0x57/0x63 [tcp_x]",
        "BUG: scheduling while atomic: swapper/0/0x100 (? x_avoid+0x10/0x20 [tcp_x])"]
    assert late.complaints(["TCP: cubic registered", "Debugging is on"]) == []
