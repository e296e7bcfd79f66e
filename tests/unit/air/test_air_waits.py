# SPDX-License-Identifier: GPL-2.0-only
"""How long stations wait before they send: every beginning of a frame, against the standards' rules written once more.

The rules know all signals of a course, and nothing of how kernel-modules/air gets there.
"""
import bisect
import collections
import itertools

import pytest

from tests.unit.air.test_air_channel import DSSS, FRAME, OFDM, SINK

#: in which what came before decides when a frame begins; every signal is shorter
RECENT_NS = 20_000_000
#: us until a signal is noticed
NOTICED = {"ofdm": 4, "dsss": 15}
FAR = f"3:{FRAME}:500:500"          # sends to number 3, which it may not reach
#: words of stations, reach and sensing in mm, losses; all of them have something to send, or nothing at all
COURSES = {
    "a cell": ([SINK, *(f"0:{FRAME}:{1000 + place}:0" for place in range(4))], 10_000, 10_000, 0.0),
    "unequal frames": (["1:500:0:0", "0:500:900:0", "0:1500:-900:0"], 1000, 1000, 0.0),
    "one of whom nobody answers": ([SINK, FAR, f"0:{FRAME}:0:500", "0:0:9000:0"], 2000, 2000, 0.0),
    "sensed, not understood": ([SINK, f"0:{FRAME}:900:0", f"3:{FRAME}:2600:0", "0:0:3500:0"], 1000, 2000, 0.0),
    "chain": (["1:300:0:0", "2:700:900:0", "3:1100:1800:0", "2:400:2700:0"], 1000, 1000, 0.0),
    "losses": ([f"1:{FRAME}:0:0", f"0:{FRAME}:500:0"], 1000, 1000, 0.3)}


def overlap(one, other):
    return one.begin < other.end and other.begin < one.end


class Course:
    """Signals, who hears and understands whom, and what 802.11 says of it; all times in ns."""

    def __init__(self, words, reach, sense, signals, phy):
        self.signals, self.phy = signals, phy
        self.to = [int(word.split(":")[0]) for word in words]
        places = [complex(*map(int, word.split(":")[2:])) for word in words]
        self.reach = [[0 < abs(one - other) <= reach for other in places] for one in places]
        self.heard = [[signal for signal in signals if abs(places[signal.station] - place) <= sense]
                      for place in places]
        self.acks = {(one.station, one.begin): one for one in signals if one.kind == "ack"}

    def recent(self, station, since, until):
        """What a station hears that begins meanwhile."""
        first, after = (bisect.bisect_left(self.heard[station], time, key=lambda one: one.begin)
                        for time in (since, until))
        return self.heard[station][first:after]

    def clear(self, signal, station, until=None):
        """Whether a station understands a signal (so far)."""
        return self.reach[signal.station][station] and not any(
            overlap(signal, other) and (until is None or other.begin < until)
            for other in self.recent(station, signal.begin - RECENT_NS, signal.end) if other is not signal)

    def answer(self, frame):
        """What acknowledges it, or None."""
        by = self.to[frame.station]
        return self.acks.get((by, frame.end + self.phy.sifs * 1000)) if self.clear(frame, by) else None

    def failed_at(self, frame):
        """When its sender knows; None: it was acknowledged."""
        answer, timeout = self.answer(frame), frame.end + self.phy.ack_timeout * 1000
        if answer is None or not self.clear(answer, frame.station, until=timeout):
            return timeout
        return None if self.clear(answer, frame.station) else answer.end

    def slots_from(self, frame):
        """(what decides, when slots begin to count before a frame); a signal that was not noticed yet is none."""
        station, phy = frame.station, self.phy
        before = self.recent(station, frame.begin - RECENT_NS, frame.begin - NOTICED[phy.method[:4]] * 1000 + 1)
        assert all(one.end <= frame.begin for one in before), "it has begun while it heard somebody"
        last = max(before, key=lambda one: (one.end, one.station == station))
        own = [one for one in before if one.station == station]
        # of what was for it and clear, a station answers all that it understood
        lost = last.kind == "data" and self.to[last.station] == station and not self.answer(last)
        spoilt = lost if self.clear(last, station) else not any(overlap(last, one) for one in own)
        reserved = [one.end + (phy.sifs + phy.ack) * 1000 for one in before
                    if one.kind == "data" and self.to[one.station] != station and self.clear(one, station)]
        frames = [one for one in own if one.kind == "data"]
        failed = self.failed_at(frames[-1]) if frames else None
        return max(("EIFS" if spoilt else "DIFS", last.end + (phy.eifs if spoilt else phy.difs) * 1000)[::-1],
                   (max(reserved, default=0) + phy.difs * 1000, "NAV"),
                   ((failed or 0) + phy.difs * 1000, "ACKTimeout"))[::-1]


