# SPDX-License-Identifier: GPL-2.0-only
"""Prefill: brings a link to its steady load in a fraction of the time that would take.

The load of heavy-tailed traffic keeps rising until the long connections have gathered.
draft-irtf-iccrg-tcpeval-01 therefore gives every scenario a time `prefill_t`. Of the
connections that would start before it, those over by prefill_t / 2 have no part in the
state at prefill_t and are left out. The others are started, in their order, in the window
`prefill_si` that ends at prefill_t and is as long as the link needs at the target load to
carry their bits.
"""

from typing import Any

import numpy as np


def prefill(start_us: Any, data_end_us: Any, bits: Any, prefill_us: int, target_bps: float) -> tuple[Any, Any, int]:
    """Apply the rule.

    start_us: int64[n], experiment time without prefill.
    data_end_us: float[n], end of each connection's data from its start, uncongested.
    bits: float[n], what each puts on the target link.
    target_bps: link rate times target load.
    Returns (new start_us, -1 for a connection left out; moved, bool[n];
    window in us). The window is at most prefill_us.
    """
    start_us = np.asarray(start_us, np.int64)
    early = start_us < prefill_us
    if prefill_us == 0:
        return start_us, early, 0
    moved = early & (start_us + data_end_us > prefill_us / 2)
    window_us = min(round(float(np.sum(bits[moved])) / target_bps * 1e6), prefill_us)
    result = start_us.copy()
    result[early] = -1
    # [0, prefill_us) is compressed into the window, so the order is kept
    result[moved] = prefill_us - window_us + (
        start_us[moved] * (window_us / prefill_us)).astype(np.int64)
    return result, moved, window_us
