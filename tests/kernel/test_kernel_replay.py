# SPDX-License-Identifier: GPL-2.0-only
"""The Tmix replay hands over whole stretches of its connections, and what happens is what happens without."""
import json
import re

import pytest

from tests.kernel.small_runs import small_scenario
from traffic.replay import component

LIGHT = small_scenario(**{"traffic": {"kind": "tmix", "target": "right_to_left", "load": "20 %"},
                          "timing.prefill": "2 s", "timing.test": "4 s"})


@pytest.fixture(scope="module")
def chained(run_scenario):
    return run_scenario(LIGHT)


def ends(run):
    """Accounts of the ends of sources, and of the nodes' programs."""
    nodes = [account for account in run.json("raw/guest.json")["accounts"] if "chains" in account]
    return [end for node in nodes for end in node["ends"]], nodes


def test_connects_and_questions_are_parts_of_chains(chained):
    """Those of initiators begin with the connect, which takes that the ring can ask for options of TCP."""
    found, nodes = ends(chained)
    connected = sum(sum(end["ccas"].values()) for end in found if end["role"] == "initiator")
    assert connected > 100 and sum(node["chains"] for node in nodes) > connected
    by_initiators = sum(node["chains"] for node in nodes if all(end["role"] == "initiator" for end in node["ends"]))
    assert by_initiators >= connected
    assert {name for end in found for name in end["ccas"]} == {"cubic"}
    assert not re.search("WARNING|BUG:|Call Trace", (chained.folder / "log.txt").read_text())


def test_what_happens_is_what_happens_without(chained, run_scenario, monkeypatch):
    class Without:
        """json, but jobs of replays name a clock that cannot be read."""
        loads = staticmethod(json.loads)

        @staticmethod
        def dumps(value, **more):
            return json.dumps({**value, "clock": "/dev/null"} if "endpoints" in value else value, **more)
    monkeypatch.setattr(component, "json", Without)
    alone = run_scenario(LIGHT)
    assert sum(node["chains"] for node in ends(alone)[1]) == 0
    for name in ("connections", "adus"):
        one, other = chained.table(name), alone.table(name)
        assert len(one) == len(other) > 100
        times = [column for column in one if column.endswith("_us")]
        assert one.drop(columns=times).equals(other.drop(columns=times))
        apart = (one[times] - other[times]).abs()
        assert (one[times].isna() == other[times].isna()).all().all()
        # a packet that comes a little earlier or later may wait for another one
        assert apart.max().max() < 2000 and (apart.max(axis=1) <= 20).mean() > 0.9
