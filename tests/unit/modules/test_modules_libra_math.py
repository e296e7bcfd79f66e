# SPDX-License-Identifier: GPL-2.0-only
"""kernel-modules/tcp_libra/libra_math.h against floating point, over the whole range that it claims."""
import itertools
import pathlib
import re
import subprocess

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent
SOURCES = HERE.parents[2] / "kernel-modules" / "tcp_libra"

# as the header says
ERROR = 1.5e-5
UNIT = 2.0**-40  # of growth, in packets

C = (10_000, 400_000_000_000)  # bit/s
K = (0, 100_000)  # thousandths
T = (1, 100_000_000)  # us
W = (2, 1 << 24)
NAMES = ("c", "k1", "k2", "t0", "t1", "t", "min", "max", "w")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """driver(mode, columns of inputs) -> columns of results. Undefined behaviour ends it."""
    program = tmp_path_factory.mktemp("libra") / "libra_driver"
    subprocess.run(
        [
            "gcc",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsanitize=undefined,float-cast-overflow",
            "-fno-sanitize-recover=all",
            f"-I{SOURCES}",
            str(HERE / "libra_driver.c"),
            "-o",
            str(program),
        ],
        check=True,
    )

    def run(mode, *columns):
        rows = np.column_stack([np.asarray(c, dtype=np.uint64) for c in columns])
        done = subprocess.run([program, mode], input=rows.tobytes(), capture_output=True, check=True)
        return np.frombuffer(done.stdout, dtype=np.uint64).reshape(len(rows), -1).T

    return run


