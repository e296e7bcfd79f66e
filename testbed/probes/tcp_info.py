# SPDX-License-Identifier: GPL-2.0-only
"""tcp_info of every connected socket of every host, at an interval (-> tcp_info.csv.gz; socket_buffers.csv.gz,
bbr_info.csv.gz).

What `ss -tin` prints, taken from the same place (inet_diag) and kept undecoded until
the run is over. Offsets: struct tcp_info, include/uapi/linux/tcp.h.
"""
import contextlib
import dataclasses
import os
import pathlib
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from testbed.core import fields
from testbed.probes._addresses import addresses
from testbed.probes._netlink import TcpSockets, attributes
from testbed.probes._ring import forget_cached
from topologies.links.records import Network as Description
from topologies.linux.rtnetlink import HEADER

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from testbed.probes._context import Context
    from topologies.linux.network import Network


_RECORD = struct.Struct("=qHHI")            # t_us, node number, 0, length of the dump that follows
#: bytes of dumps that are decoded at once: a table takes several times as much memory
_AT_ONCE_BYTES = 4 << 20

#: column -> (offset in struct tcp_info, struct code)
_FIELDS = {
    "ca_state": (1, "B"), "limited": (7, "B"), "rto_us": (8, "I"), "mss": (16, "I"), "unacked": (24, "I"),
    "lost": (32, "I"), "retrans": (36, "I"), "srtt_us": (68, "I"), "rttvar_us": (72, "I"), "ssthresh": (76, "I"),
    "cwnd": (80, "I"), "total_retrans": (100, "I"), "pacing_rate": (104, "Q"), "bytes_acked": (120, "Q"),
    "bytes_received": (128, "Q"), "min_rtt_us": (148, "I"), "delivery_rate": (160, "Q"),
    "busy_us": (168, "Q"), "rwnd_limited_us": (176, "Q"), "sndbuf_limited_us": (184, "Q"),
    "delivered": (192, "I"), "bytes_sent": (200, "Q"), "bytes_retrans": (208, "Q"), "sacked": (28, "I"),
    "timeouts": (240, "H"),
}
#: bytes in struct inet_diag_msg: received and not read; written, and not acknowledged or not even sent
_QUEUED = {"unread": 56, "unacknowledged": 60}
_STATES = {1: "ESTAB", 2: "SYN-SENT", 3: "SYN-RECV", 4: "FIN-WAIT-1", 5: "FIN-WAIT-2",
           8: "CLOSE-WAIT", 9: "LAST-ACK", 11: "CLOSING"}
_DIAG_INFO, _DIAG_CONG, _DIAG_BBR = 2, 4, 16
#: struct tcp_bbr_info, include/uapi/linux/inet_diag.h; gains are in 1/256
_BBR = {"bw_low": 0, "bw_high": 4, "min_rtt_us": 8, "pacing_gain": 12, "cwnd_gain": 16}
_BBR_GAIN = 256
_MESSAGE_BYTES = 72                         # struct inet_diag_msg
_DTYPES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8"}
#: {attribute type: (offset in the message, length)}
_Layout = dict[int, tuple[int, int]]
_Shape = tuple[tuple[int, int, int], ...]
_MOST_SHAPES = 50       # of one size: a damaged file has as many as messages


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: time between two dumps; buffers: whether to write down what lies in the sockets, too; bbr: and what
    congestion controls such as BBR say of themselves."""
    interval_us: int = fields.time(default=1_000_000, least=100)
    buffers: bool = fields.flag(default=False)
    bbr: bool = fields.flag(default=False)

    @property
    def tables(self) -> list[str]:
        """What is written down."""
        return ["tcp_info", *(["socket_buffers"] if self.buffers else []), *(["bbr_info"] if self.bbr else [])]


def hosts_of(network: Description) -> list[str]:
    """All hosts of a network (network.json), in its order."""
    return [node.name for node in network.nodes if node.role == "host"]


class Dumps:
    """Dumps the sockets of some hosts."""
    FILE = "tcp_info.bin"

    def __init__(self, interval_us: int, hosts: Sequence[str], network: "Network", description: Description,
                 work_dir: str, ccas: bool = False) -> None:
        self.interval_us = interval_us
        self._ccas = ccas
        self._network, self._hosts = network, hosts
        self._file = open(f"{work_dir}/{self.FILE}", "wb", buffering=1 << 20)
        self._sockets: list[TcpSockets] = []
        self._family = socket.AF_INET6 if description.ip_version == 6 else socket.AF_INET

    def open(self) -> None:
        for host in self._hosts:
            with self._network.in_namespace(host):
                self._sockets.append(TcpSockets(self._family, self._ccas))
        # a kernel that has it as a module loads inet_diag for the first dump, which takes longer than a sample may
        self._sockets[0].dump_into(lambda dump: None)

    def sample(self, t_us: int) -> None:
        for number, sockets in enumerate(self._sockets):
            def write(dump: memoryview, number: int = number) -> None:
                self._file.write(_RECORD.pack(t_us, number, 0, len(dump)))
                self._file.write(dump)
            sockets.dump_into(write)
        forget_cached(self._file)

    def close(self) -> dict[str, object]:
        self._file.close()
        for sockets in self._sockets:
            sockets.close()
        return {}


class Sampler(Dumps):
    """Of every host."""

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        super().__init__(options.interval_us, hosts_of(description), network, description, work_dir, options.bbr)


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    write_tables(work_dir / Sampler.FILE, raw_dir, context.options.tables, hosts_of(context.network), context.network)


def write_tables(dump: pathlib.Path, raw_dir: pathlib.Path, names: Sequence[str], hosts: Sequence[str],
                 network: Description) -> None:
    """Decode a sampler's file into the tables `names`, of tcp_info, socket_buffers and bbr_info; hosts: those that were
    sampled, in the sampler's order."""
    import numpy as np

    from testbed.core import raw_tables
    from testbed.core.raw_files import table_file
    with contextlib.ExitStack() as files:
        append = {name: files.enter_context(table_file(raw_dir, name)) for name in names}
        for begin, end in _pieces(dump):
            data = np.fromfile(dump, np.uint8, end - begin, offset=begin)
            table = _table(data, hosts, network.ip_version)
            for name in names:
                rows = table[table["bw_bps"].notna()] if name == "bbr_info" else table
                append[name](rows[raw_tables.TABLES[name].names()])


