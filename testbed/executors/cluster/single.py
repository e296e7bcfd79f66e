# SPDX-License-Identifier: GPL-2.0-only
"""One run of a worker, in a process of its own: it can be killed, and takes nothing with it.

Standard input: a JSON object as testbed/executors/cluster/worker.py writes it. Standard output: a line of JSON for
each {"phase", "t_us"}, and as the last {"unfit": text} or {"outcome": {...}}.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
import traceback
from typing import Any

Json = dict[str, Any]


def main() -> None:
    from testbed.executors import _processes
    from testbed.run import Job
    from testbed.store import Store
    _processes.die_with_parent()
    order = json.load(sys.stdin)
    # what programs and libraries say goes to the worker's log
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: Json) -> None:
        print(json.dumps(answer), file=answers, flush=True)
    try:
        unfit, engine, plan = _ready(order)
    except Exception as problem:
        say({"unfit": str(problem) or traceback.format_exc()})
        return
    if unfit:
        say({"unfit": unfit})
        return
    os.sched_setaffinity(0, {order["cpu"]})
    store = Store(pathlib.Path(order["results"]))
    outcome = _processes.carry_out(
        Job(plan, order["again"], order["keep_work"]), engine, store, pathlib.Path(order["shared_dir"]), order["cpu"],
        lambda phase, t_us: say({"phase": phase, "t_us": t_us}))
    say({"outcome": dataclasses.asdict(outcome)})


def _ready(order: Json) -> tuple[str, Any, Any]:
    """(why this worker cannot, engine, plan)"""
    from testbed import engines, plan as plans
    from testbed.executors.cluster import baggage
    plan = plans.read(pathlib.Path(order["order_dir"]))
    for path, sha256 in plan.inputs.items():
        if not pathlib.Path(path).is_file():
            return f"{path} is not there: traffic files have to be where all workers see them", None, plan
    engine = engines.load(order["engine"], order["options"])
    if problems := engine.problems():
        return "; ".join(f"{problem.message} ({problem.fix})" for problem in problems), engine, plan
    engine.prepare(lambda text: print(text, file=sys.stderr))
    return baggage.differences(order["facts"], baggage.shared_facts(engine)), engine, plan


if __name__ == "__main__":
    main()
