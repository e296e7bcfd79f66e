# SPDX-License-Identifier: GPL-2.0-only
"""The Tmix replay in C does what the one in Python does: every byte that a run leaves is the same."""
import random

import pytest

from testbed.runs import code_bundle
from tests.kernel.small_runs import small_scenario
from traffic.tmix.vectors import CONC, SEQ, Adu, Vector, check
from traffic.tmix.writer import ALTERNATE, write_vectors

SIZES = (1, 7, 300, 1448, 2048, 2049, 5000, 60_000)
LARGE_SIZES = (262_144, 262_145, 600_000)       # about what one operation can take
LINK = {"rate": "20 Mbit/s", "delay": "2 ms", "loss": "0.5 %", "queue": {"kind": "pfifo", "limit": 50}}


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


#: in place of the replay in Python where that in C is meant
NOBODY = b"""class RingLoop:
    def __init__(self, *_):
        raise AssertionError("this replay is not in C")
"""
CASES = {"chains": {}, "windows": {"traffic.windows": "vector"},
         "a cost of wake-ups": {"hosts": {"wakeup_cost": "70 us"}}}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_the_same_bytes_in_c_and_in_python(run_scenario, tmp_path, monkeypatch, changes):
    rough_vectors(tmp_path)
    tree = small_scenario(**{"topology.central": LINK, "traffic": {
        "kind": "tmix", "target": "right_to_left", "load": "40 %", "scale": 1, "traces": str(tmp_path)}, **changes})
    runs, code = [], code_bundle._contents()
    for compiled, those in (("yes", {**code, "traffic/replay/ringloop.py": NOBODY}), ("no", code)):
        monkeypatch.setenv("TESTBED_COMPILED", compiled)
        monkeypatch.setattr(code_bundle, "_contents", lambda those=those: those)
        runs.append(run_scenario(tree))
    assert [run.json("environment.json")["replay_compiled"] for run in runs] == [True, False]
    one, other = (run.json("run.json")["raw_files_sha256"] for run in runs)
    assert one == other
    # neither was by epoll, and chains were where they are meant to be
    chains = [account["chains"] for account in runs[0].json("raw/guest.json")["accounts"]]
    assert chains and all(bool(count) == (not changes) for count in chains)
    statuses = set(runs[0].table("connections")["status"])
    assert {"finished", "unfinished"} <= statuses and len(runs[0].table("connections")) > 300
