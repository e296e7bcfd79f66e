# SPDX-License-Identifier: GPL-2.0-only
"""kernel-modules/tcp_bbr_ietf/bbr_math.h against exact fractions, over the whole range that it claims."""
import ctypes
import itertools
import math
import pathlib
import random
import subprocess
from fractions import Fraction

import pytest

HERE = pathlib.Path(__file__).parent
SOURCES = HERE.parents[2] / "kernel-modules" / "tcp_bbr_ietf"

RATE_MAX, TIME_MAX, VOLUME_MAX = 2**38 - 1, 2**24 - 1, 2**24 - 1
RATES = (0, 1, 8_000, 125_000, 2_500_000, 125_000_000, RATE_MAX)  # bytes per second
TIMES = (1, 40, 1_000, 40_540, 600_000, TIME_MAX)  # us
VOLUMES = (0, 1, 2, 3, 4, 5, 49, 50, 51, 66, 99, 100, 101, 137, 1_000, 83_000, VOLUME_MAX)  # packets
MSS = (48, 536, 1448, 65_535)
GAINS = (50, 90, 100, 125, 200, 225, 277)
_SIZES = {"void": None, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "bool": ctypes.c_bool}


@pytest.fixture(scope="module")
def bbr(tmp_path_factory):
    """The functions of bbr_functions.c. Undefined behaviour ends the test run."""
    library = tmp_path_factory.mktemp("bbr") / "bbr_functions.so"
    source = HERE / "bbr_functions.c"
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined",
                    "-fsanitize-undefined-trap-on-error", "-shared", "-fPIC", f"-I{SOURCES}", str(source), "-o",
                    str(library)], check=True)
    functions = ctypes.CDLL(str(library))
    for line in source.read_text(encoding="utf-8").splitlines():
        if "(" in line and line.split()[0] in _SIZES:
            result, rest = line.split(" ", 1)
            name, _, arguments = rest.partition("(")
            function = getattr(functions, name)
            function.restype = _SIZES[result]
            function.argtypes = [_SIZES[argument.split()[0]] for argument in arguments.split(")")[0].split(", ")]
    return functions


def _cases(*ranges, count=3000, seed=1):
    """All combinations of the values that matter, and random ones between the least and the greatest of each."""
    yield from itertools.product(*ranges)
    draw = random.Random(seed)
    for _ in range(count):
        yield tuple(round(math.exp(draw.uniform(math.log(min(values) + 1), math.log(max(values) + 1)))) - 1
                    if min(values) == 0 else round(math.exp(draw.uniform(math.log(min(values)), math.log(max(values)))))
                    for values in ranges)


def test_a_rate_is_rounded_down(bbr):
    for packets, mss, interval_us in _cases(VOLUMES, MSS, TIMES):
        exact = Fraction(packets * mss * 10**6, interval_us)
        assert bbr.rate(packets, mss, interval_us) == min(math.floor(exact), RATE_MAX), (packets, mss, interval_us)


def test_ten_packets_of_1448_bytes_in_ten_milliseconds_are_1_448_000_bytes_per_second(bbr):
    assert bbr.rate(10, 1448, 10_000) == 1_448_000


def test_a_volume_is_at_most_one_packet_above_the_exact_one_and_never_below(bbr):
    for rate, time_us, gain, mss in _cases(RATES, TIMES, GAINS, MSS):
        exact = Fraction(rate * time_us * gain, 100 * 10**6 * mss)
        volume = bbr.volume(rate, time_us, gain, mss)
        if exact <= VOLUME_MAX - 1:
            assert math.ceil(exact) <= volume <= math.ceil(exact) + 1, (rate, time_us, gain, mss)
        else:
            assert volume in (VOLUME_MAX, VOLUME_MAX - 1)


def test_a_bdp_of_10_mbit_per_s_and_40_ms_is_35_packets(bbr):
    # 50,000 bytes are 34.53 packets
    assert bbr.volume(1_250_000, 40_000, 100, 1448) == 35
    assert bbr.volume(1_250_000, 40_000, 200, 1448) == 70
    assert bbr.volume(1_250_000, 40_000, 50, 1448) == 18


def test_what_a_rate_delivers_is_whole_packets(bbr):
    for rate, time_us, mss in _cases(RATES, TIMES, MSS):
        exact = Fraction(rate * time_us, 10**6 * mss)
        assert bbr.whole_packets(rate, time_us, mss) == min(math.floor(exact), VOLUME_MAX), (rate, time_us, mss)
    assert bbr.whole_packets(RATE_MAX, 2**40, 48) == VOLUME_MAX  # a long silence does not overflow


def test_the_pacing_rate_is_the_gain_less_one_per_cent(bbr):
    for bw, gain in _cases(RATES, GAINS):
        assert bbr.pacing_rate(bw, gain) == math.floor(Fraction(bw * gain * 99, 10_000)), (bw, gain)
    assert bbr.pacing_rate(1_000_000, 125) == 1_237_500


