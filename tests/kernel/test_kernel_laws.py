# SPDX-License-Identifier: GPL-2.0-only
"""One flow alone at a bottleneck does what its algorithm's text says, in exact numbers.

10 Mbit/s, a round trip of 200 ms (165 frames), a buffer of 50 frames. Nothing is random.
"""
import numpy as np
import pytest

from analysis.packets import captures
from tests.kernel.small_runs import small_scenario

ROUND_TRIP_S = 0.2
FRAME_US = 1514 * 8 / 10


def alone(run_scenario, cca):
    return run_scenario(small_scenario(**{
        "topology.central": {"rate": "10 Mbit/s", "delay": "50 ms", "queue": {"kind": "pfifo", "limit": 50}},
        "topology.left_delays": ["25 ms"], "topology.right_delays": ["25 ms"],
        "traffic": {"kind": "greedy", "tool": "sockets", "paths": ["n2->n1"]}, "timing.test": "29 s",
        "probes": {"queue": {}, "tcp_info": {"interval": "10 ms", "bbr": True}, "pcap": {"nodes": ["n1"]}}}), cca=cca)


def sender(run, table):
    """Samples of the flow's sender."""
    flow, = run.json("raw/workload.json")["flows"]
    found = run.table(table)
    return found[(found["src"] == flow["src"]) & (found["dport"] == flow["dport"])].reset_index(drop=True)


@pytest.fixture(scope="module")
def cubic(run_scenario):
    return alone(run_scenario, "cubic")


@pytest.fixture(scope="module")
def bbr(run_scenario):
    return alone(run_scenario, "bbr")


def test_slow_start_doubles_the_window_each_round_trip(cubic):
    """10, 20, 40, 80, 160: the handshake takes one round trip, acknowledgements come one later."""
    found = sender(cubic, "tcp_info")
    middles_us = 1e6 * ROUND_TRIP_S * (np.arange(5) + 1.75)
    assert [int(found["cwnd"][found["t_us"] <= at_us].iloc[-1]) for at_us in middles_us] == [10, 20, 40, 80, 160]


def test_cubic_reduces_by_its_factor_and_grows_by_its_cube(cubic):
    """RFC 9438: to 0.7 of the window, then W(t) = C (t - K)^3 + W_max with C = 0.4 and K = ((W_max - 0.7 W) / C)^(1/3).

    W_max is the window, or where that is below the last W_max 0.85 of it (fast convergence).
    """
    found = sender(cubic, "tcp_info")
    state, cwnd = found["ca_state"], found["cwnd"]
    recovery = 3
    begins = [at for at in range(1, len(found)) if state[at] == recovery != state[at - 1]]
    last, growing = 0.0, 0
    for begin, end in zip(begins, [*begins[1:], len(found)]):
        window, after = int(cwnd[begin - 1]), int(found["ssthresh"][begin])
        # samples are 10 ms apart: some acknowledgements come between the last one and the loss
        assert after == pytest.approx(window * 717 / 1024, abs=3)
        window = after * 1024 / 717
        last = window * (1024 + 717) / 2048 if window < last else window
        open_again = begin + int(np.argmax(state[begin:end] == 0))
        since_s = (found["t_us"][open_again:end] - found["t_us"][open_again]) / 1e6
        k_s = ((last - after) / 0.4) ** (1 / 3)
        expected = last + 0.4 * (since_s - k_s) ** 3
        # after the first second: the first window after recovery is what was in flight
        apart = (cwnd[open_again:end] - expected)[since_s > 1]
        if begin != begins[0]:          # HyStart ends slow start before the first loss: another origin
            assert not (abs(apart) >= 3).any(), (begin, last, k_s, apart)
            growing += len(apart)
    assert growing > 1_000


def test_bbr_probes_for_a_round_trip_drains_for_one_and_cruises_for_six(bbr):
    found = sender(bbr, "bbr_info")
    gain = found["pacing_gain"].round(2)
    begins = found.index[gain != gain.shift()]
    spells = list(zip(gain[begins], np.diff([*found["t_us"][begins], found["t_us"].iloc[-1]]) / 1e6))[:-1]
    places = [place for place, (one, _) in enumerate(spells) if one == 1.25]
    assert len(places) >= 12
    cruising = []
    for place in places[1:-1]:
        (_, up_s), (down, down_s), (cruise, cruise_s) = spells[place:place + 3]
        assert (down, cruise) == (0.75, 1.0)
        # probing ends when 1.25 bandwidth-delay products are in flight, draining when it is one, or after a round trip
        assert ROUND_TRIP_S - 0.01 <= up_s <= 1.25 * ROUND_TRIP_S
        assert ROUND_TRIP_S / 2 <= down_s <= ROUND_TRIP_S + 0.01
        cruising.append(cruise_s)
    # the shortest round trip is looked for every ten seconds, while the gain is 1
    assert np.median(cruising) == pytest.approx(6 * ROUND_TRIP_S, abs=0.03)
    rate_bps = found["bw_bps"][found["t_us"] > 5_000_000]
    assert rate_bps.median() == pytest.approx(10e6 * 1448 / 1514, rel=1e-4) == rate_bps.max()
    assert rate_bps.min() > 0.98 * rate_bps.max()           # a filter of ten round trips, in which ProbeRTT lies


@pytest.mark.parametrize("cca", ["cubic", "bbr"])
def test_no_two_frames_leave_the_bottleneck_closer_than_its_rate_allows(request, cca):
    run = request.getfixturevalue(cca)
    flow, = run.json("raw/workload.json")["flows"]
    times_us = [one.t_us for one in captures.segments(run.folder / "raw/capture-n1-eth0.pcap.gz")
                if one.src.startswith(flow["src"]) and one.payload_bytes == 1448]
    apart_us = np.diff(times_us)
    assert len(apart_us) > 15_000 and apart_us.min() >= int(FRAME_US)
    # one after the other while the queue is not empty
    assert np.percentile(apart_us, 40) <= FRAME_US + 1
