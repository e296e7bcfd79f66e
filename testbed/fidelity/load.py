# SPDX-License-Identifier: GPL-2.0-only
"""Offered load against its target, its steadiness, and what the link carried of it."""
from testbed.fidelity import Finding

_TARGET, _THIRDS, _CARRIED = 0.05, 0.05, 0.10
#: above this load a link cannot be expected to carry what is offered
_CARRIED_UP_TO = 0.7


def check(evidence):
    workload = evidence.json("workload.json")
    if "offered_bps" not in workload:
        return
    target_link = workload["target_link"]
    rate_bps = {l["name"]: l["rate_bps"] for l in evidence.json("network.json")["links"]}[target_link]
    offered = workload["offered_bps"][target_link]
    error = offered / (rate_bps * workload["target_load"]) - 1
    level = "ok" if abs(error) <= _TARGET else "invalid"
    yield Finding(level, f"offered load {offered / rate_bps:.2%} of {target_link}, target "
                         f"{workload['target_load']:.0%} ({error:+.2%})")
    _, second, last = workload["thirds_bps"][target_link]
    difference = abs(last / second - 1) if second else float("inf")
    yield Finding("ok" if difference <= _THIRDS else "suspect",
                  f"second and last third of the offered load differ by {difference:.1%}")
    queue = evidence.table("queue")
    if queue is None:
        yield Finding("suspect", "the bottleneck was not sampled: carried load unknown")
        return
    queue = queue[queue["link"] == target_link]
    start_us = workload["prefill_us"] + workload["warmup_us"]
    inside = queue[(queue["t_us"] >= start_us) & (queue["t_us"] <= workload["duration_us"])]
    if len(inside) < 2 or not offered:
        yield Finding("suspect", f"{len(inside)} samples of {target_link} in the measured part: carried load unknown")
        return
    seconds = (inside["t_us"].iloc[-1] - inside["t_us"].iloc[0]) / 1e6
    carried = (inside["sent_bytes"].iloc[-1] - inside["sent_bytes"].iloc[0]) * 8 / seconds
    difference = carried / offered - 1
    message = f"{target_link} carried {carried / 1e6:.2f} Mbit/s of {offered / 1e6:.2f} offered ({difference:+.1%})"
    if workload["target_load"] <= _CARRIED_UP_TO and abs(difference) > _CARRIED:
        yield Finding("suspect", message)
    else:
        yield Finding("ok", message)
