# SPDX-License-Identifier: GPL-2.0-only
"""Counters of the stack: what the kernel's files say, and their changes in a run."""
import pytest

from testbed.guest import snmp
from tests.unit.testbed.no_network import NoNetwork

TEXT = """\
Ip: Forwarding DefaultTTL InReceives
Ip: 2 64 1000
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens CurrEstab RetransSegs
Tcp: 1 200 120000 -1 7 3 12
TcpExt: ListenDrops
TcpExt: 4
"""


def test_the_kernels_files():
    assert snmp.parse(TEXT) == {"IpInReceives": 1000, "TcpActiveOpens": 7, "TcpRetransSegs": 12,
                                "TcpExtListenDrops": 4}


@pytest.mark.parametrize("text", ["Tcp: A B\nUdp: 1 2\n", "Tcp: A B\nTcp: 1\n", "Tcp: A\nTcp: many\n"])
def test_files_of_another_form(text):
    with pytest.raises(ValueError):
        snmp.parse(text)


def test_this_kernel_has_the_counters_that_checks_ask_for():
    assert {"TcpRetransSegs", "TcpOutSegs", "TcpExtListenOverflows", "TcpExtTCPTimeWaitOverflow",
            "TcpExtPruneCalled", "TcpExtTCPRcvCollapsed", "TcpExtTCPSpuriousRTOs"} <= snmp.read().keys()


@pytest.mark.parametrize("measure_from_us, interval_us, first", [(20, 20, [40, 2]), (0, 60, [0, 0])])
def test_changes_since_before_the_traffic(monkeypatch, measure_from_us, interval_us, first):
    counters = {"n1": {"TcpOutSegs": 100, "TcpRetransSegs": 5, "TcpInErrs": 0}, "r1": {"IpInReceives": 3}}
    network = NoNetwork(*counters)
    monkeypatch.setattr(snmp, "read", lambda: dict(counters[network.here]))
    counted = snmp.Snmp(network, measure_from_us, 60)
    assert counted.interval_us == interval_us
    for t_us in range(0, 61, interval_us):          # as the sampler calls it
        counted.sample(t_us)
        counters["n1"]["TcpOutSegs"] += 40
        counters["n1"]["TcpRetransSegs"] += 2
        if t_us == 0 and measure_from_us:
            continue
        counters["r1"]["IcmpMsgOutType3"] = 1   # appears when it counts
    counted.take("at_end")
    counters["n1"]["TcpOutSegs"] += 1
    counted.take("drained")
    record = counted.record()
    assert record["measure_from_us"] == measure_from_us
    assert record["readings"] == ["measure_from", "at_end", "drained"]
    total = 40 * len(range(0, 61, interval_us))
    assert record["nodes"] == {
        "n1": {"TcpOutSegs": [first[0], total, total + 1], "TcpRetransSegs": [first[1], total // 20, total // 20]},
        "r1": {"IcmpMsgOutType3": [0, 1, 1]}}
