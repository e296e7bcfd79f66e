# SPDX-License-Identifier: GPL-2.0-only
"""Decoding the kernel's trace pages, against pages of known content and a naive decoder."""
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from testbed.probes import _ring
from tests.unit.testbed import ring_pages as ring

T0 = 1_700_000_123_456_789


@pytest.fixture
def decode(tmp_path):
    """decode(pages, at once) -> [(t_ns, id)]."""

    def decoded(pages, pages_at_once=1 << 14):
        path = tmp_path / "x.cpu0.pages"
        path.write_bytes(b"".join(pages))
        found = []
        for times, ids, _, _ in _ring.decode(tmp_path, "x", pages_at_once):
            found += zip(times.tolist(), ids.tolist())
        return found

    return decoded


def test_times_add_up_within_a_page(decode):
    page = ring.page(T0, ring.event(0, ring.other()), ring.event(5, ring.other()), ring.event(1000, ring.other()))
    assert decode([page]) == [(T0, 7), (T0 + 5, 7), (T0 + 1005, 7)]


def test_every_page_has_its_own_clock(decode):
    pages = [ring.page(T0 + 10**9 * n, ring.event(n, ring.other())) for n in range(5)]
    for at_once in (1, 2, 5, 100):
        assert decode(pages, at_once) == [(T0 + 10**9 * n + n, 7) for n in range(5)]


@pytest.mark.parametrize("delta", [(1 << 27) - 1, 1 << 27, (1 << 27) + 1, 10**10, (1 << 40) + 12345])
def test_time_extends(decode, delta):
    page = ring.page(T0, ring.event(3, ring.other()), ring.event(delta, ring.other()), ring.event(4, ring.other()))
    assert decode([page]) == [(T0 + 3, 7), (T0 + 3 + delta, 7), (T0 + 7 + delta, 7)]


def test_absolute_time_stamps(decode):
    page = ring.page(T0, ring.event(3, ring.other()), ring.time_stamp(T0 + 10**12), ring.event(4, ring.other()))
    assert decode([page]) == [(T0 + 3, 7), (T0 + 10**12 + 4, 7)]


def test_long_events(decode):
    page = ring.page(
        T0,
        ring.event(1, ring.other(116)),
        ring.event(1, ring.other(400)),
        ring.event(1, ring.other(8), long=True),
        ring.event(1, ring.other(112)),
    )
    assert [t - T0 for t, _ in decode([page])] == [1, 2, 3, 4]


def test_padding_ends_a_page(decode):
    page = ring.page(T0, ring.event(1, ring.other()), ring.word(ring.PADDING, 0), ring.event(1, ring.other()))
    assert decode([page, ring.page(T0 + 50, ring.event(0, ring.other()))]) == [(T0 + 1, 7), (T0 + 50, 7)]


def test_events_that_were_taken_back_are_skipped_and_their_time_counts(decode):
    page = ring.page(T0, ring.event(1, ring.other()), ring.discarded(100, 48), ring.event(10, ring.other()))
    assert decode([page]) == [(T0 + 1, 7), (T0 + 111, 7)]


def test_nothing_behind_the_committed_length_is_read(decode):
    stale = ring.event(1, ring.other()) * 20
    assert decode([ring.page(T0, ring.event(1, ring.other()), rubbish=stale)]) == [(T0 + 1, 7)]


@pytest.mark.parametrize("flags", [1 << 31, 1 << 30, 3 << 30])
def test_flags_of_lost_events_are_not_part_of_the_length(decode, flags):
    assert decode([ring.page(T0, ring.event(1, ring.other()), flags=flags)]) == [(T0 + 1, 7)]


def test_empty_pages_and_files(decode):
    assert decode([]) == []
    assert decode([ring.page(T0)]) == []
    assert decode([ring.page(T0), ring.page(T0, ring.event(9, ring.other())), ring.page(T0)]) == [(T0 + 9, 7)]


def test_full_page(decode):
    count = (ring.PAGE - 16) // 12
    assert (
        decode([ring.page(T0, *[ring.event(1, ring.other())] * count)] * 2)
        == [(T0 + n + 1, 7) for n in range(count)] * 2
    )


