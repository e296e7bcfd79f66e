# SPDX-License-Identifier: GPL-2.0-only
"""Merges the records of both ends with the plan: connections.csv.gz, adus.csv.gz, account.

Runs after the replay, on the host, and has no clock of its own: the same records give the same
bytes. The columns are those of testbed/core/raw_tables.py.
"""

import gzip
import os
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from testbed.core import raw_tables
from traffic.replay.overdue import overdue
from traffic.replay.plan import read_plan
from traffic.replay.records import (ACCEPTOR, COLUMNS, FINISHED, INITIATOR, NEVER, UNFINISHED, read_header,
                                    records_name, status_text)

if TYPE_CHECKING:
    from traffic.replay.records import RecordsHeader

GZIP_LEVEL = 1
ROWS_AT_ONCE = 1 << 16


class CollectError(ValueError):
    """Records that do not belong together."""


class Account(TypedDict):
    """What guest.json says of a component of replayed connections.

    mismatches: messages, of a finished connection of which not every byte asked was delivered; overdue: messages, of
    one whose program should have sent something long before the end.
    """
    connections: int
    status: dict[str, int]
    adus_asked: int
    adus_delivered: int
    bytes_asked: int
    bytes_delivered: int
    mismatches: list[str]
    overdue: list[str]


def read_records(path: str | Path) -> tuple["RecordsHeader", dict[str, np.ndarray]]:
    """(header, dict of int64 arrays) of a records file. Raises RecordsError, OSError."""
    with open(path, "rb") as file:
        header = read_header(file, str(path))
        return header, {name: np.fromfile(file, "<i8", header[count])
                        for name, count, _ in COLUMNS}


def account_of(parts: Iterable["ReplayedSource"], end_us: int) -> Account:
    """Of all of them; [0, end_us) is the run."""
    account: Account = {"connections": 0, "status": {}, "adus_asked": 0, "adus_delivered": 0,
                        "bytes_asked": 0, "bytes_delivered": 0, "mismatches": [], "overdue": []}
    for one in parts:
        one.add_to(account)
        account["overdue"] += one.overdue(end_us)
    return account


def write_tables(parts: Sequence["ReplayedSource"], raw_dir: str | Path) -> None:
    """Write raw_dir/connections.csv.gz and raw_dir/adus.csv.gz.

    Connections are in the order of the parts, then of start times.
    """
    for name, rows in (("connections", (one.connections() for one in parts)), ("adus", (one.adus() for one in parts))):
        write_table(os.path.join(raw_dir, f"{name}.csv.gz"), raw_tables.TABLES[name].names(), rows)


