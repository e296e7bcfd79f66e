# SPDX-License-Identifier: GPL-2.0-only
"""The computed radio channel (kernel-modules/air) against what the standards and Bianchi's model say."""
import math
import pathlib
import subprocess

import pytest

from testbed import PROJECT_DIR

HERE, AIR = pathlib.Path(__file__).parent, PROJECT_DIR / "kernel-modules" / "air"
CELL = 100_000                  # mm: range of a cell in which all hear each other
SINK = "0:0:0:0"                # a station that sends nothing
FRAME = 1536                    # bytes: 1500 of IP in a data frame of 802.11
SLOT, SIFS, DIFS, ACK, EIFS, WINDOW, ATTEMPTS = 9, 10, 28, 50, 88, 16, 7      # us


@pytest.fixture(scope="session")
def stations(tmp_path_factory):
    """stations(method, senders, ...) -> (a dict for each station, share of time on the air)"""
    program = tmp_path_factory.mktemp("air") / "stations"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{AIR}", "-o", program, HERE / "stations.c",
                    *(AIR / name for name in ("air.c", "dcf.c", "csma.c"))], check=True)

    def run(method, words, ms=60_000, seed=1, attempts=ATTEMPTS, reach=CELL, sense=CELL, loss=0.0):
        printed = subprocess.run([program, method, *map(str, (reach, sense, ms, seed, attempts, int(loss * 2**32), 0)),
                                  *words], check=True, capture_output=True, text=True).stdout.split("\n")[:-1]
        names = ("frames", "attempts", "acknowledged", "given_up", "no_access", "received", "garbled", "chance",
                 "delivered", "duplicates", "lost")
        return [dict(zip(names, map(int, line.split()))) for line in printed[:-1]], int(printed[-1]) / 1e6
    return run


def around(count, size=FRAME):
    """Senders close to the sink, station 0."""
    return [SINK, *(f"0:{size}:{1000 + place}:0" for place in range(count))]


def ofdm_us(size, rate):
    return 26 + 4 * math.ceil((16 + 8 * size + 6) / (4 * rate))


@pytest.mark.parametrize("rate, ack_rate", [(6, 6), (9, 6), (24, 24), (54, 24)])
def test_one_station_sends_as_much_as_the_standard_lets_it(stations, rate, ack_rate):
    """DIFS, 7.5 slots of back-off on the mean, the frame, SIFS, the acknowledgement."""
    (_, sender), _ = stations(f"ofdm{rate}", around(1))
    per_frame_us = DIFS + 7.5 * SLOT + ofdm_us(FRAME, rate) + SIFS + ofdm_us(14, ack_rate)
    assert sender["acknowledged"] * per_frame_us == pytest.approx(60e6, rel=0.002)
    assert sender["attempts"] == pytest.approx(sender["acknowledged"], abs=1)


@pytest.mark.parametrize("method, timeout_us, difs_us, backoff_us, frame_us", [
    ("ofdm6", 39, DIFS, 7.5 * SLOT, ofdm_us(FRAME, 6)),
    ("dsss11", 222, 50, 15.5 * 20, 192 + math.ceil(FRAME * 8 / 11))])
def test_who_gets_no_answer_backs_off_after_ack_timeout(stations, method, timeout_us, difs_us, backoff_us, frame_us):
    """No longer: a frame's reservation is for others than its sender. One attempt for each frame: one window."""
    (_, sender), _ = stations(method, [SINK, f"0:{FRAME}:200000:0"], attempts=1)
    per_frame_us = frame_us + timeout_us + difs_us + backoff_us
    assert sender["given_up"] * per_frame_us == pytest.approx(60e6, rel=0.001) and sender["acknowledged"] == 0


def bianchi(count):
    """Frames per second of saturated stations: Bianchi (JSAC 18(3), 2000), with a limit of attempts as in Wu et al.
    (Infocom 2002). A collision keeps the others away for EIFS."""
    send = 0.1                  # probability of sending in a slot
    for _ in range(2000):
        collide = 1 - (1 - send) ** (count - 1)
        windows = [min(WINDOW << attempt, 1024) for attempt in range(ATTEMPTS)]
        new = sum(collide ** place for place in range(ATTEMPTS)) / sum(
            collide ** place * (window + 1) / 2 for place, window in enumerate(windows))
        send = (send + new) / 2
    anybody = 1 - (1 - send) ** count
    alone = count * send * (1 - send) ** (count - 1) / anybody
    frame_us = ofdm_us(FRAME, 6)
    mean_us = (1 - anybody) * SLOT + anybody * (
        alone * (frame_us + SIFS + ACK + DIFS) + (1 - alone) * (frame_us + EIFS))
    return anybody * alone / mean_us * 1e6


