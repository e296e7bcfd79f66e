# SPDX-License-Identifier: GPL-2.0-only
"""Windows, round trips, rates and states of senders fit each other.

What is in flight is what is delivered per second times the round trip (Little's law of a flow). A sender that nothing
else holds back has its whole window in flight, and where its congestion control leaves pacing to TCP the kernel's
pacing rate is 1.2 windows per round trip, or 2 in slow start. Nothing is lost while the state is Open.
"""
import math
from collections.abc import Iterator

import numpy as np

from testbed.checks import Evidence, Finding
from testbed.checks._flows import OF_WINDOWS, by_end, established, greedy, sack, single
from testbed.checks._measured import Columns
from topologies import queues
from topologies.links import varying
from traffic.workload.records import Flow

NEEDS = ("kernel",)

_COLUMNS = ("ca_state", "cwnd", "ssthresh", "srtt_us", "mss", "unacked", "lost", "total_retrans", "bytes_acked",
            "delivered", "app_limited", "pacing_rate_bps", "rwnd_limited_us", "sndbuf_limited_us")
_OPEN, _RECOVERY, _LOSS = 0, 3, 4
#: percent of a window per round trip, below half the threshold and above it: net.ipv4.<name>, and its default
_RATIOS = (("tcp_pacing_ss_ratio", 200), ("tcp_pacing_ca_ratio", 120))
#: the rate is that at the last acknowledgement: of the samples, those at which the window has changed since; and of the
#: rate, what the kernel's division leaves out (srtt has 3 more bits there)
_CHANGED, _DIVISION = 0.05, 0.01
#: of a window: what one acknowledgement may have freed, of several that were lost, and the host's device takes its time
#: to send (TCP small queues); a segment in any case
_DEFERRED = 0.25
#: of the samples, as in the check `windows`
_SHARE = 0.05
_LEAST_SAMPLES = 20
#: of the window, in Little's law: srtt is that of the first of two segments that are acknowledged together; one
#: segment; and standard errors of the samples
_LAG, _SEGMENTS, _DEVIATIONS = 0.05, 1.0, 4
_ROUND_TRIPS, _BEHIND = 20, 16
#: with less in flight a loss may bring no acknowledgement that tells of it: the sender waits for its timer
_LEAST_WINDOW = 5
#: level and number of SO_MAX_PACING_RATE, in bytes per second
_MOST_PACING_RATE = (1, 47)


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = [flow for flow in single(evidence) if greedy(flow)]
    samples = established(evidence, _COLUMNS) if flows else None
    if samples is None:
        return                                  # of samples that are missing other checks complain
    modules = {variant.name for variant in evidence.variants if variant.module_sha256}
    most_bps = {variant.name: 8.0 * option.value for variant in evidence.variants for option in variant.socket_options
                if (option.level, option.number) == _MOST_PACING_RATE}
    paced = {link.name for link in evidence.network.links if queues.traits(link).paces}
    of_end, problems, judged = by_end(samples, flows), 0, 0
    for flow in flows:
        of = of_end.get((flow.flow, "sender"))
        if of is None:
            continue
        # before the first data are acknowledged a request that was sent twice has left a window of one segment
        began = (of["srtt_us"] > 0) & (of["bytes_acked"] > of["mss"])
        of = {name: values[began] for name, values in of.items()}
        judged += len(of["t_us"])
        found = [*_states(of)]
        # what a queue holds back counts as sent, and not as part of the round trip; without SACK what is lost is in
        # flight for longer than the state says
        if sack(flow, evidence) and flow.hops[0] not in paced:
            found += _little(of)
        if flow.cca in OF_WINDOWS and flow.variant not in modules:
            limit_bps = most_bps.get(flow.variant or "", math.inf)
            found += [*_paced(of, _ratios(flow.sender, evidence), limit_bps), *_filled(flow, of, evidence, limit_bps)]
        for level, problem in found:
            problems += 1
            yield Finding("invalid" if level == "invalid" else "suspect", f"flow {flow.flow}: {problem}")
    if judged and not problems:
        yield Finding("ok", f"windows, round trips, rates and states fit each other in {judged} samples of "
                            f"{len(flows)} flows")


def _states(of: Columns) -> Iterator[tuple[str, str]]:
    """Lost segments make the state Recovery or Loss, and these send something again."""
    wrong = (of["ca_state"] == _OPEN) & (of["lost"] > 0)
    if wrong.any():
        yield "invalid", f"{int(of['lost'][wrong][0])} segments are lost and its state is Open {_at(of, wrong)}"
    repairs = np.isin(of["ca_state"], (_RECOVERY, _LOSS))
    # a sender that paces itself may still have to send the first segment again
    begun = int((repairs & ~np.append(False, repairs[:-1])).sum()) - int(repairs[-1:].sum())
    if begun > of["total_retrans"][-1:].sum():
        yield "invalid", (f"it has repaired losses {begun} times by its state, and sent "
                          f"{of['total_retrans'][-1]:.0f} segments again")


def _waits_for_timeouts(of: Columns) -> np.ndarray:
    """Of the times between samples: nothing comes any more until a timeout, since what is in flight was lost. The state
    is Open until then, where nobody has told of a gap."""
    silent, timeouts = np.diff(of["delivered"]) == 0, of["ca_state"][1:] == _LOSS
    waits = np.zeros(len(silent), bool)
    for place in range(len(silent) - 2, -1, -1):
        waits[place] = silent[place] and (timeouts[place + 1] or waits[place + 1])
    return waits


