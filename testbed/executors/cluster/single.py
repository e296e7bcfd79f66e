# SPDX-License-Identifier: GPL-2.0-only
"""One run of a worker, in a process of its own: it can be killed, and takes nothing with it.

From its socket comes a JSON object as testbed/executors/cluster/worker.py writes it. Into it goes a line of JSON for
each {"phase", "t_us"}, and one {"unfit": text}, {"memory_mb": number} if its guest needs more than was set aside, or
{"outcome": {...}}.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import socket
import sys
import traceback
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from testbed.executors.cluster.messages import Ended, RunOrder, Said
    from testbed.runs.engine import EngineBase
    from testbed.runs.plan import Plan


def import_all() -> None:
    """What `main` imports; once, for a process from which many are forked."""
    from testbed import engines  # noqa: F401
    from testbed.executors import _processes  # noqa: F401
    from testbed.executors.cluster import payload_files  # noqa: F401
    from testbed.runs import plan, store  # noqa: F401


def main(connection: socket.socket) -> None:
    """Carry out the order that comes from there. What else is said goes to standard error."""
    from testbed.executors import _processes
    from testbed.runs.run import Job
    from testbed.runs.store import Store
    _processes.die_with_parent()
    with connection.makefile("r", encoding="utf-8") as orders:
        order: RunOrder = json.loads(orders.readline())
    os.environ["TESTBED_CACHE"] = order["cache"]

    def say(answer: "Said") -> None:
        connection.sendall(json.dumps(answer).encode() + b"\n")
    try:
        unfit, engine, plan = _ready(order)
    except Exception as problem:
        say({"unfit": str(problem) or traceback.format_exc()})
        return
    if unfit or engine is None:
        say({"unfit": unfit})
        return
    os.sched_setaffinity(0, {order["cpu"]})
    shared_dir = pathlib.Path(order["shared_dir"])

    def tell(phase: str, t_us: int) -> None:
        say({"phase": phase, "t_us": t_us})
    store = Store(pathlib.Path(order["results"]))
    outcome = _processes.carry_out(Job(plan, order["again"], order["keep_work"], order["memory_mb"]), engine, store,
                                   shared_dir, order["cpu"], tell)
    say({"memory_mb": outcome.needs_mb} if outcome.needs_mb else {
        "outcome": cast("Ended", dataclasses.asdict(outcome))})


def _ready(order: "RunOrder") -> "tuple[str, EngineBase | None, Plan]":
    """(why this worker cannot, engine, plan)"""
    from testbed import engines
    from testbed.executors.cluster import payload_files
    from testbed.executors.cluster.transfer import sha256_of
    from testbed.runs import plan as plans
    plan = plans.read(pathlib.Path(order["order_dir"]))
    for path, sha256 in plan.inputs.items():
        if not pathlib.Path(path).is_file():
            return f"{path} is not there: traffic files have to be where all workers see them", None, plan
        if sha256_of(pathlib.Path(path)) != sha256:
            return f"{path} is another file there: traffic files have to be the same for all workers", None, plan
    engine = engines.load(order["engine"], order["options"])
    if problems := engine.problems():
        return "; ".join(f"{problem.message} ({problem.fix})" for problem in problems), engine, plan
    engine.prepare(lambda text: print(text, file=sys.stderr))
    return payload_files.differences(order["facts"], payload_files.shared_facts(engine)), engine, plan
