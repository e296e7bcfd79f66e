# SPDX-License-Identifier: GPL-2.0-only
"""Links and queues: what they accept, and how tc is told."""
import pytest

from topologies.link import QUEUES, LinkDirection, Queue, packets_for_time
from topologies.parameters import ParameterError, plain, require_fields, require_mapping


def refused(field, section, rate_bps=10**8):
    with pytest.raises(ParameterError) as problem:
        Queue.from_section(section, rate_bps)
    assert problem.value.field == field
    return str(problem.value)


def test_queue_in_packets():
    queue = Queue.from_section({"kind": "pfifo", "limit": 850}, 10**8)
    assert queue.tc() == ["pfifo", "limit", "850"] and queue.limit_packets == 850
    assert Queue.from_section({}, 10**8) == Queue("pfifo", {}) and Queue("pfifo", {}).limit_packets is None


def test_queue_as_a_time_is_turned_into_its_own_unit():
    """100 ms at 100 Mbit/s are 833 packets, or 1.25 MB where the limit is in bytes."""
    assert packets_for_time(10**8, 100_000) == 833 and packets_for_time(10**6, 1) == 1
    for kind in ("pfifo", "codel", "fq_codel", "pie", "fq", "sfq"):
        assert Queue.from_section({"kind": kind, "limit_us": 100_000}, 10**8).limit_packets == 833
    for kind in ("bfifo", "red"):
        queue = Queue.from_section({"kind": kind, "limit_us": 100_000}, 10**8)
        assert queue.options["limit"] == 1_250_000 and queue.limit_packets is None


def test_a_limit_in_the_other_unit_is_refused():
    assert "packets" in refused("limit", {"kind": "pfifo", "limit_bytes": 150_000})
    assert Queue.from_section({"kind": "bfifo", "limit_bytes": 150_000}, 10**8).tc() == ["bfifo", "limit", "150000"]


@pytest.mark.parametrize("kind, options, words", [
    ("codel", {"limit": 1000, "target_us": 5000, "interval_us": 100_000, "ecn": True},
     ["codel", "limit", "1000", "target", "5000us", "interval", "100000us", "ecn"]),
    ("codel", {"ecn": False}, ["codel"]),
    ("fq_codel", {"flows": 1024, "quantum_bytes": 1514}, ["fq_codel", "flows", "1024", "quantum", "1514"]),
    ("pie", {"tupdate_us": 15_000, "alpha": 2, "beta": 20}, ["pie", "tupdate", "15000us", "alpha", "2", "beta", "20"]),
    ("red", {"limit_bytes": 10**6, "min_bytes": 30_000, "max_bytes": 90_000, "avpkt_bytes": 1000, "burst": 55, "bandwidth_bps": 10**8,
             "probability": 0.02, "harddrop": True, "adaptive": True},
     ["red", "limit", "1000000", "min", "30000", "max", "90000", "avpkt", "1000", "burst", "55", "bandwidth", "100000000bit",
      "probability", "0.02", "harddrop", "adaptive"]),
    ("sfq", {"perturb_us": 10_000_000}, ["sfq", "perturb", "10"]),
    ("sfq", {"perturb": 10}, ["sfq", "perturb", "10"]),
    ("fq", {"flow_limit": 100}, ["fq", "flow_limit", "100"]),
])
def test_tc_words(kind, options, words):
    assert Queue.from_section({"kind": kind, **options}, 10**8).tc() == words


@pytest.mark.parametrize("field, section", [
    ("kind", {"kind": "cake"}), ("target", {"kind": "pfifo", "target": 3}), ("limit", {"limit": -1}), ("limit", {"limit": True}),
    ("limit", {"limit": "many"}), ("ecn", {"kind": "codel", "ecn": 1}), ("limit", {"limit_us": "long"}),
    ("target", {"kind": "codel", "target_bytes": 5}), ("interval", {"kind": "codel", "interval": 100}),
    ("bandwidth", {"kind": "red", "bandwidth_us": 5}), ("queue", [1, 2]),
])
def test_refused_queues(field, section):
    refused(field, section)


def test_the_message_names_what_there_is():
    assert all(kind in refused("kind", {"kind": "cake"}) for kind in QUEUES)
    assert "target" in refused("perturb", {"kind": "codel", "perturb": 1})