@pytest.mark.parametrize("count", [2, 5, 10, 20])
def test_saturated_stations_share_the_channel_as_in_bianchis_model(stations, count):
    (_, *senders), _ = stations("ofdm6", around(count))
    assert sum(one["acknowledged"] for one in senders) / 60 == pytest.approx(bianchi(count), rel=0.03)
    each = [one["acknowledged"] for one in senders]
    assert sum(each) ** 2 / (count * sum(frames ** 2 for frames in each)) > 0.97        # Jain's index of fairness


def test_nothing_arrives_beyond_the_range_and_nobody_there_is_disturbed(stations):
    """Two senders out of range of the sink and of each other: attempts, no frame, all given up after seven."""
    (sink, one, other), _ = stations("ofdm6", [SINK, f"0:{FRAME}:200000:0", f"0:{FRAME}:-200000:0"], ms=1000)
    assert sink["received"] == sink["garbled"] == 0 and one["acknowledged"] == other["acknowledged"] == 0
    assert one["attempts"] == pytest.approx(7 * one["given_up"], abs=7) and one["given_up"] > 20


def test_hidden_stations_collide_and_those_that_sense_each_other_do_not(stations):
    hidden = [SINK, f"0:{FRAME}:900:0", f"0:{FRAME}:-900:0"]
    (_, *apart), _ = stations("ofdm6", hidden, reach=1000, sense=1000)
    (_, *sensing), _ = stations("ofdm6", hidden, reach=1000, sense=2000)
    assert sum(one["acknowledged"] for one in apart) < 0.3 * sum(one["acknowledged"] for one in sensing)


def test_the_same_seed_gives_the_same_course_and_another_one_another(stations):
    first, again, other = (stations("ofdm6", around(5), ms=2000, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_one_low_rate_station(stations):
    """802.15.4: 3.5 units of back-off, 8 symbols of listening, 12 to turn round, the frame, the acknowledgement of 11
    bytes 12 symbols later, a long space of 40."""
    (_, sender), _ = stations("csma", around(1, 127), attempts=4)
    per_frame_us = 3.5 * 320 + 128 + 192 + 133 * 32 + 192 + 352 + 640
    assert sender["acknowledged"] * per_frame_us == pytest.approx(60e6, rel=0.005)


def test_low_rate_stations_that_find_no_chance_say_so(stations):
    (_, *senders), busy = stations("csma", around(20, 127), attempts=4)
    for one in senders:
        assert one["frames"] == pytest.approx(one["acknowledged"] + one["given_up"] + one["no_access"], abs=1)
        assert one["no_access"] > one["acknowledged"]
    assert 0.5 < busy < 1


@pytest.mark.parametrize("method, attempts", [("csma", 4), ("ofdm6", 7)])
def test_stations_that_send_to_each_other_never_stop(stations, method, attempts):
    """What a station has to acknowledge comes between what it has to send, also when both are due at once."""
    found, _ = stations(method, ["1:60:0:0", "0:60:1000:0", "0:60:0:1000"], attempts=attempts)
    later, _ = stations(method, ["1:60:0:0", "0:60:1000:0", "0:60:0:1000"], ms=120_000, attempts=attempts)
    for one, other in zip(found, later):
        assert other["frames"] == pytest.approx(2 * one["frames"], rel=0.1) and one["frames"] > 1000


def test_a_frame_is_delivered_once_or_lost(stations):
    """Where a longer frame begins at the same instant out of hearing, the acknowledgement is lost: it comes twice."""
    found, _ = stations("ofdm6", ["1:500:0:0", "0:500:900:0", "0:1500:-900:0"], reach=1000, sense=1000)
    for one in found:
        assert one["received"] == one["delivered"] + one["duplicates"]
    sums = {key: sum(one[key] for one in found) for key in found[0]}
    assert sums["frames"] == pytest.approx(sums["delivered"] + sums["lost"], abs=len(found))
    assert sums["duplicates"] > 0 and sums["lost"] > 0