def _corners():
    """Every combination of extreme and usual values."""
    rtts = [
        (t, low, high)
        for low, high in itertools.combinations_with_replacement((1, 20_000, 100_000_000), 2)
        for t in {low, (low + high) // 2, high}
    ]
    return np.array(
        [
            (c, k1, k2, t0, t1, *rtt, w)
            for c in (*C, 100_000_000)
            for k1 in (*K, 1, 2000)
            for k2 in (*K, 1, 2000)
            for t0 in (*T, 1_000_000)
            for t1 in (*T, 1_000_000)
            for rtt in rtts
            for w in (*W, 3, 1000)
        ],
        dtype=np.uint64,
    ).T


def _random(count=200_000):
    random = np.random.default_rng(1)

    def spread(low, high):
        """As many small as large ones."""
        return np.exp(random.uniform(np.log(low), np.log(high + 1), count)).astype(np.uint64).clip(low, high)

    low, high = np.sort([spread(*T), spread(*T)], axis=0)
    t = low + (random.random(count) * (high - low + 1)).astype(np.uint64)
    return np.array([spread(*C), spread(1, K[1]), spread(1, K[1]), spread(*T), spread(*T), t, low, high, spread(*W)])


@pytest.fixture(scope="module", params=["corners", "random"])
def cases(request, driver):
    """(inputs by name, as floats; results of the driver)."""
    columns = _corners() if request.param == "corners" else _random()
    return dict(zip(NAMES, columns)), driver("values", *columns)


def _exp(x):
    spread = np.maximum(x["max"] - x["min"], 1)
    return np.exp(-x["k2"] / 1e3 * (x["t"] - x["min"]) / spread)


def _alpha(x):
    return x["k1"] / 1e3 * x["c"] / 1e6 * _exp(x)


def _growth(x):
    """The formula of the paper, in seconds, Mbit/s and packets."""
    t, t0 = x["t"] / 1e6, x["t0"] / 1e6
    return _alpha(x) * t**2 / ((t0 + t) * x["w"])


def _floats(inputs):
    return {name: column.astype(float) for name, column in inputs.items()}


def _number(mantissa, exponent):
    return np.ldexp(mantissa.astype(float), exponent.astype(np.int64))


def _relative(got, expected):
    return np.abs(got - expected) / np.where(expected > 0, expected, 1)


def test_exp_table():
    table = re.search(r"libra_exp2_table\[65\] = \{(.*?)\}", (SOURCES / "libra_math.h").read_text(), re.S).group(1)
    assert [int(word, 16) for word in re.findall(r"0x\w+", table)] == [round(2 ** (31 - i / 64)) for i in range(65)]


def test_exp(cases):
    inputs, (_, _, _, _, mantissa, exponent) = cases
    assert _relative(_number(mantissa, exponent), _exp(_floats(inputs))).max() < ERROR


def test_exp_without_a_queue_is_one(driver):
    _, _, _, _, mantissa, exponent = driver(
        "values", [10**8], [2000], [2000], [10**6], [10**6], [20_000], [20_000], [20_000], [10]
    )
    assert _number(mantissa, exponent) == 1


def test_alpha(cases):
    inputs, (_, _, mantissa, exponent, _, _) = cases
    assert _relative(_number(mantissa, exponent), _alpha(_floats(inputs))).max() < ERROR


def test_growth(cases):
    inputs, (growth, *_) = cases
    expected = np.minimum(_growth(_floats(inputs)), 1)
    assert (np.abs(growth.astype(float) * UNIT - expected) <= ERROR * expected + UNIT).all()


def test_growth_covers_the_range(cases):
    """The test is worth something: there are cases at the cap, of no growth, and of everything between."""
    _, (growth, *_) = cases
    assert (growth == 1 << 40).any() and (growth == 0).any()
    assert len(np.unique(np.floor(np.log2(growth[growth > 0].astype(float))))) > 38


def test_ssthresh_is_exact(cases):
    inputs, (_, ssthresh, *_) = cases
    step = max(1, len(ssthresh) // 20_000)
    for t0, t1, t, w, got in zip(
        *(inputs[n][::step].tolist() for n in ("t0", "t1", "t", "w")), ssthresh[::step].tolist()
    ):
        numerator, divisor = 2 * w * (t0 + t) - t1 * w, 2 * (t0 + t)
        assert got == max(numerator // divisor, 2)


def test_ssthresh_without_delay_is_renos(driver):
    w = np.arange(2, 1000)
    same = np.ones_like(w)
    _, ssthresh, *_ = driver(
        "values", 10**8 * same, 2000 * same, 2000 * same, 10**6 * same, 10**6 * same, 0 * same, same, same, w
    )
    assert (ssthresh == np.maximum(w // 2, 2)).all()


@pytest.mark.parametrize("rtt_ms, packets", [(20, 0.0784), (100, 1.818), (200, 6.667)])
def test_growth_per_round_trip_at_100_mbits(driver, rtt_ms, packets):
    """As many ACKs as the window has packets, with no queue."""
    t, window = rtt_ms * 1000, 1000
    growth, *_ = driver("values", [100_000_000], [2000], [2000], [10**6], [10**6], [t], [t], [t], [window])
    assert growth[0] * UNIT * window == pytest.approx(packets, rel=1e-3)


def _acks_for(first, last, growth_per_rtt):
    """ACKs that take the window from `first` to `last`: each packet of growth takes window / growth_per_rtt of them."""
    return sum(range(first, last)) / growth_per_rtt


@pytest.mark.parametrize("t, start", [(10, 10), (100, 10), (1000, 10), (20_000, 500), (200_000, 2000)])
def test_no_growth_is_lost_in_the_long_run(driver, t, start):
    """However small the growth of an ACK, N of them give the analytic growth."""
    g = _growth(
        _floats(dict(zip(NAMES, np.array([10**8, 2000, 2000, 10**6, 10**6, t, t, t, 1]))))
    )  # W growth(W)
    acks = 3_000_000
    window, credit = driver(
        "grow", [10**8], [2000], [2000], [10**6], [10**6], [t], [t], [t], [start], [1], [acks]
    )
    window, credit = int(window[0]), credit[0] * UNIT
    assert _acks_for(start, window, g) + credit * window / g == pytest.approx(acks, rel=5e-4 if t == 10 else ERROR)


def test_an_ack_of_many_packets_counts_as_many(driver):
    case = [10**8], [2000], [2000], [10**6], [10**6], [20_000], [20_000], [20_000], [500]
    one, many = driver("grow", *case, [1], [400_000]), driver("grow", *case, [4], [100_000])
    assert abs(int(one[0, 0]) - int(many[0, 0])) <= 1


def test_growth_is_at_most_that_of_slow_start(driver):
    case = [4 * 10**11], [100_000], [0], [1], [1], [10**8], [1], [10**8], [10]
    assert driver("grow", *case, [7], [1])[0, 0] == 17
