# SPDX-License-Identifier: GPL-2.0-only
"""Prefill: brings a link to its steady load in a fraction of the time that would take.

The load of heavy-tailed traffic keeps rising until the long connections have gathered.
draft-irtf-iccrg-tcpeval-01 therefore gives every scenario a time `prefill_t`. Of the
connections that would start before it, those over by prefill_t / 2 have no part in the
state at prefill_t and are left out. The others are started, in their order, in the window
`prefill_si` that ends at prefill_t and is as long as the link needs at the target load to
carry their bits. Which are over by then, and which bits count, is decided by a rule.
"""
from dataclasses import dataclass

import numpy as np

#: connections that begin in a second of a UNC trace, as the evaluation suite has it
UNC_CONNECTIONS_PER_S = 500


@dataclass(frozen=True)
class Candidates:
    """Connections that may be started in the window.

    lasts_us: float[n], from a connection's start to the end of its data. bits: float[n], those that the window is to
    make up for.
    """
    lasts_us: np.ndarray
    bits: np.ndarray


def at_flow_rate(start_us: np.ndarray, bits: np.ndarray, flow_bps: float, prefill_us: int) -> Candidates:
    """As the evaluation suite judges: by a rate that every connection has, of the bits until prefill_t.

    start_us: int64[n]; bits: float[n], what each puts on the target link in all.
    """
    until_prefill = np.maximum(prefill_us - np.asarray(start_us), 0) * (flow_bps / 1e6)
    return Candidates(bits * (1e6 / flow_bps), np.minimum(bits, until_prefill))


def flow_bps(rate_bps: float, connections_per_s: float, most_rtt_us: float) -> float:
    """The suite's rate of a connection: a link's rate over the number of connections under way, if each lasts
    the longest round-trip time (Little's law)."""
    return rate_bps / (connections_per_s * most_rtt_us / 1e6)


def prefill(start_us: np.ndarray, candidates: Candidates, prefill_us: int, target_bps: float,
            published_us: int | None = None) -> tuple[np.ndarray, np.ndarray, int]:
    """Apply the rule.

    start_us: int64[n], experiment time without prefill.
    target_bps: link rate times target load.
    published_us: the window if it is given, not computed.
    Returns (new start_us, -1 for a connection left out; moved, bool[n];
    window in us). The window is at most prefill_us.
    """
    start_us = np.asarray(start_us, np.int64)
    early = start_us < prefill_us
    if prefill_us == 0:
        return start_us, early, 0
    moved = early & (start_us + candidates.lasts_us > prefill_us / 2)
    if published_us is None:
        published_us = round(float(np.sum(candidates.bits[moved])) / target_bps * 1e6)
    window_us = min(published_us, prefill_us)
    result = start_us.copy()
    result[early] = -1
    # [0, prefill_us) is compressed into the window, so the order is kept
    result[moved] = prefill_us - window_us + (
        start_us[moved] * (window_us / prefill_us)).astype(np.int64)
    return result, moved, window_us
