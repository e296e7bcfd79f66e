# SPDX-License-Identifier: GPL-2.0-only
"""The Tmix replay by io_uring, in C, does what the one by epoll does, in Python."""
import json
import random

import pytest

from tests.kernel.small_runs import small_scenario
from traffic.replay import component
from traffic.tmix.vectors import CONC, SEQ, Adu, Vector, check
from traffic.tmix.writer import ALTERNATE, write_vectors

SIZES = (1, 7, 300, 1448, 2048, 2049, 5000, 60_000)
LARGE_SIZES = (262_144, 262_145, 600_000)       # about what one operation can take
LINK = {"rate": "1 Gbit/s", "delay": "2 ms", "queue": {"kind": "pfifo", "limit": 10_000}}


def rough_vectors(folder, count=450):
    """Connections of all shapes, several of which are under way when the run ends."""
    rng = random.Random(1)
    vectors = []
    for number in range(count):
        side, adus = rng.choice((0, 0, 0, 1)), []
        for _ in range(rng.choice((1, 2, 2, 3, 4, 6, 9, 16))):
            adus.append(Adu(side, rng.choice((0, 0, 1, 100, 1000, 20_000, 900_000)),
                            rng.choice(SIZES if rng.random() < .95 else LARGE_SIZES)))
            if rng.random() < .8:
                side = 1 - side
        adus += [Adu(fin, rng.choice((0, 1000)), 0) for fin in rng.choice(((), (0,), (1,), (0, 1)))]
        window = rng.choice((8000, 30_000, 65_535))
        vectors.append(Vector(12_000 * number, rng.choice((SEQ, SEQ, SEQ, CONC)), (number, number), tuple(adus),
                              mss=rng.choice(((1460, 1460), (536, 1460), (1460, 996), (536, 536))),
                              windows=(window, 65_535)))
        check(vectors[-1])
    for source in range(9):
        write_vectors(folder / f"rough{source}.cvec", vectors[source::9], ALTERNATE)


class Json:
    """json, but jobs of replays say how to wait."""
    loads = staticmethod(json.loads)

    def __init__(self, events):
        self._events = events

    def dumps(self, value, **more):
        return json.dumps({**value, "events": self._events} if "endpoints" in value else value, **more)


CASES = {"chains": {}, "windows": {"traffic.windows": "vector"},
         "a cost of wake-ups": {"hosts": {"wakeup_cost": "70 us"}}}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_connections_are_the_same_by_io_uring_and_by_epoll(run_scenario, tmp_path, monkeypatch, changes):
    rough_vectors(tmp_path)
    tree = small_scenario(**{"topology.central": LINK, "traffic": {
        "kind": "tmix", "target": "right_to_left", "load": "2 %", "scale": 1, "traces": str(tmp_path)}, **changes})
    runs = []
    for events in ("io_uring", "epoll"):
        monkeypatch.setattr(component, "json", Json(events))
        runs.append(run_scenario(tree))
    chains = [[account["chains"] for account in run.json("raw/guest.json")["accounts"]] for run in runs]
    assert all(bool(count) == (not changes) for count in chains[0]) and set(chains[1]) == {0}
    statuses = set(runs[0].table("connections")["status"])
    assert {"finished", "unfinished"} <= statuses and len(runs[0].table("connections")) > 300
    for name in ("connections", "adus"):
        one, other = (run.table(name) for run in runs)
        times = [column for column in one if column.endswith("_us")]
        over = one["status"] == "finished" if name == "connections" else other["delivered_us"].notna()
        assert over.mean() > 0.6 and one.drop(columns=times)[over].equals(other.drop(columns=times)[over])
        apart = (one[times] - other[times]).abs()
        if "hosts" in changes:
            # epoll wakes a program more often, and each time costs: only what comes first can be compared
            assert name == "adus" or apart[["start_us", "connected_us"]].quantile(.99).max() < 200
        else:
            # a write that waits for room in the buffer of its socket is over at another instant
            assert (one[times].isna() == other[times].isna()).all().all() and apart.quantile(.99).max() < 100
