# SPDX-License-Identifier: GPL-2.0-only
"""Runs with radios that are bad in one way each, as bad_runs.py has those with wires."""
import copy

import topologies
from tests.unit.testbed.bad_runs import Bad
from tests.unit.testbed.evidence_files import counters
from tests.unit.testbed.spoils import both, cell, greedy, udp

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


CELL = topologies.resolve({"kind": "wireless-cell", "central": {"rate_bps": 10**8, "delay_us": 2000}, "stations": 1,
                           "edge": {"rate_bps": 10**9}, "left_delays_us": [0]})


def wires_and_radio(**values):
    """A router that has both: 90 packets come by wire and leave by radio, 70 come by radio and leave by wire; values:
    what its radio counts otherwise."""
    def spoil(files):
        files["network.json"] = copy.deepcopy(CELL)
        links = {name: counters(*ends, packets) for name, ends, packets in (
            ("n1_to_r1", ("n1", "r1"), 90), ("left_to_right", ("r1", "r2"), 90),
            ("right_to_left", ("r2", "r1"), 70), ("r1_to_n1", ("r1", "n1"), 70))}
        radio = {**COUNTS, "device_rx_packets": 70, "device_tx_packets": 90, **values}
        files["counters.json"] = {"at_end": {}, "drained": links, "air_drained": {"r2": radio, "n2": COUNTS}}
    return spoil


def datagrams_on_air(lost=67, network=MESH):
    """Two UDP flows from n2 to n1 over the air, of whose 1000 packets 900 arrive; lost: by n2's radio, beside the 33
    dropped before it."""
    def spoil(files):
        udp()(files)
        counted(lambda found: found["n2"].update(lost=lost), network)(files)
        for flow in files["workload.json"]["flows"]:
            flow.update(hops=[], hops_back=[])
    return spoil


LOW_RATE = topologies.resolve({"kind": "low-rate", "nodes": 2})
CHECKS = [
    Bad("conservation", "sent by a radio, and never come", wires_and_radio(device_tx_packets=91), "invalid",
        "r2: 160 packets in but 161 out"),
    Bad("conservation", "come by a radio, and never sent", wires_and_radio(device_rx_packets=71), "invalid",
        "r2: 161 packets in but 160 out"),
    Bad("datagrams", "one more was lost on the air", datagrams_on_air(lost=68), "invalid", "101 were dropped"),
    Bad("datagrams", "gone on the air", datagrams_on_air(lost=66), "invalid", "but 99 were dropped on their links"),
    Bad("datagrams", "gone on the air, in several frames", datagrams_on_air(66, LOW_RATE), "invalid", "but 99 were"),
    Bad("air", "ended in no way", changed(acknowledged=8), "invalid",
        "n2 on the air: frames = acknowledged . given up . without access does not hold: 10 and 9"),
    Bad("air", "more than once", changed(duplicates=0), "invalid", "received = delivered . repeated does not hold"),
    Bad("air", "not handed over", changed(device_rx_packets=8), "invalid",
        "delivered by the channel = received by the device does not hold: 9 and 8"),
    Bad("air", "low rate", counted(network=LOW_RATE), "invalid",
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
    Bad("sockets", "over a wire", in_vain(on_air=False), "suspect",
        "^1 of 1 flows were not connected within the run, as far as tcp_info tells, such as flow 1, whose sender "
        "tried until 30 s$"),
    Bad("sockets", "over the air, and nobody asks any more", in_vain(seen=slice(9)), "suspect",
        "^1 of 1 flows were not connected .*tried until 8 s$"),
    Bad("sockets", "connected at last", both(in_vain(on_air=False), cell("tcp_info", "state", "ESTAB", slice(20, 25))),
        "suspect", "^tcp_info lacks samples of the senders of 1 of 1 flows, such as 5 of flow 1$"),
    Bad("sockets", "iperf3 asks from another port", both(in_vain(on_air=False), cell("tcp_info", "sport", 40_000)),
        "suspect", "^1 of 1 flows were not connected within the run"),
]
