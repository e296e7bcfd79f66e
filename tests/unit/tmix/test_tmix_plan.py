# SPDX-License-Identifier: GPL-2.0-only
"""Plan files: contents, and refusal of what is not one."""

import json
import subprocess
import sys

import numpy as np
import pytest

from traffic.replay.plan import MAGIC, PlanError, read_plan, write_plan
from traffic.tmix.batch import from_vectors
from traffic.tmix.compile import compile_plan, write_plan_of
from traffic.tmix.reader import read_vectors
from traffic.tmix.vectors import SEQ, Adu, Vector


@pytest.fixture
def batch(data):
    return from_vectors(read_vectors(data / "original.txt"))


def test_contents_by_hand(batch, tmp_path):
    # the last connection is moved to the front; the second is the one prefilled
    moved = batch.with_starts([1000, 500, 750, 0])
    write_plan_of(tmp_path / "p", moved, [10, 11, 12, 13], [0, 1, 0, 0], source=3,
                  duration_us=5)
    plan = read_plan(tmp_path / "p")
    assert len(plan) == 4
    assert plan.header == {"source": 3, "duration_us": 5, "connections": 4, "init_ops": 7,
                           "acc_ops": 13}
    assert plan.start_us.tolist() == [0, 500, 750, 1000]
    assert plan.conn_id.tolist() == [13, 11, 12, 10]
    assert plan.mss_init.tolist() == plan.mss_acc.tolist() == [0, 0, 0, 496]
    assert plan.prefill.tolist() == [0, 1, 0, 0]
    assert plan.init_first.tolist() == [0, 1, 2, 5, 7]
    assert plan.acc_first.tolist() == [0, 2, 7, 10, 13]
    assert plan.init_need.tolist() == [0, 49, 0, 0, 0, 0, 1213]
    assert plan.init_wait_us.tolist() == [0, 5000, 0, 6250, 777, 0, 90000]
    assert plan.init_bytes.tolist() == [5, 20, 396, 10, 0, 826, 100]
    assert plan.acc_need.tolist() == [5, 5, 0, 20, 20, 20, 20, 0, 0, 0, 826, 926, 926]
    assert plan.acc_wait_us.tolist() == [0, 1000000, 0, 300, 1000000, 2000000, 1000000, 0, 505,
                                         888, 534, 250, 872]
    assert plan.acc_bytes.tolist() == [6, 0, 49, 1024, 1536, 2048, 0, 190, 46, 0, 1213, 3000, 0]


def test_layout_is_the_documented_one(batch, tmp_path):
    write_plan_of(tmp_path / "p", batch)
    magic, header, rest = (tmp_path / "p").read_bytes().split(b"\n", 2)
    assert magic == b"tmixplan 1"
    assert json.loads(header) == {"connections": 4, "init_ops": 7, "acc_ops": 13}
    numbers = np.frombuffer(rest, "<i8")
    assert len(numbers) == 5 * 4 + 2 * 5 + 3 * 7 + 3 * 13
    assert numbers[:4].tolist() == [1000, 500000, 750000, 900000]


def test_windows_are_there_if_wanted(tmp_path):
    batch = from_vectors([Vector(0, SEQ, (0, 0), (Adu(0, 0, 1),), windows=(65535, 8000)),
                          Vector(9, SEQ, (0, 1), (Adu(0, 0, 1),))])
    write_plan_of(tmp_path / "with", batch, windows=True, source=1)
    write_plan_of(tmp_path / "without", batch, source=1)
    plan = read_plan(tmp_path / "with")
    assert plan.window_init.tolist() == [65535, 0] and plan.window_acc.tolist() == [8000, 0]
    assert plan.acc_bytes.tolist() == read_plan(tmp_path / "without").acc_bytes.tolist()
    assert not read_plan(tmp_path / "without").window_init and plan.header["windows"]
    (tmp_path / "with").write_bytes((tmp_path / "with").read_bytes()[:-16])
    with pytest.raises(PlanError, match="its header says"):
        read_plan(tmp_path / "with")


def test_same_input_same_bytes(batch, tmp_path):
    for name in "ab":
        write_plan_of(tmp_path / name, batch, source=1, seed=2)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_empty(tmp_path):
    write_plan_of(tmp_path / "p", from_vectors([]))
    assert len(read_plan(tmp_path / "p")) == 0


def test_damage_is_noticed(batch, tmp_path):
    write_plan_of(tmp_path / "p", batch)
    whole = (tmp_path / "p").read_bytes()
    body = whole.index(b"\n", len(MAGIC)) + 1
    unsorted_ = whole[:body] + b"\xff" * 7 + b"\x7f" + whole[body + 8:]
    offset = body + 8 * 5 * 4 + 8
    bad_offsets = whole[:offset] + (99).to_bytes(8, "little") + whole[offset + 8:]
    size = body + 8 * 2 * 4
    bad_mss = whole[:size] + b"\xff" * 8 + whole[size + 8:]
    for damaged in (b"", b"tmixplan 2\n" + whole[11:], whole[:-1], whole + b"x",
                    MAGIC + b"{}\n", MAGIC + b"not json\n", MAGIC + b"[1]\n",
                    MAGIC + b'{"connections": -1, "init_ops": 0, "acc_ops": 0}\n',
                    unsorted_, bad_offsets, bad_mss):
        (tmp_path / "q").write_bytes(damaged)
        with pytest.raises(PlanError, match="q: "):
            read_plan(tmp_path / "q")


def test_wrong_columns_are_refused_and_leave_nothing(batch, tmp_path):
    columns = compile_plan(batch)
    columns["acc_need"] = columns["acc_need"][:-1]
    with pytest.raises(PlanError, match="column acc_first|column acc_wait_us"):
        write_plan(tmp_path / "p", columns)
    assert list(tmp_path.iterdir()) == []


def test_reading_needs_no_numpy(batch, data, tmp_path):
    write_plan_of(tmp_path / "p", batch)
    code = ("import sys; from traffic.replay import plan; from traffic.tmix import vectors;"
            " plan.read_plan(sys.argv[1]); sys.exit('numpy' in sys.modules)")
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "p")], cwd=data.parents[2],
                   check=True)
