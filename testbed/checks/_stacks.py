# SPDX-License-Identifier: GPL-2.0-only
"""What the stacks of all hosts counted together (raw/snmp.json)."""
from testbed.core.guest_files import Snmp

#: what receivers got twice: old segments, and such as wait for others; as they report it (SACK), and as they count it
_TWICE = (("TcpExtTCPDSACKOldSent", "TcpExtDelayedACKLost"), ("TcpExtTCPDSACKOfoSent", "TcpExtTCPOFOMerge"))


def total(record: Snmp, name: str, place: int = -1) -> float:
    """A counter of all hosts, at one of the readings: the last one unless told otherwise."""
    return float(sum(values[name][place] for values in record.nodes.values() if name in values))


def came_twice(record: Snmp, place: int = -1) -> float:
    """Segments that receivers got twice."""
    return sum(max(total(record, name, place) for name in names) for names in _TWICE)
