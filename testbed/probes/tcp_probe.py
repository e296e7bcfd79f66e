# SPDX-License-Identifier: GPL-2.0-only
"""Every segment a TCP socket receives, with its congestion state before it (-> tcp_probe.csv.gz), and every
segment that a socket sends again (-> retransmissions.csv.gz).

The tracepoints tcp:tcp_probe and tcp:tcp_retransmit_skb of all namespaces and both ends of every
connection: exact, and large (some 10,000 events a second at 60 Mbit/s). On request: `--probe tcp_probe`.
"""
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from testbed.probes._addresses import endpoints
from testbed.probes._ring import Field, TraceInstance, TraceSampler, column, decode, read_format
from topologies.links.records import Network as Description

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from testbed.probes._context import Context
    from topologies.linux.network import Network

#: (bytes, offsets of the events, fields, version of IP) -> columns
_Decoded = Callable[["np.ndarray", "np.ndarray", dict[str, Field], int], dict[str, "np.ndarray"]]

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

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        self._trace = TraceInstance("tcp_probe", {_RECEIVED: "", _SENT_AGAIN: ""}, buffer_kb=32768, work_dir=work_dir)


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    from testbed.core.raw_files import write_table
    write_table(_tables(work_dir, context, _RECEIVED, _received), raw_dir, "tcp_probe")
    write_table(_tables(work_dir, context, _SENT_AGAIN, _sent_again), raw_dir, "retransmissions")


def _tables(work_dir: pathlib.Path, context: "Context[Options]", event: str, decoded: _Decoded) \
        -> "Iterator[pd.DataFrame]":
    """One table for each batch of trace pages, in order of time."""
    import pandas as pd
    version = context.network.ip_version
    event_id, fields = read_format(work_dir / f"{event.replace('/', '-')}.format")
    for time_ns, ids, starts, raw in decode(work_dir, "tcp_probe"):
        time_ns = time_ns - context.t0_ns
        mine = (ids == event_id) & (time_ns >= 0) & (time_ns < context.timing.duration_us * 1000)
        yield pd.DataFrame({"t_us": time_ns[mine] // 1000, **decoded(raw, starts[mine], fields, version)})


def _received(raw: "np.ndarray", starts: "np.ndarray", fields: dict[str, Field], version: int) \
        -> "dict[str, np.ndarray]":
    """Columns of tcp_probe events; their addresses are two struct sockaddr_in or sockaddr_in6."""
    at, size = (8, 16) if version == 6 else (4, 4)

    def ends(name: str) -> "np.ndarray":
        offset = fields[name][0]
        return endpoints(_column(raw, starts, offset + at, f"V{size}"), _column(raw, starts, offset + 2, ">u2"))
    return {"src": ends("saddr"), "dst": ends("daddr"),
            **{name: column(raw, starts, fields[field]) for name, field in _FIELDS.items()}}


def _sent_again(raw: "np.ndarray", starts: "np.ndarray", fields: dict[str, Field], version: int) \
        -> "dict[str, np.ndarray]":
    """Columns of tcp_retransmit_skb events; which bytes were sent again is not in them."""
    kind, size = ("_v6", 16) if version == 6 else ("", 4)
    return {name: endpoints(_column(raw, starts, fields[address + kind][0], f"V{size}"),
                            column(raw, starts, fields[port]))
            for name, address, port in (("src", "saddr", "sport"), ("dst", "daddr", "dport"))}


def _column(raw: "np.ndarray", starts: "np.ndarray", offset: int, kind: str) -> "np.ndarray":
    """What is at an offset in every event."""
    import numpy as np
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(raw[(starts + offset)[:, None] + np.arange(size)]).view(kind)[:, 0]
