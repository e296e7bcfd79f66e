# SPDX-License-Identifier: GPL-2.0-only
"""Synthesises connection vectors: no trace, but traffic with a trace's character.

Sessions arrive as a Poisson process; a session is several connections with think times
between their starts; a connection is a series of exchanges (request, response) with
log-normal bodies and bounded-Pareto tails in sizes and think times. All of it is drawn
from one seed; docs/howto/tmix.md gives the distributions and where they come from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from testbed.core import fields
from traffic.tmix.batch import Batch, offsets
from traffic.tmix.presets import DEFAULT, PRESETS
from traffic.tmix.vectors import ACCEPTOR, CONC, INITIATOR, MAX_ADU_BYTES, MAX_MSS, MAX_TIME_US, MIN_MSS, SEQ


def _mean(default: float) -> float:
    """Mean of a geometric distribution from 1."""
    return fields.number(default=default, least=1, most=1e6)


def _share(default: float) -> float:
    return fields.number(default=default, least=0, most=1)


def _alpha(default: float) -> float:
    return fields.number(default=default, least=0.01, most=100)


def _sigma(default: float) -> float:
    return fields.number(default=default, least=0, most=10)


def _seconds(default: float) -> float:
    return fields.number(default=default, least=1e-6, most=1e6)


def _bytes(default: float) -> float:
    return fields.mean_size(default=default, least=1, most=MAX_ADU_BYTES)


@dataclass(frozen=True)
class SynthParameters:
    """The distributions. Sizes in bytes, times in seconds, `sigma` of the logarithm. The defaults are those of the
    preset `web`; `decode` makes the parameters of any preset.

    The probabilities of the two size tails are not given but follow from the wanted means
    (`tail_probability`), so that changing a body or a tail does not change the load.
    """

    # a label: the preset that the values are from, where nothing else was said
    preset: str = fields.word(choices=tuple(PRESETS), default=DEFAULT)
    # sessions and connections
    connections_per_second: float = fields.number(default=30.0, least=1e-6, most=1e7)
    connections_per_session: float = _mean(4.0)  # mean, geometric
    session_gap_alpha: float = _alpha(1.4)  # think time between connection starts:
    session_gap_min_s: float = _seconds(0.3)  # bounded Pareto
    session_gap_max_s: float = _seconds(60.0)
    # connections
    exchanges_per_connection: float = _mean(2.2)  # mean, geometric, at most:
    exchanges_max: int = fields.count(default=60, least=1, most=100_000)
    concurrent_share: float = _share(0.05)  # CONC; the rest is SEQ
    acceptor_first_share: float = _share(0.08)  # the acceptor greets first
    streaming_share: float = _share(0.04)  # one request, many responses
    explicit_fin_share: float = _share(0.5)
    small_packet_share: float = _share(0.10)  # m 496 496: 536-byte packets
    small_mss: int = fields.count(default=496, least=MIN_MSS, most=MAX_MSS)
    # request sizes (initiator)
    mean_initiator_bytes: float = _bytes(3600.0)  # per connection
    request_median_bytes: float = _bytes(350.0)
    request_sigma: float = _sigma(0.8)
    upload_alpha: float = _alpha(1.2)
    upload_min_bytes: float = _bytes(10e3)
    upload_max_bytes: float = _bytes(5e6)
    # response sizes (acceptor)
    mean_acceptor_bytes: float = _bytes(36000.0)  # per connection
    response_median_bytes: float = _bytes(1200.0)
    response_sigma: float = _sigma(1.3)
    download_alpha: float = _alpha(1.25)
    download_min_bytes: float = _bytes(20e3)
    download_max_bytes: float = _bytes(20e6)
    # waits
    server_median_s: float = _seconds(0.02)  # request received -> response
    server_sigma: float = _sigma(1.2)
    server_max_s: float = _seconds(10.0)
    quick_share: float = _share(0.6)  # next request without a human:
    quick_median_s: float = _seconds(0.005)
    quick_sigma: float = _sigma(1.0)
    think_alpha: float = _alpha(1.3)  # else bounded Pareto
    think_min_s: float = _seconds(0.1)
    think_max_s: float = _seconds(60.0)
    fin_median_s: float = _seconds(0.5)
    fin_sigma: float = _sigma(1.5)
    fin_max_s: float = _seconds(60.0)
    # what only other replayers use
    rtt_median_s: float = _seconds(0.06)
    rtt_sigma: float = _sigma(0.8)
    window_bytes: int = fields.size(default=65535, least=1, most=1 << 32)

    def __post_init__(self) -> None:
        for name in ("session_gap", "think"):
            self._check_range(f"{name}_min_s", f"{name}_max_s")
        for name in ("upload", "download"):
            self._check_range(f"{name}_min_bytes", f"{name}_max_bytes")
        for name in ("session_gap", "upload", "download", "think"):
            if abs(getattr(self, f"{name}_alpha") - 1) < 1e-6:
                raise fields.FieldError(f"{name}_alpha", "anything but 1 expected, where the mean is not defined so")
        for side, name in ((INITIATOR, "mean_initiator"), (ACCEPTOR, "mean_acceptor")):
            try:
                self.tail_probability(side)
            except (ValueError, ArithmeticError) as problem:
                raise fields.FieldError(name, str(problem)) from None

    def _check_range(self, low: str, high: str) -> None:
        if not getattr(self, low) < getattr(self, high):
            raise fields.FieldError(fields.plain(low), f"must be below {fields.plain(high)}: {getattr(self, low):g} is "
                                                       f"not below {getattr(self, high):g}")

    @property
    def requests_per_connection(self) -> float:
        """Mean number of initiator ADUs."""
        exchanges = _geometric_mean(self.exchanges_per_connection, self.exchanges_max)
        plain = 1 - self.streaming_share
        return plain * (exchanges - self.acceptor_first_share) + self.streaming_share

    @property
    def responses_per_connection(self) -> float:
        """Mean number of acceptor ADUs."""
        return _geometric_mean(self.exchanges_per_connection, self.exchanges_max)

    def adu_means(self, side: int) -> tuple[float, float]:
        """Mean size of a side's ADUs of the body, and of those of the tail."""
        if side == INITIATOR:
            median, sigma = self.request_median_bytes, self.request_sigma
            tail = pareto_mean(self.upload_alpha, self.upload_min_bytes, self.upload_max_bytes)
        else:
            median, sigma = self.response_median_bytes, self.response_sigma
            tail = pareto_mean(self.download_alpha, self.download_min_bytes, self.download_max_bytes)
        return median * exp(sigma ** 2 / 2), tail

    def adus_per_connection(self, side: int) -> float:
        """Mean number of a side's ADUs."""
        return self.requests_per_connection if side == INITIATOR else self.responses_per_connection

    def tail_probability(self, side: int) -> float:
        """Probability that an ADU of a side comes from the tail; follows from the means."""
        of_connection = self.mean_initiator_bytes if side == INITIATOR else self.mean_acceptor_bytes
        mean, (body, tail) = of_connection / self.adus_per_connection(side), self.adu_means(side)
        probability = (mean - body) / (tail - body)
        if not 0 <= probability <= 1:
            raise ValueError(f"a mean ADU of {mean:.0f} bytes cannot be mixed of a body with mean "
                             f"{body:.0f} and a tail with mean {tail:.0f}")
        return probability


