# SPDX-License-Identifier: GPL-2.0-only
"""Every segment a TCP socket receives, with its congestion state before it (-> tcp_probe.csv.gz), and every
segment that a socket sends again (-> retransmissions.csv.gz).

The tracepoints tcp:tcp_probe and tcp:tcp_retransmit_skb of all namespaces and both ends of every
connection: exact, and large (some 10,000 events a second at 60 Mbit/s). On request: `--probe tcp_probe`.
"""
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from testbed.probes._ring import Field, TraceInstance, TraceSampler, column, decode, read_format

Json = dict[str, Any]
#: (bytes, offsets of the events, fields) -> columns
_Decoded = Callable[[Any, Any, dict[str, Field]], Json]

_RECEIVED, _SENT_AGAIN = "tcp/tcp_probe", "tcp/tcp_retransmit_skb"
#: column -> field of the event
_FIELDS = {"mark": "mark", "data_len": "data_len", "snd_nxt": "snd_nxt", "snd_una": "snd_una", "snd_cwnd": "snd_cwnd",
           "ssthresh": "ssthresh", "snd_wnd": "snd_wnd", "srtt_us": "srtt", "rcv_wnd": "rcv_wnd",
           "sock_cookie": "sock_cookie"}


@dataclasses.dataclass(frozen=True)
class Options:
    """Nothing: every event is recorded."""


class Sampler(TraceSampler):
    """Records the tracepoints and empties their buffer ten times a second."""
    interval_us = 100_000

    def __init__(self, settings: Json, network: Any, description: Json, work_dir: str) -> None:
        self._trace = TraceInstance("tcp_probe", {_RECEIVED: "", _SENT_AGAIN: ""}, buffer_kb=32768, work_dir=work_dir)


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: Json) -> None:
    from testbed.raw_files import write_table
    write_table(_tables(work_dir, context, _RECEIVED, _received), raw_dir, "tcp_probe")
    write_table(_tables(work_dir, context, _SENT_AGAIN, _sent_again), raw_dir, "retransmissions")


def _tables(work_dir: pathlib.Path, context: Json, event: str, decoded: _Decoded) -> Iterator[Any]:
    """One table for each batch of trace pages, in order of time."""
    import pandas as pd
    event_id, fields = read_format(work_dir / f"{event.replace('/', '-')}.format")
    for time_ns, ids, starts, raw in decode(work_dir, "tcp_probe"):
        time_ns = time_ns - context["t0_ns"]
        mine = (ids == event_id) & (time_ns >= 0) & (time_ns < context["duration_us"] * 1000)
        yield pd.DataFrame({"t_us": time_ns[mine] // 1000, **decoded(raw, starts[mine], fields)})


def _received(raw: Any, starts: Any, fields: dict[str, Field]) -> Json:
    """Columns of tcp_probe events; their addresses are two struct sockaddr_in."""
    def endpoints(name: str) -> Any:
        offset = fields[name][0]
        return _endpoints(_big_endian(raw, starts, offset + 4, 4), _big_endian(raw, starts, offset + 2, 2))
    return {"src": endpoints("saddr"), "dst": endpoints("daddr"),
            **{name: column(raw, starts, fields[field]) for name, field in _FIELDS.items()}}


def _sent_again(raw: Any, starts: Any, fields: dict[str, Field]) -> Json:
    """Columns of tcp_retransmit_skb events; which bytes were sent again is not in them."""
    return {name: _endpoints(_big_endian(raw, starts, fields[address][0], 4), column(raw, starts, fields[port]))
            for name, address, port in (("src", "saddr", "sport"), ("dst", "daddr", "dport"))}


def _big_endian(raw: Any, starts: Any, offset: int, size: int) -> Any:
    """Numbers in network byte order at an offset in every event."""
    import numpy as np
    return np.ascontiguousarray(raw[(starts + offset)[:, None] + np.arange(size)]).view(f">u{size}")[:, 0]


def _endpoints(addresses: Any, ports: Any) -> Any:
    """'10.0.1.2:5000' of every pair of an address and a port."""
    import numpy as np
    distinct, which = np.unique(addresses.astype(np.uint64) << np.uint64(16) | ports, return_inverse=True)
    names = [".".join(str(int(n) >> shift & 255) for shift in (40, 32, 24, 16)) + f":{int(n) & 0xFFFF}"
             for n in distinct]
    return np.array(names, dtype=object)[which]
