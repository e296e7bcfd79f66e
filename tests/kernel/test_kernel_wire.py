# SPDX-License-Identifier: GPL-2.0-only
"""A link hides nothing: a packet that has left the queue arrives after its own transmission and the delay of the link.

So all that it waited for was waiting in the queue, where limits, AQMs and counters know of it. Packets are captured
as they leave the queue and as they arrive, and every one of them is compared.
"""
import bisect
import gzip
import ipaddress
import struct

import pytest

from testbed.core import raw_tables
from tests.kernel.small_runs import small_scenario

#: frames of 60 B and 1514 B among them; `packet` is the size of the IP packet
_PACKETS_BYTES = (46, 186, 562, 1500)
#: the guest's clock counts nanoseconds, and so does htb, which rounds down
_ROUNDING_NS = 20


def records(path):
    """(time in ns, source address, bytes of the frame) of a capture's IPv4 packets."""
    content, at = gzip.decompress(path.read_bytes()), 24
    while at < len(content):
        seconds, ns, kept, size = struct.unpack_from("<IIII", content, at)
        frame = content[at + 16:at + 16 + kept]
        yield seconds * 10**9 + ns, str(ipaddress.ip_address(frame[26:30])), size
        at += 16 + kept


def crossings(run, name, source):
    """(when it left the queue of a link, when it arrived behind it, bytes) of each packet from a host, in ns."""
    link, = (link for link in run.json("raw/network.json")["links"] if link["name"] == name)
    left, arrived = ([(time_ns, size) for time_ns, address, size in records(
        run.folder / f"raw/capture-{device}.pcap.gz") if address == source]
        for device in (link["device"], link["peer_device"]))
    # what left last may arrive after the end of the capture
    assert len(left) - 3 <= len(arrived) <= len(left) and len(arrived) > 100
    return link, [(before, after, size) for (before, size), (after, _) in zip(left, arrived)]


def hidden_ns(run, name, source):
    """What each packet took beyond its transmission and the delay of the link."""
    link, packets = crossings(run, name, source)
    return [after - before - link["delay_us"] * 1000 - size * 8e9 / link["rate_bps"]
            for before, after, size in packets]


def address_of(run, host):
    return next(node["addresses"][0] for node in run.json("raw/network.json")["nodes"] if node["name"] == host)


def probed(rate, bits_per_s, queue, load=1.3, packets=_PACKETS_BYTES, seconds=None, delay="10 ms"):
    """Poisson processes of packets of several sizes over a link, which together are `load` times its rate."""
    seconds = seconds or min(20.0, 1500 * sum(packets) / len(packets) * 8 / bits_per_s)
    return {**small_scenario(probes={
        "queue": {"interval": "1 ms" if seconds < 2 else "10 ms"}, "sojourn": {"interval": "10 ms"},
        "pcap": {"nodes": ["r1", "r2"], "interval": "1 ms"}}),
        "timing": {"prefill": "0 s", "warmup": "0 s", "test": f"{seconds * 1e6:.0f} us"},
        "topology": {"kind": "dumbbell", "central": {"rate": rate, "delay": delay, "queue": queue},
                     "edge": {"rate": "10 Gbit/s", "queue": {"limit": 10000}},
                     "left_delays": ["0 ms"], "right_delays": ["0 ms"]},
        "traffic": [{"name": f"of{size}", "kind": "poisson", "packet": f"{size} B", "paths": ["n2->n1"],
                     "rate": f"{load * bits_per_s / len(packets) / 1000:.0f} kbit/s"} for size in packets]}


@pytest.mark.parametrize("rate, bits_per_s, queue", [
    ("64 kbit/s", 64e3, {"kind": "pfifo", "limit": 5}),
    ("64 kbit/s", 64e3, {"kind": "codel", "limit": 100}),
    ("2 Mbit/s", 2e6, {"kind": "red", "limit": "60 kB", "min": "5 kB", "max": "15 kB"}),
    ("100 Mbit/s", 1e8, {"kind": "pie", "limit": 1000}),
    ("1 Gbit/s", 1e9, {"kind": "fq_codel", "limit": 1000}),
    ("1 Gbit/s", 1e9, {"kind": "bfifo", "limit": "6 kB"}),
])
def test_one_packet_is_in_transmission_whatever_its_size(run_scenario, rate, bits_per_s, queue):
    run = run_scenario(probed(rate, bits_per_s, queue))
    found = hidden_ns(run, "right_to_left", address_of(run, "n2"))
    assert len(found) > 400 and max(map(abs, found)) <= _ROUNDING_NS


