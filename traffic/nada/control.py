# SPDX-License-Identifier: GPL-2.0-only
"""NADA, a congestion control for media (RFC 8698): what the receiver observes, and the sender's rate.

Names and values of the constants are those of the RFC (Figure 3). Left out: marks (ECN), clocks that differ, and an
encoder that follows late. The RFC leaves loss events to RFC 5348; here one is all that is missing in a report.
"""
from __future__ import annotations

import math
from collections import deque

PRIO, XREF_MS, KAPPA, ETA, TAU_MS, DELTA_MS = 1.0, 10.0, 0.5, 2.0, 500.0, 100.0
LOGWIN_MS, QEPS_MS, DFILT_MS, GAMMA_MAX, QBOUND_MS = 500.0, 10.0, 120.0, 0.5, 50.0
MULTILOSS, QTH_MS, LAMBDA, PLRREF, DLOSS_MS, ALPHA = 7.0, 50.0, 0.5, 0.01, 10.0, 0.1
#: packets of the filter against jitter (section 5.1.1)
_TAPS = 15
#: of the latest loss intervals (RFC 5348, section 5.4)
_WEIGHTS = (1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2)


class Observer:
    """The receiver: from packets to reports (sections 4.2 and 5.1). Times and delays in ms."""

    def __init__(self) -> None:
        self._log = deque[tuple[float, int, float, int]]()      # arrival, number, one-way delay, bytes of a frame
        self._base_ms = math.inf
        self._first_ms: float | None = None
        self._highest = -1
        self._reported = -1                                     # the highest number of the last report
        self._loss = 0.0
        self._intervals = deque[int](maxlen=len(_WEIGHTS))      # closed ones, the latest first
        self._last_event: int | None = None                     # its highest number

    def note(self, now_ms: float, number: int, delay_ms: float, frame_bytes: int) -> None:
        """A packet arrives."""
        if self._first_ms is None:
            self._first_ms = now_ms
        self._base_ms = min(self._base_ms, delay_ms)
        self._highest = max(self._highest, number)
        self._log.append((now_ms, number, delay_ms, frame_bytes))

    def report(self, now_ms: float) -> tuple[float, float, bool]:
        """x_curr in ms, r_recv in bit/s, and whether the sender may ramp up; every DELTA_MS, after the first packet."""
        assert self._first_ms is not None
        while self._log and self._log[0][0] <= now_ms - LOGWIN_MS:
            self._log.popleft()
        numbers = {number for _, number, _, _ in self._log}
        missing = max(numbers) - min(numbers) + 1 - len(numbers) if numbers else 0
        self._loss += ALPHA * (missing / (missing + len(numbers)) - self._loss) if numbers else 0
        self._note_event(numbers)
        queue_ms = self._queue_ms(now_ms)
        warped = self._share_warped()
        x_ms = warped * warped_ms(queue_ms) + (1 - warped) * queue_ms
        x_ms += DLOSS_MS * (self._loss / PLRREF) ** 2
        span_ms = max(1.0, min(LOGWIN_MS, now_ms - self._first_ms))
        received_bps = sum(size for _, _, _, size in self._log) * 8e3 / span_ms
        ramp_up = not missing and all(delay_ms - self._base_ms < QEPS_MS for _, _, delay_ms, _ in self._log)
        return x_ms, received_bps, ramp_up

    def _queue_ms(self, now_ms: float) -> float:
        """The least of the latest packets, at least of one; 0 if none came within the window."""
        latest = list(self._log)[-_TAPS:]
        recent = [delay_ms for at_ms, _, delay_ms, _ in latest if at_ms > now_ms - DFILT_MS]
        return min(recent or [delay_ms for _, _, delay_ms, _ in latest[-1:]] or [self._base_ms]) - self._base_ms

    def _note_event(self, numbers: set[int]) -> None:
        """Close a loss interval if packets since the last report are missing."""
        lost = [number for number in range(self._reported + 1, self._highest) if number not in numbers]
        if lost:
            if self._last_event is not None:
                self._intervals.appendleft(lost[-1] - self._last_event)
            self._last_event = lost[-1]
        self._reported = self._highest

    def _share_warped(self) -> float:
        """How much of the queueing delay is warped: 1 until the last loss is MULTILOSS mean loss intervals ago, 0 from
        one interval later on."""
        if not self._last_event:                # before the first packet there is no interval
            return 0.0
        mean = float(self._last_event)          # one event: the packets before it are its interval
        if self._intervals:
            weights = _WEIGHTS[:len(self._intervals)]
            mean = sum(weight * interval for weight, interval in zip(weights, self._intervals)) / sum(weights)
        return min(1.0, max(0.0, 1 + MULTILOSS - (self._highest - self._last_event) / mean))


def warped_ms(queue_ms: float) -> float:
    """Queueing delay beside flows that answer losses only: the more there is, the less it counts (equation 1)."""
    return queue_ms if queue_ms < QTH_MS else QTH_MS * math.exp(-LAMBDA * (queue_ms - QTH_MS) / QTH_MS)


class Rate:
    """The sender: from reports to the rate in bit/s (section 4.3)."""

    def __init__(self, least_bps: float, most_bps: float) -> None:
        self._least_bps, self._most_bps = least_bps, most_bps
        self.bps = least_bps
        self._x_ms = 0.0
        self._at_ms: float | None = None

    def update(self, now_ms: float, rtt_ms: float, x_ms: float, received_bps: float, ramp_up: bool) -> None:
        """A report arrives."""
        passed_ms = DELTA_MS if self._at_ms is None else now_ms - self._at_ms
        if ramp_up:
            gamma = min(GAMMA_MAX, QBOUND_MS / (rtt_ms + DELTA_MS + DFILT_MS))
            wanted = max(self.bps, (1 + gamma) * received_bps)
        else:
            offset_ms = x_ms - PRIO * XREF_MS * self._most_bps / self.bps
            wanted = self.bps * (1 - KAPPA * passed_ms / TAU_MS * offset_ms / TAU_MS
                                 - KAPPA * ETA * (x_ms - self._x_ms) / TAU_MS)
        self.bps = min(self._most_bps, max(self._least_bps, wanted))
        self._x_ms, self._at_ms = x_ms, now_ms
