# SPDX-License-Identifier: GPL-2.0-only
"""Types and codes of ICMP (RFC 792) and ICMPv6 (RFC 4443) by the names that scripts use."""

_FOUR = {"unreachable": (3, {"": 0, "net_unreachable": 0, "host_unreachable": 1, "protocol_unreachable": 2,
                             "port_unreachable": 3, "frag_needed": 4, "source_route_failed": 5, "net_unknown": 6,
                             "host_unknown": 7, "source_host_isolated": 8, "net_prohibited": 9, "host_prohibited": 10,
                             "net_unreachable_for_tos": 11, "host_unreachable_for_tos": 12, "packet_filtered": 13,
                             "precedence_violation": 14, "precedence_cutoff": 15}),
         "echo_reply": (0, {"": 0}), "source_quench": (4, {"": 0}), "redirect": (5, {"": 0}),
         "echo_request": (8, {"": 0}), "time_exceeded": (11, {"": 0, "exc_ttl": 0, "exc_fragtime": 1}),
         "parameter_problem": (12, {"": 0})}
_SIX = {"unreachable": (1, {"": 0, "no_route": 0, "admin_prohibited": 1, "not_neighbour": 2, "addr_unreachable": 3,
                            "port_unreachable": 4}),
        "packet_too_big": (2, {"": 0}), "time_exceeded": (3, {"": 0, "exc_hoplimit": 0, "exc_fragtime": 1}),
        "parameter_problem": (4, {"": 0})}


def numbers(kind: str, code: str, six: bool) -> tuple[int, int]:
    """(type, code). ValueError says what there is."""
    known = _SIX if six else _FOUR
    if kind not in known:
        raise ValueError(f"no type {kind!r} of ICMP{'v6' if six else ''}; there are: {', '.join(known)}")
    number, codes = known[kind]
    if code not in codes:
        raise ValueError(f"no code {code!r} of {kind}; there are: {', '.join(name for name in codes if name)}")
    return number, codes[code]