def decode(given: object) -> SynthParameters:
    """The parameters that a section such as {"preset": "unc-like", "mean_acceptor_bytes": 18000} describes.

    What the section says itself goes before its preset. FieldError if it makes no sense.
    """
    if not isinstance(given, Mapping):
        return fields.decode(SynthParameters, given)        # which says what is expected
    name = given.get("preset")
    of_preset = PRESETS[name].parameters if isinstance(name, str) and name in PRESETS else {}
    own = {key: value for key, value in given.items() if value is not None or key not in of_preset}
    said = {fields.plain(str(key)) for key, value in own.items() if value is not None}
    return fields.decode(SynthParameters, {
        **{key: value for key, value in of_preset.items() if fields.plain(key) not in said}, **own})


def pareto_mean(alpha: float, low: float, high: float) -> float:
    """Mean of the bounded Pareto distribution on [low, high], alpha != 1."""
    ratio = low / high
    return float(alpha / (alpha - 1) * low * (1 - ratio ** (alpha - 1)) / (1 - ratio ** alpha))


def _geometric_mean(mean: float, most: int) -> float:
    """Mean of min(G, most) where G is geometric from 1 with the given mean."""
    return float(mean * (1 - (1 - 1 / mean) ** most))


def _pareto(rng: np.random.Generator, alpha: float, low: float, high: float, n: int) -> np.ndarray:
    """n draws of the bounded Pareto distribution, by inversion."""
    return low * (1 - rng.random(n) * (1 - (low / high) ** alpha)) ** (-1 / alpha)


