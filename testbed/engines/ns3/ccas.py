# SPDX-License-Identifier: GPL-2.0-only
"""Congestion controls of the kernel and what stands for them in ns-3 (docs/howto/simulators.md).

A kernel's module parameters become attributes where ns-3 has the same; beside them, every congestion
control takes what sets up its sockets (`SOCKET`), so that a difference to the kernel can be switched off or on:

    --cca ./cubic-linux.yaml, with    kernel_cca: cubic
                                      parameters: {hystart_delay_max_us: 16000, quick_acks: 16}
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from testbed.core.errors import UsageError


class Attribute(NamedTuple):
    """An attribute that stands for a parameter: its name, and its text for a whole number."""
    name: str
    text: Callable[[int], str]
    what: str


class Algorithm(NamedTuple):
    """A TypeId of ns-3; fixed: attributes that make it what the kernel's is."""
    type_id: str
    what: str
    fixed: Mapping[str, str] = {}
    parameters: Mapping[str, Attribute] = {}


def _microseconds(value: int) -> str:
    return f"{value}us"


def _flag(value: int) -> str:
    return "true" if value else "false"


_CUBIC = {
    "hystart": Attribute("HyStart", _flag, "leave slow start before losses: 0 or 1 (1)"),
    "hystart_low_window": Attribute("HyStartLowWindow", str, "not below this window, segments (16)"),
    "hystart_ack_delta_us": Attribute("HyStartAckDelta", _microseconds, "spacing of a train of ACKs (2000)"),
    "hystart_delay_min_us": Attribute("HyStartDelayMin", _microseconds, "least threshold of the delay (4000)"),
    "hystart_delay_max_us": Attribute(
        "HyStartDelayMax", _microseconds, "greatest threshold of the delay (1000000; Linux: an eighth of the RTT, at "
        "most 16000)"),
    "fast_convergence": Attribute("FastConvergence", _flag, "give room to new flows: 0 or 1 (1)"),
}
_BIC = {
    "fast_convergence": Attribute("FastConvergence", _flag, "give room to new flows: 0 or 1 (1)"),
    "low_window": Attribute("LowWnd", str, "Reno below this window, segments (14)"),
    "smooth_part": Attribute("SmoothPart", str, "steps to the middle (5; Linux: 20)"),
}
_LIBRA = {
    "k1": Attribute("K1", str, "scalability factor in thousandths (2000)"),
    "k2": Attribute("K2", str, "penalty factor in thousandths (2000)"),
    "t0_us": Attribute("T0", str, "T0 in microseconds (1000000)"),
    "t1_us": Attribute("T1", str, "T1 in microseconds (1000000)"),
}

ALGORITHMS: dict[str, Algorithm] = {
    "reno": Algorithm("ns3::TcpLinuxReno", "written after Linux's"),
    "cubic": Algorithm("ns3::TcpCubic", "3.37 has no TCP-friendly region; HyStart's threshold is the RTT itself",
                       parameters=_CUBIC),
    "bic": Algorithm("ns3::TcpBic", "Linux has 20 steps to the middle, ns-3 5", parameters=_BIC),
    "bbr": Algorithm("ns3::TcpBbr", "version 1"),
    "dctcp": Algorithm("ns3::TcpDctcp", "wants ECN"),
    "highspeed": Algorithm("ns3::TcpHighSpeed", "RFC 3649"),
    "htcp": Algorithm("ns3::TcpHtcp", "H-TCP"),
    "hybla": Algorithm("ns3::TcpHybla", "Hybla"),
    "illinois": Algorithm("ns3::TcpIllinois", "Illinois"),
    "lp": Algorithm("ns3::TcpLp", "TCP-LP"),
    "scalable": Algorithm("ns3::TcpScalable", "Scalable TCP"),
    "vegas": Algorithm("ns3::TcpVegas", "Vegas"),
    "veno": Algorithm("ns3::TcpVeno", "Veno"),
    "westwood": Algorithm("testbed::Westwood", "Westwood+, as Linux's; simulation/ns3/westwood.h mends two faults",
                          fixed={"ProtocolType": "WestwoodPlus"}),
    "yeah": Algorithm("ns3::TcpYeah", "YeAH-TCP"),
    "libra": Algorithm("testbed::TcpLibra", "simulation/ns3/libra.h, with the formulas of the kernel module",
                       parameters=_LIBRA),
}
#: from ns-3.38 on there is no other Westwood
WESTWOOD_PLUS = Algorithm("testbed::Westwood", ALGORITHMS["westwood"].what)
_WESTWOOD_PLUS_FROM = (3, 38)

