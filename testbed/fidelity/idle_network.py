# SPDX-License-Identifier: GPL-2.0-only
"""Before the run: round-trip times, saturated rate, buffer size and offloads are as specified."""
from testbed.fidelity import Finding

#: relative error allowed, by clock
_TOLERANCE = {"virtual": 0.001, "real": 0.05}


def check(evidence):
    measured = evidence.json("checks.json")
    tolerance = _TOLERANCE[evidence.clock]
    worst, wrong = 0.0, 0
    for path in measured["paths"]:
        if path["measured_rtt_us"] is None:
            wrong += 1
            yield Finding("invalid", f"idle RTT {path['initiator']}-{path['acceptor']}: no answer")
            continue
        expected_us = path["base_rtt_us"] + path["serialisation_us"]
        # reading the clock costs a microsecond at most
        error_us = max(0.0, abs(path["measured_rtt_us"] - expected_us) - 1)
        worst = max(worst, error_us / expected_us)
        if error_us > tolerance * expected_us:
            wrong += 1
            yield Finding("invalid", f"idle RTT {path['initiator']}-{path['acceptor']}: "
                          f"{path['measured_rtt_us'] / 1000:.3f} ms instead of {expected_us / 1000:.3f} ms")
    for what in ("paths", "bottlenecks", "offloads"):
        if not measured[what]:
            yield Finding("suspect", f"no {what} were measured before the run")
    if measured["paths"] and not wrong:
        yield Finding("ok", f"idle RTTs of {len(measured['paths'])} paths within {worst:.4%} of the specification "
                            "plus serialisation")
    kinds = {link["name"]: link["queue"] for link in evidence.json("network.json")["links"]}
    for link in measured["bottlenecks"]:
        yield from _saturated(link, kinds[link["link"]], tolerance)
    on = [f"{name} {feature}" for name, features in measured["offloads"].items()
          for feature, active in features.items() if active]
    if on:
        yield Finding("invalid", f"offloads are on: {', '.join(on)}")
    elif measured["offloads"]:
        yield Finding("ok", f"TSO, GSO and GRO are off on all {len(measured['offloads'])} interfaces")


def _saturated(link, kind, tolerance):
    if not link["overloaded"]:
        yield Finding("suspect", f"{link['link']}: the hosts behind it cannot overload it, its rate and buffer were not measured")
        return
    error = link["measured_bps"] / link["rate_bps"] - 1
    level = "ok" if abs(error) <= tolerance else "invalid"
    yield Finding(level, f"{link['link']} saturated carries {link['measured_bps'] / 1e6:.3f} Mbit/s at layer 2 "
                         f"({error:+.4%}, over {link['window_packets']} packets)")
    limit, longest = link["limit_packets"], link["longest_queue_packets"]
    if limit is None:
        return
    # an AQM may drop before the buffer is full; a FIFO may not
    fills = kind in ("pfifo", "bfifo")
    if longest > limit or link["dropped_packets"] == 0 or fills and longest < limit * (1 - tolerance) - 1:
        yield Finding("invalid", f"{link['link']} overloaded: the queue reached {longest} packets with "
                                 f"{link['dropped_packets']} drops, its limit is {limit}")
    else:
        yield Finding("ok", f"{link['link']} overloaded: the queue holds {longest} of {limit} packets, then drops")