def test_the_quantum_is_a_millisecond_from_two_packets_to_64_kbytes(bbr):
    for rate, mss in _cases(RATES, MSS):
        quantum = max(min(rate // 1000, 65_536), 2 * mss)
        assert bbr.send_quantum(rate, mss) == quantum, (rate, mss)
        assert bbr.offload_budget(rate, mss) == math.ceil(Fraction(3 * quantum, mss)), (rate, mss)


def test_losses_are_too_high_above_two_per_cent(bbr):
    for lost, inflight in _cases(VOLUMES, VOLUMES):
        assert bbr.too_high(lost, inflight) == (Fraction(lost) > Fraction(2 * inflight, 100)), (lost, inflight)
    assert not bbr.too_high(2, 100)
    assert bbr.too_high(3, 100)


def test_the_first_packet_with_which_losses_are_too_high(bbr):
    for (inflight,) in _cases(VOLUMES):
        first = bbr.first_too_many(inflight)
        assert bbr.too_high(first, inflight), inflight
        assert not bbr.too_high(first - 1, inflight), inflight


def test_the_inflight_at_loss_is_the_drafts(bbr):
    for (inflight,) in _cases(VOLUMES[1:]):
        lost = bbr.first_too_many(inflight)
        prefix = (Fraction(2, 100) * (inflight - 1) - (lost - 1)) / Fraction(98, 100)
        exact = inflight - 1 + max(prefix, 0)
        assert -Fraction(3, 100) < prefix < 2
        assert bbr.inflight_at_loss(inflight, lost) == math.floor(exact), inflight
    assert bbr.inflight_at_loss(0, 0) == bbr.inflight_at_loss(0, 5) == 0


def test_headroom_is_15_per_cent_at_least_one_packet_and_leaves_four(bbr):
    for (longterm,) in _cases(VOLUMES):
        headroom = max(1, math.ceil(Fraction(15 * longterm, 100)))
        assert bbr.with_headroom(longterm) == max(longterm - headroom, 4), longterm
    assert bbr.with_headroom(100) == 85


def test_the_growth_doubles_each_round(bbr):
    # of a window of 100: one packet per 100, 50, 25, 12, ... ACKed packets
    assert [bbr.acked_per_increase(100, rounds) for rounds in range(8)] == [100, 50, 25, 12, 6, 3, 1, 1]
    assert bbr.acked_per_increase(100, 30) == bbr.acked_per_increase(0, 0) == bbr.acked_per_increase(100, 99) == 1


def test_shares(bbr):
    assert bbr.share(100, 70) == 70
    assert bbr.share(101, 70) == 70
    assert bbr.share(RATE_MAX, 70) == math.floor(Fraction(RATE_MAX * 70, 100))


def test_what_was_lost_before_the_connection_had_this_control_is_not_lost_since(bbr):
    # a SYN that was sent twice; or setsockopt(TCP_CONGESTION) after 7 losses
    bbr.losses_init(7)
    assert bbr.losses_at(0, 0) == bbr.losses_at(1000, 1000) == 7
    bbr.losses_note(5_000, 100, 9, 0)
    assert [bbr.losses_at(delivered, 9_000) for delivered in (99, 100, 101)] == [7, 9, 9]


def test_a_packet_that_was_sent_before_a_timer_found_losses_was_sent_before_them(bbr):
    bbr.losses_init(0)
    bbr.losses_note(1_000, 50, 3, 0)  # an ACK
    bbr.losses_note(1_700, 50, 8, 4)  # a timer: nothing was delivered since
    # sent by the ACK, between, by the timer, and after it
    assert [bbr.losses_at(50, sent) for sent in (1_000, 1_699, 1_700, 2_000)] == [3, 3, 8, 8]
    assert (bbr.losses_at(49, 999), bbr.losses_at(51, 1_800)) == (0, 8)


def test_delivered_packets_wrap_around(bbr):
    bbr.losses_init(0)
    bbr.losses_note(1, 2**32 - 2, 4, 0)
    bbr.losses_note(2, 3, 5, 0)
    assert [bbr.losses_at(delivered % 2**32, 9) for delivered in (-3, -2, -1, 0, 2, 3, 4)] == [0, 4, 4, 4, 4, 5, 5]


@pytest.mark.parametrize("window", [10, 100, 1_000, 10_000, 100_000])
def test_of_a_windows_losses_those_of_a_32nd_of_it_may_be_missing(bbr, window):
    """A loss in every 40 packets: more than LossThresh, in windows of any size."""
    bbr.losses_init(0)
    lost = []  # of each delivered packet: C.lost at that time
    for delivered in range(3 * window + 2):
        if delivered % 40 == 39:
            bbr.losses_note(delivered, delivered, lost[-1] + 1, window // 32)
        lost.append((lost[-1] if lost else 0) + (delivered % 40 == 39))
        if delivered >= window and (delivered % 7 == 0 or window < 1000):
            sent_at = delivered - window
            exact = lost[-1] - lost[sent_at]
            since = lost[-1] - bbr.losses_at(sent_at, sent_at)
            assert exact - math.ceil(window / 32 / 40) <= since <= exact, delivered