def _lognormal(rng: np.random.Generator, median: float, sigma: float, n: int) -> np.ndarray:
    return median * np.exp(sigma * rng.standard_normal(n))


def _mix(rng: np.random.Generator, probability: float, tail: np.ndarray, body: np.ndarray) -> np.ndarray:
    return np.where(rng.random(len(body)) < probability, tail, body)


def expected_connections(duration_s: float, parameters: SynthParameters) -> float:
    """Mean number of connections that `synthesise` makes."""
    return duration_s * parameters.connections_per_second


def synthesise(duration_s: float, seed: int | Sequence[int], parameters: SynthParameters = SynthParameters()) -> Batch:
    """Connections that start in [0, duration_s), sorted by start: a Batch.

    seed: integer or sequence of integers for numpy's SeedSequence. The result depends on
    nothing else (and on numpy's generators, which its authors may change in major releases).
    Raises ValueError if the parameters contradict each other.
    """
    p = parameters
    if not 0 < duration_s * 1e6 <= MAX_TIME_US:
        raise ValueError(f"duration of {duration_s:g} s is outside 0..{MAX_TIME_US / 1e6:.0f} s")
    rng = np.random.default_rng(seed)
    start_us = _starts(rng, p, duration_s)
    return _connections(rng, p, start_us)


def _starts(rng: np.random.Generator, p: SynthParameters, duration_s: float) -> np.ndarray:
    """Start times in us. Sessions begin before 0 too, so that the process is stationary."""
    # nearly every session is shorter than this; the rest is lost from the first seconds only
    lead_s = 4 * p.connections_per_session * pareto_mean(
        p.session_gap_alpha, p.session_gap_min_s, p.session_gap_max_s) + p.session_gap_max_s
    sessions = rng.poisson((duration_s + lead_s) * p.connections_per_second
                           / p.connections_per_session)
    begin_s = rng.random(sessions) * (duration_s + lead_s) - lead_s
    counts = rng.geometric(1 / p.connections_per_session, sessions)
    first = offsets(counts)
    gaps_s = _pareto(rng, p.session_gap_alpha, p.session_gap_min_s, p.session_gap_max_s,
                     first[-1])
    gaps_s[first[:-1]] = 0.0
    elapsed_s = np.cumsum(gaps_s)
    start_s = np.repeat(begin_s - elapsed_s[first[:-1]], counts) + elapsed_s
    start_s = np.sort(start_s[(start_s >= 0) & (start_s < duration_s)])
    return (start_s * 1e6).astype(np.int64)


def _microseconds(seconds: np.ndarray, most_s: float) -> np.ndarray:
    """At least 1 us: ns-2's alternate format cannot tell a wait of 0 from no wait."""
    return np.clip(seconds * 1e6, 1, most_s * 1e6).astype(np.int64)


