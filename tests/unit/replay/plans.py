# SPDX-License-Identifier: GPL-2.0-only
"""Tiny plans, and a replay of them between two processes over the loopback interface."""

import json
import random
import subprocess
import sys
import time
from array import array
from pathlib import Path

from traffic.replay.collect import ReplayedSource, account_of, read_records, write_tables
from traffic.replay.plan import COLUMNS, write_plan
from traffic.replay.records import ACCEPTOR, INITIATOR, records_name

ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-I", "-S", str(ROOT / "traffic/replay/program.py")]
HEADSTART_NS = 30_000_000
PORT = 61500        # not one of the initiators'


def make_plan(path, connections):
    """A plan of (start_us, initiator's ops, acceptor's ops[, mss]); an op is
    (need_bytes, wait_us, bytes)."""
    columns = {name: array("q") for name, _, _ in COLUMNS}
    columns["init_first"].append(0)
    columns["acc_first"].append(0)
    for number, (start_us, init, acc, *mss) in enumerate(connections):
        for name, value in (("start_us", start_us), ("conn_id", number), ("prefill", 0),
                            ("mss_init", mss[0] if mss else 0), ("mss_acc", 0)):
            columns[name].append(value)
        for side, ops in (("init", init), ("acc", acc)):
            for op in ops:
                for name, value in zip(("need", "wait_us", "bytes"), op):
                    columns[f"{side}_{name}"].append(value)
            columns[f"{side}_first"].append(len(columns[f"{side}_need"]))
    write_plan(path, columns, source=0)


def collect(source, folder, end_us=1 << 40):
    """The account of the plan of a source, whose records are beside it; the tables are written there, too."""
    parts = [ReplayedSource(source, folder / "plan", folder)]
    write_tables(parts, folder)
    return account_of(parts, end_us)


class Replay:
    """Both ends of plans, each a process; `run` does it all. events: what a job says of how to wait; late_us: by how
    much instants may be noted too early, by a clock that is read too late; command: how a process is started."""

    def __init__(self, folder, events, late_us=0, command=COMMAND):
        self.folder, self.events, self.late_us, self.command = Path(folder), events, late_us, command
        # A loopback address of its own: closed connections block their ports for a minute
        self.address = ".".join(map(str, (127, *random.SystemRandom().choices(range(1, 255), k=3))))
        self.accounts = {}

    def job(self, role, duration_us, **more):
        """Write a job for one end of source 0; its path."""
        path = self.folder / f"{role}.json"
        path.write_text(json.dumps({
            "node": role[0], "duration_us": duration_us, "out_dir": str(self.folder),
            **self.events, "endpoints": [{
                "source": 0, "role": role, "plan": str(self.folder / "plan"),
                "local": self.address, "peer": self.address, "port": PORT, **more}]}))
        return path

    def start(self, roles, duration_us, **more):
        """Processes that are ready, and have been told when to start."""
        processes = {role: subprocess.Popen(
            [*self.command, str(self.job(role, duration_us, **more))], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for role in roles}
        for process in processes.values():
            assert process.stdout.readline() == "ready\n", process.stderr.read()
        t0_ns = time.monotonic_ns() + HEADSTART_NS
        for process in processes.values():
            process.stdin.write(f"start {t0_ns}\n")
            process.stdin.flush()
        return processes

    def end(self, processes):
        """Wait for processes; their accounts are in `accounts`."""
        for role, process in processes.items():
            out, err = process.communicate(timeout=20)
            assert process.returncode == 0 and not err, err
            word, _, account = out.strip().partition(" ")
            assert word == "done"
            self.accounts[role] = json.loads(account)

    def run(self, connections, duration_us, roles=(ACCEPTOR, INITIATOR), **more):
        """Replay connections; returns the initiator's and the acceptor's records (dicts of
        arrays), None for one that did not run."""
        make_plan(self.folder / "plan", connections)
        self.end(self.start(roles, duration_us, **more))
        return [self.records(role) if role in roles else None for role in (INITIATOR, ACCEPTOR)]

    def records(self, role):
        """The columns of one end."""
        return read_records(self.folder / records_name("plan", role))[1]

    def collect(self):
        """The account of `collect`."""
        return collect(0, self.folder)
