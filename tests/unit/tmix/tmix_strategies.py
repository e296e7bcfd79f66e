# SPDX-License-Identifier: GPL-2.0-only
"""Hypothesis strategies for connection vectors."""

from hypothesis import strategies as st

from traffic.tmix.vectors import ACCEPTOR, CONC, INITIATOR, MAX_ADU_BYTES, MAX_ID, MAX_TIME_US, SEQ, Adu, Vector

times = st.one_of(st.just(0), st.integers(1, 10**6), st.integers(0, MAX_TIME_US))
sizes = st.one_of(st.integers(1, 3000), st.integers(1, MAX_ADU_BYTES))
ids = st.one_of(st.integers(0, 10**6), st.integers(0, MAX_ID))
data_adus = st.builds(Adu, st.sampled_from([INITIATOR, ACCEPTOR]), times, sizes)


def pairs(element):
    return st.one_of(st.none(), st.tuples(element, element))


@st.composite
def vectors(draw, any_closer=False):
    """A vector; with any_closer also those that the original format cannot express."""
    kind = draw(st.sampled_from([SEQ, CONC]))
    data = draw(st.lists(data_adus, min_size=1, max_size=12))
    closers = [side for side in (INITIATOR, ACCEPTOR) if draw(st.booleans())]
    if kind == SEQ and not any_closer:
        closers = [data[-1].side] if closers else []
    fins = [Adu(side, draw(times), 0) for side in closers]
    return Vector(draw(times), kind, (draw(ids), draw(ids)), tuple(data + fins),
                  draw(pairs(st.integers(0, 1 << 32))), draw(st.one_of(st.none(), times)),
                  draw(pairs(st.floats(0, 1, allow_subnormal=False))),
                  draw(pairs(st.integers(88, 32767))))
