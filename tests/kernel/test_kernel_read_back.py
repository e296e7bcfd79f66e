# SPDX-License-Identifier: GPL-2.0-only
"""Every parameter of every queue, shaper and wire, as the kernel has it, is what the scenario asked for."""
import json

import pytest
import yaml

import kernel
from testbed.core.record import plain
from testbed.scenario import scenario
from tests.kernel import guest_script, read_back_guest
from topologies import queues
from topologies.links.records import Link
from topologies.linux import read_back, tc

#: one direction each: what has a unit of its own has values that are no multiples of it
_LINKS = """
- {queue: {kind: red, limit: 1 MB, min: 30 kB, max: 62769 B, avpkt: 1500 B, burst: 21, probability: 1, ecn: yes}}
- {queue: {kind: red, limit: 300 kB, probability: 0.9999999, harddrop: yes, adaptive: yes, bandwidth: 3 Mbit/s}}
- {queue: {kind: choke, limit: 300, min: 20, max: 53, avpkt: 1500 B, burst: 30, probability: 1}}
- {queue: {kind: choke, limit: 1000, min: 10, max: 20, probability: 0.00001, ecn: yes}}
- {queue: {kind: codel, limit: 1000, target: 5017 us, interval: 99999 us, ecn: yes}}
- {queue: {kind: fq_codel, limit: 1000, target: 7 ms, interval: 3001 us, quantum: 300 B, flows: 77, ecn: no}}
- {queue: {kind: pie, limit: 1000, target: 15017 us, tupdate: 15 ms, alpha: 3, beta: 7, ecn: yes}}
- {queue: {kind: fq_pie, limit: 1000, target: 5 s, tupdate: 15500 us, flows: 33, quantum: 700 B}}
- {queue: {kind: fq, limit: 500, flow_limit: 40, quantum: 3028 B}}
- {queue: {kind: sfq, limit: 400, perturb: 10 s, quantum: 2000 B}}
- {queue: {kind: cake, limit: 1 MB, rtt: 30 ms, priority: besteffort, isolation: dual-srchost, ack_filter: aggressive}}
- {queue: {kind: bfifo, limit: 100 kB}, rate: 40 Gbit/s, delay: 100 s}
- {queue: {kind: pfifo, limit: 5}, rate: 2000 bit/s, delay: 17 us, loss: 12.3456789 %}
- {duplicate: 0.00123456789 %, loss: 0.0000123456 %}
- {loss_model: {kind: gilbert-elliott, to_bad: 0.123456789 %, to_good: 33.3333333 %, bad_loss: 87.6543219 %,
                good_loss: 0.1 %}}
- {reorder: {share: 1.23456789 %, early: 3 ms}}
- {jitter: {spread: 1237 us}}
- {jitter: {spread: 1237 us, reordering: yes}}
- {retransmission: {loss: 10 %, delay: 777 us}}
- {schedule: [{at: 100 ms, rate: 5 Mbit/s, delay: 20 ms, loss: 1.2345678 %, limit: 55}]}
- {schedule: [{at: 700 ms, outage: 100 ms}]}
- {rate: 1 Gbit/s}
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    links = [{"rate": "10 Mbit/s", "delay": "10 ms", **one} for one in yaml.safe_load(_LINKS)]
    tree = {"name": "every-queue", "topology": {
        "kind": "chain", "edge": {"rate": "1 Gbit/s", "queue": {"limit": 10000}},
        "links": [{"left_to_right": one, "right_to_left": other} for one, other in zip(links[::2], links[1::2])]},
        "traffic": {"kind": "cbr", "rate": "1 kbit/s", "packet": "100 B", "paths": ["n1->n2"]},
        "hosts": {"jitter": "607 us", "coalescing": "201 us", "packet_cost": "7 us"},
        "timing": {"warmup": "0 s", "test": "1 s"}, "probes": {"queue": {"interval": "100 ms"}}}
    path = tmp_path_factory.mktemp("scenario") / "every-queue.yaml"
    path.write_text(yaml.safe_dump(tree))
    return scenario.load(str(path), {}, False, []).network


@pytest.fixture(scope="module")
def devices(network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guest")
    (folder / "network.json").write_text(json.dumps(network, default=plain))
    return guest_script.result_of(kernel.ensure().program, read_back_guest.__file__, folder, folder / "network.json")


def facts_of(link):
    """(device, handle, kind, what must be) of every stage of a link."""
    for place, facts in ((f"{link['from']}/{link['device']}", read_back.sending(Link(link), 0, 1000)),
                         (f"{link['to']}/{tc.wire_device(link['peer_device'])}", read_back.arriving(Link(link)))):
        for handle, (kind, wanted) in facts.items():
            yield place, handle, kind, wanted


def test_the_kernel_has_what_was_asked_for(network, devices):
    seen = 0
    for link in network["links"]:
        for place, handle, kind, wanted in facts_of(link):
            found, _, options = devices[place]["qdiscs"][handle].rpartition(" ")
            assert (link["name"], found) == (link["name"], kind)
            assert (link["name"], read_back.differences(kind, bytes.fromhex(options), wanted)) == (link["name"], [])
            seen += len(wanted)
    assert {link["queue"] for link in network["links"]} == {"red", "choke", "codel", "fq_codel", "pie", "fq_pie", "fq",
                                                            "sfq", "cake", "bfifo", "pfifo"}
    assert seen == 532


def test_any_other_number_is_found(network, devices):
    """Of each parameter the next number beyond what its unit leaves."""
    for link in network["links"]:
        for place, handle, kind, wanted in facts_of(link):
            options = bytes.fromhex(devices[place]["qdiscs"][handle].rpartition(" ")[2])
            for name, value in wanted.items():
                least, most = value if isinstance(value, tuple) else (value, value)
                for other in ((most + 1, 2 * most + 2), (least - (most - least) - 2, least - (most - least) - 1)):
                    assert len(read_back.differences(kind, options, {name: other})) == 1 or least < other[0] < most


def test_probability_1_is_the_largest_number_that_the_kernel_has(network, devices):
    for name in ("r1_to_r2", "r2_to_r3"):
        link = next(one for one in network["links"] if one["name"] == name)
        kind, _, options = devices[f"{link['from']}/{link['device']}"]["qdiscs"]["10:"].rpartition(" ")
        assert read_back.decoded(kind, bytes.fromhex(options))["probability"] == 2**32 - 1
        assert queues.kind(kind).held_probability(link["queue_options"]) == pytest.approx(1, abs=1e-5)