def _little(of: Columns) -> Iterator[tuple[str, str]]:
    """What is in flight = delivered per second x round trip, where nothing was lost."""
    if len(of["t_us"]) < 2:
        return
    still = of["ca_state"] == _OPEN
    still = still[1:] & still[:-1] & (np.diff(of["total_retrans"]) == 0) & ~_waits_for_timeouts(of)
    if still.sum() < _LEAST_SAMPLES or of["unacked"].mean() < _LEAST_WINDOW:
        return
    mean = {name: ((of[name][1:] + of[name][:-1]) / 2)[still] for name in ("srtt_us", "unacked")}
    span_us, delivered = np.diff(of["t_us"])[still], np.diff(of["delivered"])[still]
    if span_us.sum() < _ROUND_TRIPS * mean["srtt_us"].mean():
        return                                  # the mean of round trips lags too far behind
    in_flight, law = mean["unacked"] * span_us, delivered * mean["srtt_us"]
    # what is in flight now makes the round trip of one later, and srtt is behind by eight acknowledgements of two
    # segments: between losses it grows
    behind = np.diff(of["unacked"])[still] * mean["srtt_us"] * (1 + _BEHIND / np.maximum(mean["unacked"], 1))
    allowed = _LAG * in_flight.sum() + _SEGMENTS * span_us.sum() + abs(float(behind.sum())) \
        + _DEVIATIONS * float(np.std(law - in_flight, ddof=1)) * math.sqrt(len(law))
    if abs(law.sum() - in_flight.sum()) > allowed:
        each = 1 / span_us.sum()
        yield "invalid", (f"{in_flight.sum() * each:.1f} segments were in flight on average, {law.sum() * each:.1f} by "
                          f"what was delivered per round trip ({allowed * each:.1f} more or less allowed)")


def _paced(of: Columns, ratios: tuple[float, float], limit_bps: float) -> Iterator[tuple[str, str]]:
    """The pacing rate that TCP computes of window and round trip (tcp_update_pacing_rate), or the most it may be."""
    steady = (of["ca_state"] == _OPEN) & (of["unacked"] <= of["cwnd"])
    if steady.sum() < _LEAST_SAMPLES:
        return
    share = np.where(of["cwnd"] < of["ssthresh"] // 2, *ratios)
    rate_bps = np.minimum(share * of["cwnd"] * of["mss"] * 8e6 / of["srtt_us"], limit_bps)
    wrong = steady & (np.abs(of["pacing_rate_bps"] / rate_bps - 1) > _DIVISION + 1 / of["srtt_us"])
    if wrong.sum() > _CHANGED * steady.sum():
        row = int(np.argmax(wrong))
        yield "invalid", (f"in {int(wrong.sum())} of {int(steady.sum())} samples its pacing rate is not what TCP makes "
                          f"of window, threshold and round trip, such as {of['pacing_rate_bps'][row] / 1e6:.3f} Mbit/s "
                          f"instead of {rate_bps[row] / 1e6:.3f} {_at(of, wrong)}")


def _filled(flow: Flow, of: Columns, evidence: Evidence, limit_bps: float) -> Iterator[tuple[str, str]]:
    """A sender has its window in flight, unless its program, the receiver's window, its buffer, its own device or its
    most pacing rate is the limit. Beyond the window is what a smaller one has left."""
    links = {link.name: link for link in evidence.network.links}
    hops = [links[name] for name in flow.hops if name in links]
    if len(hops) < len(flow.hops) or queues.traits(hops[0]).paces or len(hops) > 1 and varying.least(
            hops[0], "rate_bps") <= min(varying.most(hop, "rate_bps") for hop in hops[1:]):
        return                                  # what waits in its own device the kernel keeps small
    free = (of["ca_state"] == _OPEN) & (of["app_limited"] == 0) & (of["t_us"] < flow.stop_us) \
        & (of["pacing_rate_bps"] < limit_bps)
    for limit in ("rwnd_limited_us", "sndbuf_limited_us"):
        free[1:] &= np.diff(of[limit]) == 0
    free[:1] = False
    if free.sum() < _LEAST_SAMPLES:
        return
    missing = free & (of["unacked"] < of["cwnd"] * (1 - _DEFERRED) - 1)
    if missing.sum() > _SHARE * free.sum():
        row = int(np.argmax(missing))
        yield "suspect", (f"in {int(missing.sum())} of {int(free.sum())} samples less is in flight than its window, "
                          f"though nothing held it back, such as {of['unacked'][row]:.0f} of {of['cwnd'][row]:.0f} "
                          f"segments {_at(of, missing)}")
    beyond = free & (of["unacked"] > of["cwnd"] + 1)
    if beyond.sum() > _SHARE * free.sum():
        row = int(np.argmax(beyond))
        yield "suspect", (f"in {int(beyond.sum())} of {int(free.sum())} samples more is in flight than its window, "
                          f"such as {of['unacked'][row]:.0f} of {of['cwnd'][row]:.0f} segments {_at(of, beyond)}")


def _ratios(node: str, evidence: Evidence) -> tuple[float, float]:
    """Windows per round trip in slow start and later."""
    settings = evidence.measured.sysctls.get(node, {})
    slow, later = (float(settings.get(f"net.ipv4.{name}", usual)) / 100 for name, usual in _RATIOS)
    return slow, later


def _at(of: Columns, rows: np.ndarray) -> str:
    return f"at {of['t_us'][int(np.argmax(rows))] / 1e6:g} s"