def _pieces(dump: pathlib.Path) -> Iterator[tuple[int, int]]:
    """(begin, end) of parts of the file, at least one, each with all dumps of its instants: rows are sorted by time."""
    begin = at = 0
    now = None
    with open(dump, "rb") as file:
        while header := file.read(_RECORD.size):
            t_us, _, _, length = _RECORD.unpack(header)
            if t_us != now and at - begin >= _AT_ONCE_BYTES:
                yield begin, at
                begin = at
            now = t_us
            at = file.seek(length, os.SEEK_CUR)
    yield begin, at


def _table(data: "np.ndarray", hosts: Sequence[str], ip_version: int) -> "pd.DataFrame":
    """All columns of all sockets of some dumps."""
    import pandas as pd

    from testbed.core import raw_tables
    parts = [_decode(data, layout, offsets, times_us, nodes, hosts, ip_version)
             for layout, offsets, times_us, nodes in _groups(data)]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(
        columns=list(dict.fromkeys(column for name in ("tcp_info", "socket_buffers", "bbr_info")
                                   for column in raw_tables.TABLES[name].columns)))
    # the order in which the kernel walks its hash table says nothing
    return table.sort_values(["t_us", "node", "src", "sport", "dst", "dport"], kind="stable")


def _groups(data: "np.ndarray") -> "Iterator[tuple[_Layout, np.ndarray, np.ndarray, np.ndarray]]":
    """Yield (layout, offsets, times, node numbers) of the messages that have their attributes in the
    same places. layout: {attribute type: (offset in the message, length)}."""
    import numpy as np
    raw, shapes = data.tobytes(), _Shapes()
    groups: dict[_Shape, tuple[list[int], list[int], list[int]]] = {}
    at = 0
    while at < len(raw):
        t_us, node, _, length = _RECORD.unpack_from(raw, at)
        at += _RECORD.size
        end = at + length
        while at + HEADER.size <= end:
            size = HEADER.unpack_from(raw, at)[0]
            if size < HEADER.size + _MESSAGE_BYTES or at + size > end:
                raise ValueError(f"tcp_info.bin: a netlink message of {size} bytes at {at}")
            shape = shapes.of(raw, at, size)
            offsets, times, nodes = groups.setdefault(shape, ([], [], []))
            offsets.append(at)
            times.append(t_us)
            nodes.append(node)
            at += (size + 3) & ~3
        at = end
    for shape, (offsets, times, nodes) in groups.items():
        layout = {kind: (offset, length) for kind, offset, length in shape}
        if _DIAG_INFO in layout:                # a socket without it went away during the dump
            yield layout, np.array(offsets), np.array(times), np.array(nodes)