def test_a_shaper_passes_a_packet_on_at_once_and_holds_the_next_one(run_scenario):
    tree = probed("2 Mbit/s", 2e6, {"kind": "pfifo", "limit": 20})
    tree["topology"]["central"]["shaper"] = True
    run = run_scenario(tree)
    assert not [reason for reason in run.json("verdict.json")["reasons"] if reason["level"] == "invalid"]
    link, packets = crossings(run, "right_to_left", address_of(run, "n2"))
    assert max(abs(after - before - link["delay_us"] * 1000) for before, after, _ in packets) <= _ROUNDING_NS
    gaps_ns = [after - before - size * 8e9 / 2e6 for (before, _, size), (after, _, _) in zip(packets, packets[1:])]
    assert len(gaps_ns) > 400 and min(gaps_ns) >= -_ROUNDING_NS


def test_netem_counts_delays_in_units_of_64_ns(run_scenario):
    """3337 us are 52,140.6 of them: every packet is 40 ns early."""
    run = run_scenario(probed("100 Mbit/s", 1e8, {"kind": "pfifo", "limit": 100}, delay="3337 us"))
    found = hidden_ns(run, "right_to_left", address_of(run, "n2"))
    assert len(found) > 400 and max(abs(one + 40) for one in found) <= _ROUNDING_NS


def test_a_buffer_of_small_packets_holds_its_limit(run_scenario):
    """Frames of 60 B at 64 kbit/s take 7.5 ms each. The fifth that waits, waits for four others and the one in
    transmission."""
    run = run_scenario(probed("64 kbit/s", 64e3, {"kind": "pfifo", "limit": 5}, packets=(46,), seconds=10))
    sojourn = run.table("sojourn")
    longest_us = sojourn.loc[sojourn["link"] == "right_to_left", "max_us"].max()
    assert 4 * 7500 < longest_us <= 5 * 7500
    flow, = run.json("raw/guest.json")["traffic"]["of46"]["flows"]
    edges_us = 2 * 60 * 8 / 10_000
    assert flow["delay_max_us"] == pytest.approx(10_000 + 7500 + edges_us + longest_us, abs=1)
    assert flow["lost_packets"] > 0


def test_acknowledgements_wait_in_the_queue(run_scenario):
    """A path with 10 Mbit/s for data and 64 kbit/s for acknowledgements, ten of which fit into its buffer."""
    tree = probed("64 kbit/s", 64e3, {"kind": "pfifo", "limit": 10}, packets=(46,))
    central = tree["topology"]["central"]
    tree |= {"timing": {"prefill": "0 s", "warmup": "2 s", "test": "8 s"},
             "traffic": {"kind": "greedy", "tool": "sockets", "paths": ["n2->n1"]}}
    tree["topology"]["central"] = {"left_to_right": central, "right_to_left": {
        "rate": "10 Mbit/s", "delay": "10 ms", "queue": {"limit": 50}}}
    run = run_scenario(tree)
    assert max(map(abs, hidden_ns(run, "left_to_right", address_of(run, "n1")))) <= _ROUNDING_NS
    sojourn = run.table("sojourn")
    waited_us = sojourn.loc[sojourn["link"] == "left_to_right", "max_us"].max()
    # acknowledgements of 66 B, some with a SACK option
    assert 9 * 66 * 8 / 64e3 * 1e6 < waited_us <= 10 * 94 * 8 / 64e3 * 1e6


def test_a_queue_that_holds_packets_back_saves_up_no_credit(run_scenario):
    """fq at a host's interface paces BBR: what it held back goes no faster than the interface is, later."""
    run = run_scenario(small_scenario(**{
        "traffic.tool": "sockets", "hosts": {"qdisc": "fq"}, "timing": {"warmup": "0 s", "test": "2 s"},
        "probes.pcap": {"nodes": ["n4", "r2"], "interval": "1 ms"}}), cca="bbr")
    assert max(map(abs, hidden_ns(run, "n4_to_r2", address_of(run, "n4")))) <= _ROUNDING_NS


def test_a_frame_is_sent_at_the_rate_at_which_it_began(run_scenario):
    """The rate changes 40 times in two seconds; every packet takes what its rate says, and none is early."""
    steps = [{"at": f"{50 * number} ms", "rate": f"{(1, 5, 2, 9)[number % 4]} Mbit/s"} for number in range(1, 40)]
    tree = probed("10 Mbit/s", 1e7, {"kind": "pfifo", "limit": 20}, seconds=2)
    tree["topology"]["central"]["schedule"] = steps
    run = run_scenario(tree)
    link, packets = crossings(run, "right_to_left", address_of(run, "n2"))
    changes = run.table("link_changes")
    changes = changes[changes["link"] == "right_to_left"]
    times_ns, rates = (changes["t_us"] * 1000).tolist(), [1e7, *changes["rate_bps"]]
    free_ns = 0.0
    for before, after, size in packets:
        sent_ns = size * 8e9 / rates[bisect.bisect_right(times_ns, before)]
        assert after - before - link["delay_us"] * 1000 == pytest.approx(sent_ns, abs=_ROUNDING_NS)
        assert before >= free_ns - _ROUNDING_NS
        free_ns = before + sent_ns
    assert raw_tables.TABLES["link_changes"] and len(changes) == 2 * 39 // 2
