# SPDX-License-Identifier: GPL-2.0-only
"""Runs with radios that are bad in one way each, as bad_runs.py has those with wires."""
import copy

import topologies
from bad_runs import Bad
from spoils import greedy

MESH = topologies.resolve({"kind": "mesh", "nodes": 2})
COUNTS = {"station": 0, "frames": 10, "attempts": 13, "retries": 3, "acknowledged": 9, "given_up": 1, "no_access": 0,
          "received": 10, "garbled": 2, "chance": 1, "delivered": 9, "duplicates": 1, "lost": 1, "airtime_ns": 10**7,
          "queued": 0, "device_tx_packets": 12, "device_rx_packets": 9, "dropped_packets": 33,
          "codel_dropped": 1, "overlimits": 1}


def counted(change=lambda found: None, network=MESH):
    """Two stations that have sent each other ten frames, of which one was lost; change: what to do to the counters."""
    def spoil(files):
        files["network.json"] = copy.deepcopy(network)
        found = {"n1": dict(COUNTS), "n2": {**COUNTS, "station": 1}}
        change(found)
        files["counters.json"] = {"at_end": {}, "drained": {}, "air_drained": found}
    return spoil


def changed(**values):
    return counted(lambda found: found["n2"].update(values))


def still(found):
    for counts in found.values():
        counts.update(dict.fromkeys(counts, 0))


def in_vain(again=20, on_air=True, seen=slice(None)):
    """A flow from n2 to n1 that asks to be connected to the end, as often again, while two stations lose 68 packets;
    seen: which of its samples there are."""
    def spoil(files):
        greedy()(files)
        flow, = files["workload.json"]["flows"]
        files["guest.json"]["accounts"][0]["ends"][0]["ccas"] = {}
        mine = files["tcp_info"][lambda samples: samples["node"] == "n2"]
        retransmissions = [again * row // len(mine) for row in range(1, len(mine) + 1)]
        files["tcp_info"] = mine.assign(state="SYN-SENT", total_retrans=retransmissions)[seen]
        if on_air:
            counted()(files)
            flow.update(hops=[], hops_back=[])
    return spoil


CHECKS = [
    Bad("air", "ended in no way", changed(acknowledged=8), "invalid",
        "n2 on the air: frames = acknowledged . given up . without access does not hold: 10 and 9"),
    Bad("air", "more than once", changed(duplicates=0), "invalid", "received = delivered . repeated does not hold"),
    Bad("air", "not handed over", changed(device_rx_packets=8), "invalid",
        "delivered by the channel = received by the device does not hold: 9 and 8"),
    Bad("air", "low rate", counted(network=topologies.resolve({"kind": "low-rate", "nodes": 2})), "invalid",
        "n1 on the air: sent by the device = frames does not hold: 12 and 10"),
    Bad("air", "vanished", changed(lost=0), "invalid", "20 frames on the air, but 18 were delivered and 1 lost"),
    Bad("air", "nobody dropped them", changed(dropped_packets=34), "invalid",
        "n2 on the air: 34 packets vanished before the radio, but CoDel dropped 1 and its queues were too long 1 time"),
    Bad("air", "more dropped than there were", changed(dropped_packets=1), "invalid", "1 packets vanished"),
    Bad("air", "did not run empty", changed(queued=4), "suspect", "4 frames still waited"),
    Bad("air", "not counted", counted(lambda found: found.pop("n2")), "invalid", "no counters of the radios of n2"),
    Bad("air", "silence", counted(still), "suspect", "0 of 2 stations"),
    Bad("connected", "nothing was lost", in_vain(again=200), "suspect",
        "1 of 1 flows over the air were never connected: they asked 1[0-9]* times again, but on their ways only 68"),
    Bad("ccas", "over a wire nobody asks for long", in_vain(on_air=False), "suspect", "no connection of 1 of 1 flows"),
    Bad("ccas", "over the air, and nobody asks", in_vain(seen=slice(0)), "suspect", "no connection of 1 of 1 flows"),
    Bad("sockets", "over a wire", in_vain(on_air=False), "suspect", "lacks samples of the senders of 1 of 1 flows"),
    Bad("sockets", "over the air, and nobody asks any more", in_vain(seen=slice(9)), "suspect",
        "lacks samples of the senders of 1 of 1 flows, such as 21 of flow 1"),
]
