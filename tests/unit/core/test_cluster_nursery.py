# SPDX-License-Identifier: GPL-2.0-only
"""The process that runs of a worker are forked from."""
import os
import pathlib
import time

import pytest

from testbed.executors.cluster import worker
from testbed.executors.cluster.nursery import Nursery


@pytest.fixture
def nursery():
    made = Nursery("nosuch")
    yield made
    made._close()
    assert made._process.wait(timeout=60) == 0


def wait_for(what):
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def carry_out(nursery, folder):
    """(answer, exit status) of an order that has no plan; what was said besides."""
    order = {"cache": str(folder / "cache"), "order_dir": str(folder / "none"), "engine": "nosuch", "options": {}}
    with open(folder / "log", "w+", encoding="utf-8") as log:
        with nursery.start(order, log) as run:
            answer, status = worker._listen(run, lambda *_: None)
        log.seek(0)
        return answer, status, log.read()


def test_runs_are_forked_and_a_nursery_that_was_killed_is_replaced(nursery, tmp_path: pathlib.Path):
    for _ in range(2):
        answer, status, said = carry_out(nursery, tmp_path)
        assert answer == {"unfit": f"{tmp_path}/none/plan.json: No such file or directory"}
        assert (status, said) == (0, "")
    first = nursery._process
    os.kill(first.pid, 9)
    first.wait()
    assert nursery.has_ended()
    assert carry_out(nursery, tmp_path)[1] == 0 and nursery._process.pid != first.pid


def test_a_run_that_nobody_listens_to_is_ended(nursery, tmp_path):
    """Its order never comes: it would wait for ever."""
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        ours, theirs = worker.socket.socketpair()
        with theirs:
            nursery._hand_over(theirs, log)
        children = pathlib.Path(f"/proc/{nursery._process.pid}/task/{nursery._process.pid}/children")
        wait_for(lambda: children.read_text().split())
        ours.close()
        wait_for(lambda: not children.read_text().split())