def test_link_direction():
    link = LinkDirection.from_section({"rate_bps": 10**8, "delay_us": 2000, "loss_percent": 0.5, "queue": {"limit": 850}}, name="x", bottleneck=True)
    assert (link.rate_bps, link.delay_us, link.loss_percent, link.queue.options) == (10**8, 2000, 0.5, {"limit": 850})
    assert link.name == "x" and link.bottleneck


@pytest.mark.parametrize("field, section", [
    ("rate", {}), ("rate", {"rate": 100}), ("rate", {"rate_bps": 0}), ("rate", {"rate_bps": -1}), ("rate", {"rate_us": 3}), ("delay", {"rate_bps": 1, "delay": 3}),
    ("delay", {"rate_bps": 1, "delay_us": -1}), ("loss", {"rate_bps": 1, "loss_percent": 101}), ("loss", {"rate_bps": 1, "loss_percent": -0.1}),
    ("queue.limit", {"rate_bps": 1, "queue": {"limit": -1}}), ("queue", {"rate_bps": 1, "queue": "pfifo"}), ("jitter", {"rate_bps": 1, "jitter_us": 1}),
    ("rate", {"rate_bps": True}),
])
def test_refused_links(field, section):
    with pytest.raises(ParameterError) as problem:
        LinkDirection.from_section(section)
    assert problem.value.field == field


def test_tc_lines_of_the_sending_side():
    """The bucket holds one frame where timers are exact; what one timer period lets through elsewhere."""
    link = LinkDirection(10**8, 2000, queue=Queue("pfifo", {"limit": 850}))
    assert link.egress_tc("r1-eth0", 0) == [
        "qdisc add dev r1-eth0 root handle 1: tbf rate 100000000bit burst 1600 limit 2147483647",
        "qdisc add dev r1-eth0 parent 1:1 handle 10: pfifo limit 850"]
    assert "burst 50000 " in link.egress_tc("r1-eth0", 4000)[0]
    assert "burst 1600 " in LinkDirection(10**6).egress_tc("x", 4000)[0]


def test_tc_lines_of_the_receiving_side():
    link = LinkDirection(10**8, 2000)
    redirect = ["qdisc add dev r2-eth0 handle ffff: ingress",
                "filter add dev r2-eth0 parent ffff: protocol all matchall action mirred egress redirect dev wr2-eth0"]
    assert link.ingress_tc("r2-eth0", "wr2-eth0") == redirect + [
        "qdisc add dev wr2-eth0 root handle 2: netem limit 9375 delay 2000us rate 100000000bit"]
    lossy = LinkDirection(10**8, 2000, loss_percent=0.25).ingress_tc("r2-eth0", "wr2-eth0")
    assert lossy[:2] == redirect and lossy[2].endswith("rate 100000000bit loss 0.25%")


@pytest.mark.parametrize("rate_bps, delay_us", [(10**4, 0), (10**8, 2000), (10**9, 300_000), (10**10, 1000)])
def test_the_delay_line_never_drops(rate_bps, delay_us):
    """It holds more than its bandwidth-delay product even of the smallest frames."""
    assert LinkDirection(rate_bps, delay_us).wire_limit_packets() > 2 * rate_bps * delay_us / 8e6 / 64


def test_parameter_helpers():
    assert [plain(name) for name in ("rate_bps", "delay_us", "limit_bytes", "loss_percent", "busy", "left_delays_us")] == [
        "rate", "delay", "limit", "loss", "busy", "left_delays"]
    assert require_mapping({}, "x") == {}
    with pytest.raises(ParameterError) as problem:
        require_mapping("x", "queue")
    assert problem.value.inside("central").field == "central.queue" and str(problem.value.inside("central")) == "a mapping expected"
    require_fields({"a_us": 1, "b": True}, {"a_us": int, "b": bool, "c": int}, required=("a_us",))
    for section, field, message in [({"a": 1}, "a", "'20 ms'"), ({"b_us": True, "a_us": 1}, "b", "without a unit"), ({}, "a", "missing"),
                                    ({"a_us": 1, "z": 1}, "z", "fields are: a, b, c"), ({"a_us": True}, "a", "not what is expected"),
                                    ({"a_us": "1"}, "a", "not what is expected")]:
        with pytest.raises(ParameterError, match=message) as problem:
            require_fields(section, {"a_us": int, "b": bool, "c": int}, required=("a_us",))
        assert problem.value.field == field