@pytest.fixture(scope="module", params=itertools.product((OFDM, DSSS), COURSES),
                ids=lambda of: f"{of[0].method} {of[1]}")
def one(request, course):
    """(its name, words ..., PHY) of a course."""
    phy, name = request.param
    words, reach, sense, loss = COURSES[name]
    *_, signals = course(phy.method, words, ms=500, attempts=2, reach=reach, sense=sense, loss=loss)
    return name, (words, reach, sense, signals, phy)


def decided(seen):
    """How often each wait decided when a frame began; AssertionError for one that is not a number of slots after it."""
    why = collections.Counter()
    for frame in (signal for signal in seen.signals if signal.kind == "data"):
        if frame.begin == 1_000_000:
            continue                # the first ones find a channel that has always been idle
        reason, start = seen.slots_from(frame)
        slots, rest = divmod(frame.begin - start, seen.phy.slot * 1000)
        assert rest == 0 and 0 <= slots <= 1023, (reason, frame, start)
        why[reason] += 1
    return why


def test_every_frame_of_80211_begins_at_a_slot_after_the_right_wait(one):
    name, of = one
    seen = Course(*of)
    why = decided(seen)
    for reason, where in (("DIFS", "a cell"), ("ACKTimeout", "one of whom nobody answers"), ("EIFS", "unequal frames"),
                          ("NAV", "one of whom nobody answers"), ("EIFS", "sensed, not understood"),
                          ("EIFS", "losses")):
        assert where != name or why[reason] > 5, why
    garbled = [frame for frame in seen.signals if frame.kind == "data" and seen.answer(frame)
               and not seen.clear(seen.answer(frame), frame.station)]
    assert garbled or name != "unequal frames"


@pytest.mark.parametrize("name, field", [("a cell", "difs"), ("sensed, not understood", "eifs"),
                                         ("one of whom nobody answers", "ack_timeout"),
                                         ("one of whom nobody answers", "ack")])
def test_other_waits_are_noticed(course, name, field):
    words, reach, sense, _ = COURSES[name]
    *_, signals = course("ofdm6", words, ms=500, attempts=2, reach=reach, sense=sense)
    wrong = OFDM._replace(**{field: getattr(OFDM, field) - 1})
    with pytest.raises(AssertionError, match="(D|E)IFS|NAV|ACKTimeout"):
        decided(Course(words, reach, sense, signals, wrong))


def test_802154_waits_54_symbols_for_an_acknowledgement(course):
    """Also for one that is garbled: by station 2, which does not hear the sink, in the pause before it. Then 20 symbols
    of listening and turning round, periods of back-off of 20, and 8 for each look in vain."""
    *_, signals = course("csma", [SINK, "0:60:500:0", "3:60:1400:0", "0:0:1900:0"], ms=3000, attempts=4, reach=1000,
                         sense=1000)
    acks, garbled = {one.begin: one for one in signals if (one.kind, one.station) == ("ack", 0)}, 0
    for frame, following in itertools.pairwise(one for one in signals if (one.kind, one.station) == ("data", 1)):
        answer = acks.get(frame.end + 192_000)
        if answer is None or any(overlap(answer, one) for one in signals if one.station == 2):
            periods, rest = divmod(following.begin - frame.end - (54 + 20) * 16_000, 64_000)
            assert periods >= 0 and rest == 0, (frame, answer, following)
            garbled += answer is not None
    assert garbled > 10