class ReplayedSource:
    """One source, or a share of one: its plan and the records of both ends."""

    def __init__(self, source: int, plan_path: Path, records_dir: Path) -> None:
        """source: its number in the run. Raises CollectError, RecordsError, PlanError, OSError."""
        self.source = source
        self.plan = {name: np.frombuffer(values, np.int64) for name, values
                     in vars(read_plan(plan_path)).items() if name != "header"}
        self.header, self.init = read_records(records_dir / records_name(plan_path.stem, INITIATOR))
        acc_header, self.acc = read_records(records_dir / records_name(plan_path.stem, ACCEPTOR))
        self.nodes = self.header["node"], acc_header["node"]
        ops = len(self.plan["init_bytes"]), len(self.plan["acc_bytes"])
        n = len(self.plan["start_us"])
        for header, own, peer in ((self.header, *ops), (acc_header, *ops[::-1])):
            if (header["connections"], header["own_ops"], header["peer_ops"]) != (n, own, peer):
                raise CollectError(f"source {source}: the records of its {header['role']} were "
                                   f"made with another plan than {plan_path}")
        if (self.header["port"], self.header["ports"]) != (acc_header["port"], acc_header["ports"]):
            raise CollectError(f"source {source}: its ends used different ports")
        self.owner = {side: np.repeat(np.arange(n), np.diff(self.plan[f"{side}_first"]))
                      for side in ("init", "acc")}
        self.delivered_us = {"init": self.acc["delivered_us"], "acc": self.init["delivered_us"]}
        self.delivered = {"init": self.acc["read_bytes"], "acc": self.init["read_bytes"]}
        self.asked = {side: np.bincount(self.owner[side], self.plan[f"{side}_bytes"], n)
                      .astype(np.int64) for side in ("init", "acc")}
        self.status = self._status()

    def _status(self) -> np.ndarray:
        """Status texts: of the initiator's errno, the acceptor's, else whether both finished."""
        init, acc = self.init["status"], self.acc["status"]
        code = np.where(init < 0, init, np.where(acc < 0, acc, np.minimum(init, acc)))
        values, where = np.unique(code, return_inverse=True)
        return np.array([status_text(value) for value in values.tolist()], object)[where]

    def _adus(self, side: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(data rows, count per connection, count of delivered ones per connection)."""
        data = self.plan[f"{side}_bytes"] > 0
        n = len(self.plan["start_us"])
        owner = self.owner[side]
        done = data & (self.delivered_us[side] != NEVER)
        return data, np.bincount(owner[data], minlength=n), np.bincount(owner[done], minlength=n)

    def connections(self) -> list[np.ndarray]:
        """Columns of connections.csv.gz. `end_us` is the end of the later of the two ends."""
        n = len(self.plan["start_us"])
        first, ports = self.header["ports"]
        adus = [self._adus(side) for side in ("init", "acc")]
        end_us = np.maximum(self.init["end_us"], self.acc["end_us"])
        end_us[self.status == status_text(UNFINISHED)] = NEVER
        return [np.full(n, self.source), self.plan["conn_id"],
                np.full(n, self.nodes[0], object), np.full(n, self.nodes[1], object),
                first + np.arange(n) % ports, np.full(n, self.header["port"]),
                self.plan["prefill"], self.plan["start_us"], self.init["start_us"],
                self.init["connected_us"], end_us,
                self.asked["init"], self.delivered["init"],
                self.asked["acc"], self.delivered["acc"],
                adus[0][1] + adus[1][1], adus[0][2] + adus[1][2], self.status]

    def adus(self) -> list[np.ndarray]:
        """Columns of adus.csv.gz: by connection, the initiator's ADUs first."""
        parts = []
        for side, letter, records in (("init", "i", self.init), ("acc", "a", self.acc)):
            data, _, _ = self._adus(side)
            owner = self.owner[side][data]
            index = np.arange(len(data))[data] - self.plan[f"{side}_first"][owner]
            parts.append((owner, np.full(len(owner), letter, object), index,
                          self.plan[f"{side}_bytes"][data], records["sent_us"][data],
                          self.delivered_us[side][data]))
        owner, *columns = [np.concatenate(column) for column in zip(*parts)]
        order = np.argsort(owner, kind="stable")
        return [np.full(len(order), self.source), self.plan["conn_id"][owner[order]],
                *[column[order] for column in columns]]

    def add_to(self, account: Account) -> None:
        """Add this source to the account."""
        account["connections"] += len(self.status)
        for status, count in zip(*np.unique(self.status.astype(str), return_counts=True)):
            account["status"][str(status)] = account["status"].get(str(status), 0) + int(count)
        for side in ("init", "acc"):
            _, asked, delivered = self._adus(side)
            account["adus_asked"] += int(asked.sum())
            account["adus_delivered"] += int(delivered.sum())
            account["bytes_asked"] += int(self.asked[side].sum())
            account["bytes_delivered"] += int(self.delivered[side].sum())
            wrong = (self.status == status_text(FINISHED)) & (self.asked[side] != self.delivered[side])
            for i in np.flatnonzero(wrong).tolist():
                account["mismatches"].append(
                    f"source {self.source}, connection {self.plan['conn_id'][i]}: "
                    f"{self.delivered[side][i]} of {self.asked[side][i]} bytes of the "
                    f"{'initiator' if side == 'init' else 'acceptor'} delivered")

    def overdue(self, end_us: int) -> list[str]:
        """A message for each end of a connection whose program should have sent something long before the end."""
        messages = []
        began_us = np.where(self.init["connected_us"] == NEVER, NEVER, np.maximum(
            self.init["connected_us"], self.init["start_us"]))
        for (side, own), (other, peer), word in (
                (("init", self.init), ("acc", self.acc), "initiator"),
                (("acc", self.acc), ("init", self.init), "acceptor")):
            late = overdue(self.plan[f"{side}_first"], {name: self.plan[f"{side}_{name}"] for name in (
                "need", "wait_us", "bytes")}, own["sent_us"], peer["delivered_us"], self.plan[f"{other}_first"],
                self.plan[f"{other}_bytes"], own["delivered_us"], began_us, self.status == status_text(UNFINISHED),
                end_us)
            messages += [f"the {word} of connection {self.plan['conn_id'][one]} of source {self.source}"
                         for one in late]
        return messages


def write_table(path: str, columns: Sequence[str], parts: Iterable[list[np.ndarray]]) -> None:
    """Write a gzip-compressed CSV with the same bytes for the same values.

    parts: lists of columns, one after the other; NEVER in an integer column is left empty.
    Blocks of rows are compressed in parallel, each a member of the gzip file; one part after the other is in memory.
    """
    temporary = f"{path}.part"
    try:
        with open(temporary, "wb") as file, ThreadPoolExecutor() as pool:
            file.write(gzip.compress((",".join(columns) + "\n").encode(), GZIP_LEVEL, mtime=0))
            for part in parts:
                blocks = [[column[i:i + ROWS_AT_ONCE] for column in part]
                          for i in range(0, len(part[0]), ROWS_AT_ONCE)]
                for packed in pool.map(_packed, blocks):
                    file.write(packed)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _packed(block: list[np.ndarray]) -> bytes:
    texts = [column.tolist() if column.dtype == object else _integers(column) for column in block]
    text = "\n".join(map(",".join, zip(*texts))) + "\n"
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)   # 31: gzip header without a time
    return packer.compress(text.encode()) + packer.flush()


def _integers(column: np.ndarray) -> list[str]:
    """The texts of integers, empty for NEVER."""
    texts = list(map(str, column.tolist()))
    for i in np.flatnonzero(column == NEVER).tolist():
        texts[i] = ""
    return texts