#: parameters that every congestion control takes here: {name: (default, what it is)}
SOCKET: dict[str, tuple[int, str]] = {
    "quick_acks": (0, "segments that a receiver acknowledges one by one at first (0; Linux: about 16)"),
    "delayed_ack_us": (40_000, "how long an acknowledgement waits for a second segment (40000)"),
    "min_rto_us": (200_000, "least retransmission timeout (200000)"),
    "rto_floor": (1, "1: the timeout is sRTT + max(min_rto, 4 rttvar), as in Linux; 0: max(min_rto, sRTT + 4 rttvar), "
                     "as in ns-3 (1)"),
    "prr": (1, "proportional rate reduction in recovery: 0 or 1 (1)"),
}

#: sysctls that can be honoured, with the values that are possible; others cannot be set
SYSCTLS: dict[str, tuple[int, ...] | None] = {
    "net.ipv4.tcp_sack": (0, 1), "net.ipv4.tcp_slow_start_after_idle": (0, 1), "net.ipv4.tcp_ecn": (0, 1, 2),
    # buffers are of their largest size from the beginning
    "net.ipv4.tcp_rmem": None, "net.ipv4.tcp_wmem": None,
    # what ns-3 does not have is off
    "net.ipv4.tcp_dsack": (0,), "net.ipv4.tcp_frto": (0,), "net.ipv4.tcp_early_retrans": (0,),
    "net.ipv4.tcp_recovery": (0,), "net.ipv4.tcp_moderate_rcvbuf": (0,),
}


def algorithm(cca: str, version: tuple[int, int]) -> Algorithm:
    """What stands for a CCA of the kernel in a version of ns-3."""
    return WESTWOOD_PLUS if cca == "westwood" and version >= _WESTWOOD_PLUS_FROM else ALGORITHMS[cca]


def parameters(cca: str) -> dict[str, str]:
    """{parameter: description} of a CCA."""
    own = {name: attribute.what for name, attribute in ALGORITHMS[cca].parameters.items()}
    return {**own, **{name: what for name, (_, what) in SOCKET.items()}}


def settings(cca: str, given: Mapping[str, str], version: tuple[int, int]) -> dict[str, str]:
    """What the driver is told of a CCA: {key: text}; attributes of its class begin with +.

    given: parameters as texts. UsageError if there is no such parameter.
    """
    chosen = algorithm(cca, version)
    found = {"type": chosen.type_id, **{f"+{name}": text for name, text in chosen.fixed.items()}}
    numbers = {name: default for name, (default, _) in SOCKET.items()}
    given = dict(given)
    if cca == "libra":
        found["+Capacity"] = str(_number(cca, "capacity", given.pop("capacity", "100"))
                                 * _number(cca, "unit", given.pop("unit", "1000000")))
    for name, text in given.items():
        value = _number(cca, name, text)
        if name in SOCKET:
            numbers[name] = value
        elif name in chosen.parameters:
            attribute = chosen.parameters[name]
            found[f"+{attribute.name}"] = attribute.text(value)
        else:
            raise UsageError(f"engine ns3 has no parameter {name!r} of {cca}; there are: "
                             f"{', '.join(parameters(cca))}")
    prr = numbers.pop("prr")
    found["recovery"] = "ns3::TcpPrrRecovery" if prr else "ns3::TcpClassicRecovery"
    return {**found, **{name: str(value) for name, value in numbers.items()}}


def _number(cca: str, name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"engine ns3: parameter {name} of {cca}: a whole number expected, not {text!r}") from None
