# SPDX-License-Identifier: GPL-2.0-only
"""Vectors replayed in virtual time, captured, and read off the captures: what comes back is what was replayed."""
from collections import Counter

import pytest

from analysis import packets
from analysis.packets import conversations
from testbed import engines
from tests.kernel.small_runs import small_scenario
from traffic.tmix.reader import read_vectors
from traffic.tmix.vectors import CONC

RTT_US = 32_000
#: two exchanges; the acceptor greets and streams; both speak at once; one side only; large ones; the initiator closes
VECTORS = """\
SEQ 100000 2 1 1
m 1460 1460
> 826
t 53400
< 12130
t 90000
> 100
t 25000
< 3000
t 87200

SEQ 200000 4 1 2
< 49
t 5000
> 20
t 30000
< 1024
t 700000
< 1536
t 600000
< 70000

CONC 300000 2 2 1 3
t> 40000
c> 30000
t> 800000
c> 700
c< 90000
t< 900000
c< 2000
t< 50000

SEQ 400000 1 1 4
> 200000

SEQ 450000 1 1 5
t 20000
> 1
t 0
< 400000
t 1000

S 500000 2 1 6
I 0 0 5000
A 0 10000 40
I 0 40000 5000
A 0 15000 40
I 0 1000 0

SEQ 5900000 1 1 7
> 10
t 1000
< 10
"""


@pytest.fixture(scope="module")
def replayed(run_scenario, run_with, tmp_path_factory):
    """replayed(kernel options, changes of the scenario) -> (what was replayed, {node: (what was read, the account)},
    the run)"""
    def replay(options=(), **changes):
        folder = tmp_path_factory.mktemp("vectors")
        (folder / "one.cvec").write_text(VECTORS)
        carry_out = run_scenario
        if options:
            engine = engines.load("uml")
            engine.require(options)
            engine.prepare(print)
            carry_out = run_with(engine)
        run = carry_out(small_scenario(**{
            "probes.tcp_info": {"interval": "100 ms"}, "probes.pcap": {"nodes": ["n2", "n4"]},
            "traffic": {"kind": "tmix", "target": "right_to_left", "paths": "n2->n4", "load": "1 %", "scale": 1,
                        "traces": str(folder)}, **changes}))
        there = {}
        for node in ("n2", "n4"):
            counts = Counter()
            there[node] = conversations.vectors(
                packets.tcp_packets(run.folder / f"raw/capture-{node}-eth0.pcap.gz", counts), counts), counts
        return list(read_vectors(folder / "one.cvec"))[:-1], there, run
    return replay


def data(vector, side=None):
    """Sizes of data units: (side, size) in order, or of one side."""
    return [adu.size_bytes if side is not None else (adu.side, adu.size_bytes) for adu in vector.adus
            if adu.size_bytes and side in (None, adu.side)]


def assert_same_units(found, asked):
    assert [one.kind for one in found] == [was.kind for was in asked]
    for one, was in zip(found, asked):
        # of a concurrent one the order of the sides' units says nothing
        sides = (0, 1) if was.kind == CONC else (None,)
        assert [data(one, side) for side in sides] == [data(was, side) for side in sides], was.ids


def test_what_was_replayed_comes_back(replayed):
    """At either end: sizes exactly; waits as docs/howto/tmix.md says."""
    asked, there, _ = replayed()
    for node, (found, counts) in there.items():
        assert_same_units(found, asked)
        assert counts["data segments out of order"] == counts["data segments sent again"] == 0
        assert counts["bytes that the capture lacks"] == 0 and counts["concurrent (CONC)"] == 1
        for one, was in zip(found, asked):
            assert one.start_us - found[0].start_us == pytest.approx(was.start_us - asked[0].start_us, abs=5000)
            assert RTT_US <= one.min_rtt_us <= RTT_US + 500 and one.loss == (0, 0) and one.mss is None
            for new, old, before in zip(one.adus, was.adus, [None, *was.adus]):
                # what is written at once is sent window by window: what follows it waited for less
                if was.kind == CONC or before and before.side == new.side and before.size_bytes > 14_000:
                    continue
                assert new.wait_us == pytest.approx(old.wait_us, abs=5000), (node, was.ids, new, old)


def test_losses_over_ipv6(replayed):
    asked, there, _ = replayed(["ipv6"], **{"topology.ip": 6, "topology.central.loss": "1 %"})
    for found, counts in there.values():
        assert_same_units(found, asked)
        assert counts["data segments sent again"] > 0 and counts["bytes that the capture lacks"] == 0
        assert any(max(one.loss) > 0 for one in found) and {one.mss for one in found} == {(1440, 1440)}
