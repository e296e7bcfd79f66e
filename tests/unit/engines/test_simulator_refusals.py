# SPDX-License-Identifier: GPL-2.0-only
"""What of the traffic simulators refuse."""
from testbed.engines._simulators import refusals


def test_datagrams_with_ecn_are_refused():
    """They would be sent without it, and nothing would mark them."""
    one = {"name": "udp", "kind": "cbr", "ecn": "ect1"}
    problem, = refusals.of_traffic([one, {**one, "name": "other", "ecn": "not_ect"}], "ns3")
    assert problem.field == "traffic.udp.ecn" and "without ECN" in str(problem)
