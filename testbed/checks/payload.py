# SPDX-License-Identifier: GPL-2.0-only
"""What connections delivered is what was sent: payload depends on its position, and is compared where it arrives."""
from collections.abc import Iterator, Mapping

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._programs import ends, receivers, tcp_flows
from testbed.core.guest_files import FlowEnd

NEEDS = ("guest.json",)


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = tcp_flows(evidence)
    if not flows:
        return
    found = ends(evidence)
    if not found and not evidence.can("kernel"):
        yield Finding(NOT_APPLICABLE, "the engine does not tell what its flows carried")
        return
    wanted = receivers(flows)
    unknown = {flow for flow, end in wanted if (flow, end) not in found}
    if unknown:
        yield Finding("suspect", f"no record of what {len(unknown)} of {len(flows)} flows received")
    mine = {key: found[key] for key in wanted if key in found}
    yield from _wrong(mine)
    compared, left_out = (
        sum(end.checked_bytes for end in mine.values()), sum(end.unchecked_bytes for end in mine.values()))
    uncompared = {flow for (flow, _), end in mine.items() if end.unchecked_bytes and not end.checked_bytes}
    if uncompared:
        yield Finding(NOT_APPLICABLE, f"the programs of {len(uncompared)} flows compare nothing (iperf3 without its "
                                      "preload)")
    if not compared and not left_out and mine:
        yield Finding("suspect", "no byte arrived")
    elif compared and not any(end.wrong_pieces for end in mine.values()):
        yield Finding("ok", f"{compared} of {compared + left_out} bytes that arrived "
                            f"({compared / (compared + left_out):.1%}) were compared, with what comes at their "
                            "positions: none was wrong")
    yield from _delivered(evidence, mine)


def _wrong(mine: Mapping[tuple[int, str], FlowEnd]) -> Iterator[Finding]:
    for (flow, end), one in mine.items():
        if one.wrong_pieces:
            connection, position = one.first_wrong or ()
            yield Finding("invalid", f"flow {flow}: {one.wrong_pieces} pieces that its {end} got are not what was "
                                     f"sent, the first in connection {connection} after {position} bytes")


def _delivered(evidence: Evidence, mine: Mapping[tuple[int, str], FlowEnd]) -> Iterator[Finding]:
    """The table of connections, made of other counts, has as many bytes."""
    connections = evidence.table("connections", low_memory=False)
    if connections is None:
        return
    # shares of one source are flows of their own
    got: dict[tuple[int, str], int] = {}
    for flow in evidence.flows:
        if flow.source is None:
            continue
        for end, column in (("receiver", "init_bytes_delivered"), ("sender", "acc_bytes_delivered")):
            one = mine.get((flow.flow, end))
            if one:
                key = flow.source, column
                got[key] = got.get(key, 0) + one.checked_bytes + one.unchecked_bytes
    for (source, column), size in got.items():
        recorded = int(connections.loc[connections["source"] == source, column].sum())
        if recorded != size:
            yield Finding("invalid", f"source {source}: its connections delivered {recorded} bytes, of which its "
                                     f"programs looked at {size}")