def test_a_torn_file_is_an_error(tmp_path):
    (tmp_path / "x.cpu0.pages").write_bytes(ring.page(T0, ring.event(1, ring.other()))[:-1])
    with pytest.raises(ValueError, match="middle of a page"):
        list(_ring.decode(tmp_path, "x"))


def test_columns_are_read_at_their_offsets(tmp_path):
    (tmp_path / "format").write_text(ring.DEQUEUE_FORMAT)
    number, fields = _ring.read_format(tmp_path / "format")
    assert number == ring.DEQUEUE_ID
    assert fields["skbaddr"] == (32, 8, False) and fields["ifindex"] == (40, 4, True)
    assert fields["common_type"] == (0, 2, False) and fields["qdisc"] == (8, 8, False)
    skbs = [0xFFFF_8880_1234_5678, 1, 2**63]
    (tmp_path / "x.cpu0.pages").write_bytes(
        ring.page(T0, *[ring.event(1, ring.dequeue(skb, -n)) for n, skb in enumerate(skbs)])
    )
    ((_, ids, starts, raw),) = _ring.decode(tmp_path, "x")
    assert _ring.column(raw, starts, fields["skbaddr"]).tolist() == skbs
    assert _ring.column(raw, starts, fields["ifindex"]).tolist() == [0, -1, -2]
    assert _ring.column(raw, starts, fields["common_type"]).tolist() == [ring.DEQUEUE_ID] * 3
    assert _ring.column(raw, starts[ids == 0], fields["skbaddr"]).tolist() == []


def test_arrays_in_a_format_file(tmp_path):
    (tmp_path / "format").write_text(
        "ID: 12\n\tfield:__u8 saddr[sizeof(struct sockaddr_in6)];\toffset:8;\tsize:28;\tsigned:0;\n"
        "\tfield:const char * name;\toffset:40;\tsize:8;\tsigned:0;\n"
    )
    assert _ring.read_format(tmp_path / "format") == (12, {"saddr": (8, 28, False), "name": (40, 8, False)})


_DELTAS = st.one_of(st.integers(0, 10), st.integers(0, (1 << 27) - 1), st.integers(0, 1 << 36))
_SIZES = st.integers(2, 60).map(lambda words: 4 * words)
_EVENTS = st.one_of(
    st.builds(ring.event, _DELTAS, _SIZES.map(ring.other), st.booleans()),
    st.builds(ring.time_extend, st.integers(0, 1 << 50)),
    st.builds(ring.time_stamp, st.integers(T0, 1 << 58)),
    st.builds(ring.discarded, st.integers(0, (1 << 27) - 1), st.integers(2, 30).map(lambda words: 4 * words)),
    st.just(ring.word(ring.PADDING, 0)),
)
_PAGES = st.lists(
    st.builds(
        lambda t, events, flags, rubbish: ring.page(t, *events, flags=flags, rubbish=rubbish),
        st.integers(T0, 1 << 57),
        st.lists(_EVENTS, max_size=14),
        st.sampled_from([0, 1 << 31, 1 << 30]),
        st.binary(max_size=40),
    ),
    max_size=6,
)


@settings(deadline=None, max_examples=150, database=None, suppress_health_check=list(HealthCheck))
@given(pages=_PAGES, at_once=st.integers(1, 4))
def test_any_pages_decode_as_the_naive_decoder_does(decode, pages, at_once):
    expected = [(t, kind) for t, kind, _ in ring.decode_naively(b"".join(pages))]
    assert decode(pages, at_once) == expected


def test_the_events_of_several_cpus_come_in_one_order(tmp_path):
    pages = {
        0: [ring.page(T0, ring.event(0, ring.other()), ring.event(20, ring.other()))],
        1: [ring.page(T0 + 10, ring.event(0, ring.other())), ring.page(T0 + 20, ring.event(0, ring.other()))],
        2: [],
    }
    for cpu, content in pages.items():
        (tmp_path / f"x.cpu{cpu}.pages").write_bytes(b"".join(content))
    ((times, ids, starts, raw),) = _ring.decode(tmp_path, "x")
    assert (times - T0).tolist() == [0, 10, 20, 20] and ids.tolist() == [7] * 4
    # of equal times, the CPU with the lower number is first
    assert (starts[2] < 4096) and (starts[3] >= 8192) and raw.size == 3 * 4096
