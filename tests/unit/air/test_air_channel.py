# SPDX-License-Identifier: GPL-2.0-only
"""The computed radio channel (kernel-modules/air) against what the standards and Bianchi's model say."""
import math
from typing import NamedTuple

import pytest

SINK = "0:0:0:0"                # a station that sends nothing
FRAME = 1536                    # bytes: 1500 of IP in a data frame of 802.11
ATTEMPTS = 7


class Phy(NamedTuple):
    """Of a standard and a rate; in us, but for the first window, of slots."""
    method: str
    slot: int
    difs: int
    eifs: int
    ack_timeout: int
    window: int
    ack: int
    sifs: int = 10

    def frame(self, size=FRAME):
        """Airtime."""
        kind, rate = self.method[:4], float(self.method[4:])
        return ofdm_us(size, rate) if kind == "ofdm" else 192 + math.ceil(8 * size / rate)


def ofdm_us(size, rate):
    return 26 + 4 * math.ceil((16 + 8 * size + 6) / (4 * rate))


def ofdm(rate=6, ack=50):
    """802.11g; acknowledgements of 14 bytes at 6, 12 or 24 Mbit/s: 44, 32, 28 us, and 6 of silence."""
    return Phy(f"ofdm{rate}", 9, 28, 88, 39, 16, ack)


def dsss(rate=11, ack=248):
    """802.11b with long preambles; acknowledgements at 1 or 2 Mbit/s."""
    return Phy(f"dsss{rate}", 20, 50, 364, 222, 32, ack)


OFDM, DSSS = ofdm(), dsss()


def around(count, size=FRAME):
    """Senders close to the sink, station 0."""
    return [SINK, *(f"0:{size}:{1000 + place}:0" for place in range(count))]


@pytest.mark.parametrize("phy", [ofdm(), ofdm(9), ofdm(18, 38), ofdm(24, 34), ofdm(54, 34), dsss(1, 304), dsss(2),
                                 dsss(5.5), dsss()], ids=lambda phy: phy.method)
def test_one_station_sends_as_much_as_the_standard_lets_it(stations, phy):
    """DIFS, 7.5 or 15.5 slots of back-off on the mean, the frame, SIFS, the acknowledgement."""
    (_, sender), _ = stations(phy.method, around(1))
    per_frame_us = phy.difs + (phy.window - 1) / 2 * phy.slot + phy.frame() + phy.sifs + phy.ack
    assert sender["acknowledged"] * per_frame_us == pytest.approx(60e6, rel=0.003)
    assert sender["attempts"] == pytest.approx(sender["acknowledged"], abs=1)


def windows(phy):
    """Of the attempts at a frame."""
    return [min(phy.window << attempt, 1024) for attempt in range(ATTEMPTS)]


def lossy_frame_us(phy, loss):
    """How long a station that is alone needs for a frame. There is an attempt if all before it were lost."""
    return sum(loss ** place * ((window - 1) / 2 * phy.slot + phy.frame() + phy.difs
                                + (1 - loss) * (phy.sifs + phy.ack) + loss * phy.ack_timeout)
               for place, window in enumerate(windows(phy)))


@pytest.mark.parametrize("phy", [OFDM, DSSS], ids=lambda phy: phy.method)
@pytest.mark.parametrize("loss", [0.1, 0.5])
def test_losses_cost_attempts_and_back_offs(stations, phy, loss):
    (sink, sender), _ = stations(phy.method, around(1), loss=loss)
    assert sender["frames"] * lossy_frame_us(phy, loss) == pytest.approx(60e6, rel=0.015)
    given_up = loss ** ATTEMPTS * sender["frames"]
    assert sender["given_up"] == pytest.approx(given_up, abs=4 * math.sqrt(given_up) + 1)
    assert sink["chance"] == pytest.approx(loss * sender["attempts"], abs=4 * math.sqrt(sender["attempts"]))
    assert sink["delivered"] == sink["received"] == sender["acknowledged"] and sender["lost"] == sender["given_up"]


@pytest.mark.parametrize("phy", [OFDM, DSSS], ids=lambda phy: phy.method)
def test_who_gets_no_answer_backs_off_after_ack_timeout(stations, phy):
    """No longer: a frame's reservation is for others than its sender. One attempt for each frame: one window."""
    (_, sender), _ = stations(phy.method, [SINK, f"0:{FRAME}:200000:0"], attempts=1)
    per_frame_us = phy.frame() + phy.ack_timeout + phy.difs + (phy.window - 1) / 2 * phy.slot
    assert sender["given_up"] * per_frame_us == pytest.approx(60e6, rel=0.001) and sender["acknowledged"] == 0


def bianchi(count, phy=OFDM):
    """Frames per second of saturated stations: Bianchi (JSAC 18(3), 2000), with a limit of attempts as in Wu et al.
    (Infocom 2002). A collision keeps the others away for EIFS."""
    send = 0.1                  # probability of sending in a slot
    for _ in range(2000):
        collide = 1 - (1 - send) ** (count - 1)
        new = sum(collide ** place for place in range(ATTEMPTS)) / sum(
            collide ** place * (window + 1) / 2 for place, window in enumerate(windows(phy)))
        send = (send + new) / 2
    anybody = 1 - (1 - send) ** count
    alone = count * send * (1 - send) ** (count - 1) / anybody
    mean_us = (1 - anybody) * phy.slot + anybody * (
        alone * (phy.frame() + phy.sifs + phy.ack + phy.difs) + (1 - alone) * (phy.frame() + phy.eifs))
    return anybody * alone / mean_us * 1e6


@pytest.mark.parametrize("phy", [OFDM, DSSS], ids=lambda phy: phy.method)
@pytest.mark.parametrize("count", [2, 5, 10, 20])
def test_saturated_stations_share_the_channel_as_in_bianchis_model(stations, count, phy):
    (_, *senders), _ = stations(phy.method, around(count))
    assert sum(one["acknowledged"] for one in senders) / 60 == pytest.approx(bianchi(count, phy), rel=0.03)
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
