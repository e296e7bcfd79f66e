# SPDX-License-Identifier: GPL-2.0-only
"""Events of the kernel's own trace points, with virtual time stamps (-> trace.csv.gz).

    trace: {events: ["tcp:tcp_retransmit_skb", "tcp_probe: snd_cwnd < 10"]}

An event is SYSTEM:EVENT or EVENT, after a colon the kernel's filter (docs/howto/debugging.md). On request:
`--trace EVENT`.
"""
import dataclasses
import difflib
import glob
import os
import pathlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from testbed.core import fields
from testbed.probes._ring import forget_cached
from topologies.links.records import Network as Description

if TYPE_CHECKING:
    import pandas as pd

    from testbed.probes._context import Context
    from topologies.linux.network import Network

_TRACING = "/sys/kernel/tracing"
_INSTANCE = f"{_TRACING}/instances/trace"
_READ_BYTES = 1 << 16
_EVENT = re.compile(r"\s*(?:(?P<system>\w+)[:/])?(?P<event>\w+)\s*(?::(?P<filter>.+))?")
#: a line of `trace_pipe`: process, CPU, flags, time, event, text
_LINE = re.compile(rb" *.{1,16}-\d+ +(?:\( *\S+\) )?\[\d+\] +(?:\S+ +)?(\d+)\.(\d{6}): (\w+): ?(.*)")
_ROWS_AT_ONCE = 1 << 16


class Event(NamedTuple):
    """A trace point and which of its events; system is '' if any will do."""
    system: str
    event: str
    filter: str


def parsed(text: str) -> Event:
    """'tcp:tcp_probe: snd_cwnd < 10' -> Event('tcp', 'tcp_probe', 'snd_cwnd < 10'). FieldError."""
    match = _EVENT.fullmatch(text)
    if not match or not text.isprintable():
        raise fields.FieldError("events", f"{fields.show(text)}: SYSTEM:EVENT or EVENT expected, perhaps with a filter "
                                          "behind a colon, such as 'tcp:tcp_probe: snd_cwnd < 10'")
    return Event(match["system"] or "", match["event"], (match["filter"] or "").strip())


@dataclasses.dataclass(frozen=True)
class Options:
    """events: which, each perhaps with a filter; buffer: memory for those of 100 ms."""
    events: tuple[str, ...] = fields.listing(fields.text(), least=1, most=100, single=True, distinct=True)
    buffer_bytes: int = fields.size(default=32_000_000, least=100_000, most=1_000_000_000)


def validate(options: Options, network: Description) -> None:
    """FieldError for what is no event."""
    for text in options.events:
        parsed(text)


class Sampler:
    """A trace buffer of its own, emptied ten times a second."""
    interval_us = 100_000

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        os.mkdir(_INSTANCE)
        _write("trace_clock", "mono")            # the default clock has steps of a jiffy
        with open(f"{_TRACING}/options/record-cmd", "w", encoding="ascii") as file:
            file.write("0")
        _write("buffer_size_kb", str(options.buffer_bytes // 1024))
        self._events = []
        for event in map(parsed, options.events):
            place = f"events/{_system_of(event)}/{event.event}"
            if event.filter:
                _set_filter(place, event)
            self._events.append(place)
        self._pipe = os.open(f"{_INSTANCE}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self._file = open(f"{work_dir}/trace.txt", "wb", buffering=1 << 20)

    def open(self) -> None:
        for place in self._events:
            _write(f"{place}/enable", "1")

    def sample(self, t_us: int) -> None:
        try:
            while text := os.read(self._pipe, _READ_BYTES):
                self._file.write(text)
        except BlockingIOError:
            pass                                 # that was all
        forget_cached(self._file)

    def close(self) -> dict[str, object]:
        for place in self._events:
            _write(f"{place}/enable", "0")
        self.sample(0)
        os.close(self._pipe)
        self._file.close()
        lost = 0
        for path in glob.glob(f"{_INSTANCE}/per_cpu/cpu[0-9]*/stats"):
            with open(path, encoding="ascii") as file:
                counts = dict(line.split(":", 1) for line in file if ":" in line)
            lost += int(counts["overrun"]) + int(counts["commit overrun"]) + int(counts["dropped events"])
        os.rmdir(_INSTANCE)
        return {"lost_events": lost}


def _write(name: str, value: str) -> None:
    with open(f"{_INSTANCE}/{name}", "w", encoding="utf-8") as file:
        file.write(value)


def _system_of(event: Event) -> str:
    """Where the kernel has an event. ValueError if it does not."""
    have = {(path.split("/")[-2], path.split("/")[-1]) for path in glob.glob(f"{_INSTANCE}/events/*/*")
            if os.path.isdir(path)}
    found = sorted(system for system, name in have if name == event.event and event.system in ("", system))
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"probe trace: {event.event} is an event of {' and '.join(found)}: write "
                         f"{found[0]}:{event.event}")
    like = difflib.get_close_matches(event.event, [name for _, name in have], n=5, cutoff=0.5)
    raise ValueError(f"probe trace: this kernel has no event {event.system + ':' * bool(event.system)}{event.event}"
                     + (f"; it has {', '.join(f'{s}:{n}' for s, n in sorted(have) if n in like)}" if like else ""))


def _set_filter(place: str, event: Event) -> None:
    try:
        _write(f"{place}/filter", event.filter)
    except OSError:
        with open(f"{_INSTANCE}/{place}/filter", encoding="utf-8") as file:
            why = " ".join(file.read().split())
        with open(f"{_INSTANCE}/{place}/format", encoding="utf-8") as file:
            known = re.findall(r"field:[^;]*?(\w+)(?:\[[^;]*\])?;", file.read())
        raise ValueError(f"probe trace: {event.event}: the kernel does not take the filter {event.filter!r} ({why}); "
                         f"fields are: {', '.join(name for name in known if not name.startswith('common_'))}") from None


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    from testbed.core.raw_files import write_table
    write_table(_tables(work_dir / "trace.txt", context), raw_dir, "trace")


def _tables(path: pathlib.Path, context: "Context[Options]") -> "Iterator[pd.DataFrame]":
    """The events of the experiment, in order of time."""
    import pandas as pd
    rows: list[tuple[int, str, str]] = []
    columns = ["t_us", "event", "text"]
    yield pd.DataFrame({"t_us": pd.Series(dtype="int64"), "event": pd.Series(dtype=object),
                        "text": pd.Series(dtype=object)})
    with open(path, "rb") as file:
        for line in file:
            if match := _LINE.match(line):
                t_us = int(match[1]) * 1_000_000 + int(match[2]) - context.t0_ns // 1000
                if 0 <= t_us < context.timing.duration_us:
                    rows.append((t_us, match[3].decode(), match[4].decode("utf-8", "replace").strip()))
            elif rows:                           # an event may have text of several lines
                rows[-1] = (*rows[-1][:2], f"{rows[-1][2]} {line.decode('utf-8', 'replace').strip()}")
            if len(rows) > _ROWS_AT_ONCE:
                yield pd.DataFrame(rows[:-1], columns=columns)
                del rows[:-1]
    yield pd.DataFrame(rows, columns=columns)