def _sizes(sizes: np.ndarray, most: float) -> np.ndarray:
    return np.clip(sizes, 1, most).astype(np.int64)


def _connections(rng: np.random.Generator, p: SynthParameters, start_us: np.ndarray) -> Batch:
    n = len(start_us)
    exchanges = np.minimum(rng.geometric(1 / p.exchanges_per_connection, n), p.exchanges_max)
    kind = np.where(rng.random(n) < p.concurrent_share, CONC, SEQ).astype(np.int8)
    streaming = rng.random(n) < p.streaming_share
    acceptor_first = (rng.random(n) < p.acceptor_first_share) & ~streaming
    fin = rng.random(n) < p.explicit_fin_share
    first_exchange = offsets(exchanges)
    total = int(first_exchange[-1])
    leading = np.zeros(total, bool)
    leading[first_exchange[:-1]] = True

    request = _sizes(_mix(
        rng, p.tail_probability(INITIATOR),
        _pareto(rng, p.upload_alpha, p.upload_min_bytes, p.upload_max_bytes, total),
        _lognormal(rng, p.request_median_bytes, p.request_sigma, total)), p.upload_max_bytes)
    response = _sizes(_mix(
        rng, p.tail_probability(ACCEPTOR),
        _pareto(rng, p.download_alpha, p.download_min_bytes, p.download_max_bytes, total),
        _lognormal(rng, p.response_median_bytes, p.response_sigma, total)),
        p.download_max_bytes)
    think_us = _microseconds(_mix(
        rng, p.quick_share, _lognormal(rng, p.quick_median_s, p.quick_sigma, total),
        _pareto(rng, p.think_alpha, p.think_min_s, p.think_max_s, total)), p.think_max_s)
    server_us = _microseconds(_lognormal(rng, p.server_median_s, p.server_sigma, total),
                              p.server_max_s)
    fin_us = _microseconds(_lognormal(rng, p.fin_median_s, p.fin_sigma, n), p.fin_max_s)

    # Every exchange takes two rows and every connection one more for its FIN; the rows that
    # a connection does not have are dropped afterwards.
    owner = np.repeat(np.arange(n), exchanges)
    row = 2 * np.arange(total) + owner
    rows = 2 * total + n
    side, wait_us = np.zeros(rows, np.int8), np.zeros(rows, np.int64)
    size_bytes, keep = np.zeros(rows, np.int64), np.zeros(rows, bool)
    keep[row] = np.where(leading, ~acceptor_first[owner], ~streaming[owner])
    wait_us[row] = np.where(leading, 0, think_us)
    size_bytes[row] = request
    keep[row + 1], side[row + 1], size_bytes[row + 1] = True, ACCEPTOR, response
    wait_us[row + 1] = np.where(leading & acceptor_first[owner], 0, server_us)
    # a streaming server waits its own think times between its ADUs
    paced = streaming[owner] & ~leading
    wait_us[row[paced] + 1] = think_us[paced]
    closing = row[first_exchange[1:] - 1] + 2
    # the acceptor has sent last, so it closes
    keep[closing], side[closing], wait_us[closing] = fin, ACCEPTOR, fin_us

    kept = offsets(keep)        # rows kept before each row
    counts = np.diff(kept[offsets(2 * exchanges + 1)])
    mss = np.where(rng.random(n) < p.small_packet_share, p.small_mss, -1)
    rtt_us = _microseconds(_lognormal(rng, p.rtt_median_s, p.rtt_sigma, n), 10.0)
    return Batch(start_us, kind, np.column_stack((np.zeros(n, np.int64), np.arange(n))),
                 np.full((n, 2), p.window_bytes), rtt_us, np.zeros((n, 2)),
                 np.column_stack((mss, mss)), offsets(counts), side[keep], wait_us[keep],
                 size_bytes[keep])
