# SPDX-License-Identifier: GPL-2.0-only
"""What the qlog of a QUIC sender says of its congestion control, as rows of the raw table `quic_info`.

qlog is what a program left, and is read as such: values that make no sense are left out. Forms: JSON with
`traces`, or an event a line, with or without the record separator of JSON-SEQ. Events have a name of draft 0.3
(`recovery:metrics_updated`), of earlier ones (category and name apart) or of later ones
(`quic:recovery_metrics_updated`). Sources: draft-ietf-quic-qlog-main-schema, draft-ietf-quic-qlog-quic-events.
"""
from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterator, Mapping

from testbed.core import fields

#: that of a program's folder (traffic/program/runner.py)
MOST_BYTES = 256 << 20
_SEPARATOR = "\x1e"
_UNITS_US = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_METRICS = ("metrics_updated", "recovery_metrics_updated")
_STATE = ("congestion_state_updated",)
_COUNTED = {"packet_sent": "sent_packets", "packet_received": "received_packets", "packet_lost": "lost_packets"}
#: {column of the table: names in qlog}, of times and of amounts
_TIMES = {"srtt_us": "smoothed_rtt", "latest_rtt_us": "latest_rtt", "min_rtt_us": "min_rtt"}
_AMOUNTS = {"cwnd_bytes": "congestion_window", "in_flight_bytes": "bytes_in_flight", "ssthresh_bytes": "ssthresh",
            "pacing_rate_bps": "pacing_rate"}
#: what stacks write for "not set"
_LARGEST = 1 << 50


class QlogError(ValueError):
    """A file that is no qlog of a sender; the message is one line."""


@dataclasses.dataclass
class State:
    """The sender at an instant: what its last events said, and counters since it began."""
    t_us: int = 0
    values: dict[str, float] = dataclasses.field(default_factory=dict)
    state: str = ""
    counts: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(_COUNTED.values(), 0))

    def row(self, t_us: int, flow: int) -> dict[str, object]:
        """As the table has it; what was never said is empty."""
        return {"t_us": t_us, "flow": flow, **{name: self.values.get(name) for name in (*_AMOUNTS, *_TIMES)},
                **self.counts, "state": self.state}


def read(path: pathlib.Path, flow: int, start_us: int, rtt_unit: str, interval_us: int) -> list[dict[str, object]]:
    """The state at every multiple of the interval at which something has changed since the one before.

    The first event is at start_us of the experiment. Raises QlogError, OSError.
    """
    if path.stat().st_size > MOST_BYTES:
        raise QlogError(f"larger than {MOST_BYTES >> 20} MB")
    rows: list[dict[str, object]] = []
    now, first_us, due_us, told = State(), None, None, False
    with open(path, encoding="utf-8", errors="replace") as file:
        for at_us, name, data in _events(file):
            first_us = at_us if first_us is None else first_us
            if at_us > _LARGEST:
                raise QlogError("an event at a time that no run has")
            t_us = start_us + round(at_us - first_us)
            if t_us < now.t_us - interval_us:
                raise QlogError(f"an event at {at_us / 1e6:g} s comes after one {(now.t_us - t_us) / 1e6:g} s later")
            now.t_us = max(now.t_us, t_us)
            if due_us is not None and now.t_us >= due_us:
                rows.append(now.row(due_us, flow))
                due_us = None
            told |= _take(now, name, data, _UNITS_US[rtt_unit])
            if due_us is None:
                due_us = (now.t_us // interval_us + 1) * interval_us
    if not told:
        raise QlogError("no event metrics_updated with a congestion window")
    if due_us is not None:
        rows.append(now.row(due_us, flow))
    return rows


def _take(now: State, name: str, data: Mapping[str, object], unit_us: float) -> bool:
    """Note what an event says; whether it says a congestion window."""
    if name in _COUNTED:
        now.counts[_COUNTED[name]] += 1
    elif name in _METRICS:
        for column, of in _AMOUNTS.items():
            if (amount := _number(data.get(of))) is not None:
                now.values[column] = amount
        for column, of in _TIMES.items():
            if (time := _number(data.get(of))) is not None and time * unit_us < _LARGEST:
                now.values[column] = time * unit_us
        # quiche has no event of a lost packet
        if isinstance(lost := data.get("cf_lost_packets"), dict) and (total := _number(lost.get("total"))) is not None:
            now.counts["lost_packets"] = int(total)
        return "cwnd_bytes" in now.values
    elif name in _STATE:
        now.state = str(data.get("new", "")).encode("ascii", "replace").decode()[:40]
    return False


def _number(value: object) -> float | None:
    """A number of zero or more that a table can hold, also as text; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number < _LARGEST else None


def _events(file: Iterator[str]) -> Iterator[tuple[float, str, Mapping[str, object]]]:
    """(time in microseconds since the reference, name without category, data) of each event."""
    unit_us, delta, clock_us = 1e3, False, 0.0
    for found in _objects(file):
        if isinstance(found, dict) and ("trace" in found or "traces" in found):
            trace = found.get("trace") or next(iter(_list(found.get("traces"))), None)
            trace = trace if isinstance(trace, dict) else {}
            unit_us, delta = _clock(trace)
            events, names = _list(trace.get("events")), trace.get("event_fields")
        else:
            events, names = [found], None
        for event in events:
            time, name, data = _event(event, names)
            if name:
                clock_us = clock_us * delta + time * unit_us
                yield clock_us, name, data


def _clock(trace: Mapping[str, object]) -> tuple[float, bool]:
    """(microseconds in a unit of its times, whether each is that since the event before)"""
    common, configuration = (part if isinstance(part := trace.get(name), dict) else {}
                             for name in ("common_fields", "configuration"))
    unit = str(configuration.get("time_units") or common.get("time_units") or "ms")
    if unit not in _UNITS_US:
        raise QlogError(f"times in {fields.show(unit)}: one of {', '.join(_UNITS_US)} expected")
    form = str(common.get("time_format") or "")
    return _UNITS_US[unit], form.startswith(("delta", "relative_to_previous"))


def _event(event: object, names: object) -> tuple[float, str, Mapping[str, object]]:
    """(time, name, data); the name is '' if it is no event."""
    if isinstance(event, list):
        heads = [str(one).lower() for one in _list(names)] or ["relative_time", "category", "event", "data"]
        event = dict(zip(heads, event))
    if not isinstance(event, dict):
        return 0.0, "", {}
    time = next((number for name in ("time", "relative_time", "delta_time")
                 if (number := _number(event.get(name))) is not None), None)
    name, data = event.get("name") or event.get("event") or event.get("event_type"), event.get("data")
    if time is None or not isinstance(name, str) or not isinstance(data, dict):
        return 0.0, "", {}
    return time, name.rpartition(":")[2], data


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _objects(file: Iterator[str]) -> Iterator[object]:
    """The JSON values of a file: one a line, or the file is one. A line that is cut off ends it."""
    first = next(file, "").lstrip(_SEPARATOR + "\ufeff")
    try:
        yield json.loads(first)
    except (ValueError, RecursionError):
        try:
            yield json.loads(first + "".join(file))
        except (ValueError, RecursionError):
            raise QlogError("neither JSON nor a JSON value a line") from None
        return
    for line in file:
        text = line.strip(_SEPARATOR + " \t\r\n")
        if text:
            try:
                yield json.loads(text)
            except (ValueError, RecursionError):
                if next(file, "").strip():
                    raise QlogError("a line in the midst of it is no JSON") from None
                return