class _Shapes:
    """Which attributes messages have, and where. Few shapes are met, so that a message is walked through only if its
    headers are not those of one that came before."""

    def __init__(self) -> None:
        # size of the message -> (what takes all headers out of one, these headers, shape)
        self._known: dict[int, list[tuple[struct.Struct, tuple[int, ...], _Shape]]] = {}

    def of(self, raw: bytes, at: int, size: int) -> _Shape:
        """((attribute type, offset in the message, length), ...) of a message."""
        known = self._known.setdefault(size, [])
        for headers, found, shape in known:
            if headers.unpack_from(raw, at) == found:
                return shape
        first = HEADER.size + _MESSAGE_BYTES
        shape = tuple((kind, offset - at, length) for kind, offset, length in attributes(raw, at + first, at + size))
        ends = [offset + ((length + 3) & ~3) for _, offset, length in shape]
        code, done = "=", 0
        for place in [first, *ends]:                # behind the last one is what ended the walk, or nothing
            if place + 4 <= size:
                code, done = f"{code}{place - done}xI", place + 4
        if len(known) < _MOST_SHAPES:
            headers = struct.Struct(code)
            known.append((headers, headers.unpack_from(raw, at), shape))
        return shape


def _decode(data: "np.ndarray", layout: _Layout, offsets: "np.ndarray", times_us: "np.ndarray", nodes: "np.ndarray",
            hosts: Sequence[str], ip_version: int) -> "pd.DataFrame":
    """Table of the messages at `offsets`, which all have the same layout."""
    import numpy as np
    import pandas as pd

    def field(offset: int, code: str, base: int = 0) -> "np.ndarray":
        kind = np.dtype(code)
        rows = data[(offsets + base + offset)[:, None] + np.arange(kind.itemsize)]
        return np.ascontiguousarray(rows).view(kind)[:, 0]

    body = HEADER.size
    size = 16 if ip_version == 6 else 4
    columns = {"t_us": times_us, "node": np.array(hosts, dtype=object)[nodes],
               "sport": field(4, ">u2", body).astype(np.int64), "dport": field(6, ">u2", body).astype(np.int64),
               "src": addresses(field(8, f"V{size}", body)), "dst": addresses(field(24, f"V{size}", body)),
               "state": pd.Series(field(1, "u1", body)).map(_STATES)}
    if _DIAG_CONG in layout:
        offset, length = layout[_DIAG_CONG]
        columns["cca"] = np.char.decode(field(offset, f"S{length}"), "ascii").astype(object)
    else:
        columns["cca"] = ""
    first, length = layout[_DIAG_INFO]
    for name, (offset, code) in _FIELDS.items():
        known = offset + struct.calcsize("=" + code) <= length        # older kernels tell less
        columns[name] = field(offset, _DTYPES[code], first).astype(np.uint64) if known \
            else np.zeros(len(offsets), np.uint64)
    # the lowest bit: the application had nothing to send while cwnd had room (tcpi_delivery_rate_app_limited)
    columns["app_limited"] = columns.pop("limited") & np.uint64(1)
    columns["delivery_rate_bps"] = columns.pop("delivery_rate") * np.uint64(8)
    columns.update(_buffers(columns, {name: field(at, "<u4", body) for name, at in _QUEUED.items()}))
    if length < _FIELDS["timeouts"][0] + 2:                     # before Linux 6.7
        columns["timeouts"] = np.full(len(offsets), np.nan)
    pacing = columns.pop("pacing_rate")
    unlimited = pacing == np.uint64(2**64 - 1)
    columns["pacing_rate_bps"] = pd.arrays.IntegerArray(
        np.where(unlimited, 0, pacing).astype(np.int64) * 8, unlimited)
    known = _DIAG_BBR in layout and layout[_DIAG_BBR][1] >= 4 * len(_BBR)
    model = {name: field(offset, "<u4", layout[_DIAG_BBR][0]).astype(np.int64) if known else
             np.zeros(len(offsets), np.int64) for name, offset in _BBR.items()}
    unknown = np.full(len(offsets), not known)
    # a rate above 2^56 bytes per second is none that a congestion control could mean
    bytes_per_s = (np.minimum(model["bw_high"], 1 << 24) << 32) + model["bw_low"]
    columns["bw_bps"] = pd.arrays.IntegerArray(bytes_per_s * 8, unknown)
    columns["model_min_rtt_us"] = pd.arrays.IntegerArray(model["min_rtt_us"], unknown)
    for name in ("pacing_gain", "cwnd_gain"):
        columns[name] = model[name] / _BBR_GAIN
    return pd.DataFrame(columns)


def _buffers(columns: "Mapping[str, np.ndarray]", queued: "Mapping[str, np.ndarray]") -> "dict[str, np.ndarray]":
    """What is under way: tcp_packets_in_flight(), and what applications had written and read until now."""
    sent, left, again = (columns[name].astype("int64") for name in ("unacked", "sacked", "retrans"))
    return {"in_flight": sent - left - columns["lost"].astype("int64") + again,
            "bytes_written": columns["bytes_acked"] + queued["unacknowledged"],
            "bytes_read": columns["bytes_received"] - queued["unread"]}
