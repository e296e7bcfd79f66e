# SPDX-License-Identifier: GPL-2.0-only
"""Every one of several targets is offered the load.

One scale for all sources meets the load on the sum of the targets. Beside it, the sources that cross one target and
no other get a factor on the scale of their own, so that this target has the load, whatever crosses several does there.
"""
from collections.abc import Callable

import numpy as np

from traffic.tmix.order import Run, WorkloadError

_TOLERANCE = 0.005
_MOST_ROUNDS = 16


def fit_each(offered: Callable[[np.ndarray], np.ndarray], connection_bytes: np.ndarray, source: np.ndarray,
             run: Run) -> np.ndarray:
    """The factor of each source, float64[sources], at which the target that is furthest off is closest.

    offered: function of the factors -> bit/s on each link; connection_bytes: float64[links, connections], what each
    puts there; source: int64[connections]. WorkloadError if a target has no source of its own.
    """
    targets = np.flatnonzero(run.weights > 0)
    crosses = run.crossing[targets].sum(axis=2) > 0                     # bool[targets, sources]
    alone = crosses & (crosses.sum(axis=0) == 1)
    if not alone.any(axis=1).all():
        raise WorkloadError("a load on each target needs sources for each that cross no other", "load_on")
    own_share = [connection_bytes[link][mine[source]].sum() / connection_bytes[link].sum()
                 for link, mine in zip(targets, alone)]
    factors, damping, before = np.ones(len(run.rtts_us)), np.ones(len(targets)), np.zeros(len(targets))
    best: tuple[float, np.ndarray] | None = None
    for _ in range(_MOST_ROUNDS):
        error = offered(factors)[targets] / run.each_bps - 1
        worst = float(np.abs(error).max())
        if best is None or worst < best[0]:
            best = worst, factors.copy()
        if worst <= _TOLERANCE:
            break
        # a long transfer that enters or leaves the interval makes the load jump: shorter steps from then on
        damping[error * before < 0] /= 2
        before = error
        for place, mine in enumerate(alone):
            # all that is too much has to come from them, whose load is about inverse to their factor
            factors[mine] *= float(np.clip(1 + error[place] / own_share[place], 0.5, 2.0)) ** damping[place]
    assert best
    return best[1]
