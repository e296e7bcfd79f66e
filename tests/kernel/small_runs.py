# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios of a few seconds for the tests in this folder, and how their packet scripts begin."""
import copy

DUMBBELL = {
    "kind": "dumbbell",
    "central": {"rate": "100 Mbit/s", "delay": "2 ms", "queue": {"kind": "pfifo", "limit": 850}},
    # faster than the centre: else a single sender's interface would be the bottleneck
    "edge": {"rate": "1 Gbit/s", "queue": {"kind": "pfifo", "limit": 10000}},
    "left_delays": ["0 ms", "12 ms", "25 ms"],
    "right_delays": ["2 ms", "37 ms", "75 ms"],
}


#: the congestion controls of the tree
OF_THE_TREE = {"reno", "bic", "cubic", "westwood", "htcp", "highspeed", "hybla", "vegas", "nv", "scalable", "lp",
               "veno", "yeah", "illinois", "dctcp", "cdg", "bbr"}

#: a packet script: socket 4 is the accepted one
HANDSHAKE = """
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 7>
   +0 > S. 0:0(0) ack 1 <...>
  +.1 < . 1:1(0) ack 1 win 1000
   +0 accept(3, ..., ...) = 4
"""

#: three routers; n1-n6 crosses both bottlenecks, n2-n3 and n4-n5 one each
PARKING_LOT = {
    "kind": "parking-lot",
    "links": [{"rate": "20 Mbit/s", "delay": "5 ms", "queue": {"limit": "50 ms"}},
              {"rate": "10 Mbit/s", "delay": "10 ms", "queue": {"kind": "bfifo", "limit": "50 ms"}}],
    "access": {"rate": "100 Mbit/s", "queue": {"limit": 10000}},
    "hosts": [{"router": 1}, {"router": 1, "delay": "3 ms"}, {"router": 2}, {"router": 2}, {"router": 3},
              {"router": 3}],
    "paths": ["n1-n6", "n2-n3", "n4-n5"],
}

#: every link as the studies have it, and the hosts that stand in for the routers
H_SHAPE = {
    "kind": "h-shape", "central": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": {"limit": 20}},
    "edge": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": {"limit": 20}}, "cross": {"rate": "1 Gbit/s"},
}


def small_scenario(**changes):
    """A scenario of a few seconds with one greedy flow; `changes` override dotted fields.

    Nothing is random unless `changes` say so: numbers are exact.
    """
    tree = {
        "name": "small", "topology": copy.deepcopy(DUMBBELL),
        "traffic": {"kind": "greedy", "paths": ["n4->n1"]},
        "timing": {"prefill": "0 s", "warmup": "1 s", "test": "4 s"},
        "probes": {"queue": {"interval": "10 ms", "edge_interval": "100 ms"}, "sojourn": {"interval": "10 ms"},
                   "tcp_info": {"interval": "100 ms"}},
    }
    for key, value in changes.items():
        at = tree
        *sections, last = key.split(".")
        for section in sections:
            at = at[section]
        at[last] = value
    traffic = tree["traffic"] if isinstance(tree["traffic"], list) else [tree["traffic"]]
    exact = [{"start_within": "0 s", **one} if one.get("kind") == "greedy" else one for one in traffic]
    return {**tree, "traffic": exact if isinstance(tree["traffic"], list) else exact[0],
            "hosts": {"jitter": "0 us", **(tree.get("hosts") or {})}}
