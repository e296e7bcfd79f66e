# SPDX-License-Identifier: GPL-2.0-only
"""Readers and compiler against what nobody meant them to read: they refuse it in one line, or it is what it says."""
import gzip
import io
import json
import struct

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.tmix.tmix_strategies import vectors
from traffic.replay.collect import read_records
from traffic.replay.plan import COLUMNS, PlanError, read_plan, write_plan
from traffic.replay.records import COLUMNS as RECORD_COLUMNS, MAGIC, Records, RecordsError
from traffic.tmix.batch import from_vectors
from traffic.tmix.compile import compile_plan
from traffic.tmix.reader import VectorError, read_vectors
from traffic.tmix.vectors import check, programs
from traffic.tmix.writer import ALTERNATE, ORIGINAL, format_vector, write_vectors

numbers = st.one_of(st.integers(0, 3000), st.integers(0, 1 << 70),
                    st.sampled_from([0, 1, 1 << 36, 1 << 44, (1 << 62) - 1]))
words = st.sampled_from(b"SEQ CONC S C w r l m > < t c> c< t> t< I A # 0.5 nan -1 1e9 +1 0x1 1_0 \xd9\xa1".split())
fields = st.one_of(words, numbers.map(lambda number: str(number).encode()), st.binary(max_size=6))
lines = st.lists(st.lists(fields, max_size=6).map(b" ".join), max_size=12).map(b"\n".join)

MUTATIONS = st.lists(st.tuples(st.integers(0, 1 << 16),
                               st.sampled_from(["drop", "double", "swap", "cut", "word", "number"]),
                               fields), max_size=4)


def mutated(text, mutations):
    """Lines of a proper file, some of them gone, doubled, exchanged, cut short or with another field."""
    rows = text.splitlines()
    for place, how, field in mutations:
        if not rows:
            break
        place %= len(rows)
        parts = rows[place].split(b" ")
        if how == "drop":
            del rows[place]
        elif how == "double":
            rows.insert(place, rows[place])
        elif how == "swap":
            rows[place], rows[place - 1] = rows[place - 1], rows[place]
        elif how == "cut":
            rows[place] = rows[place][:len(field)]
        else:
            parts[-1 if how == "number" else 0] = field
            rows[place] = b" ".join(parts)
    return b"\n".join(rows)


def read(path, **options):
    """The vectors of a file, or its VectorError, which is one line that names the file."""
    try:
        found = list(read_vectors(path, **options))
    except VectorError as problem:
        assert str(problem).startswith(f"{path}:{problem.line}: ") and problem.line >= 1
        assert "\n" not in str(problem) and len(str(problem)) < 400 + len(str(path))
        return None
    for vector in found:
        check(vector)
        programs(vector)
    return found


@settings(max_examples=500)
@given(st.lists(vectors(), min_size=1, max_size=4), st.sampled_from([ORIGINAL, ALTERNATE]), MUTATIONS)
def test_nearly_proper_files(tmp_path, trace, text_format, mutations):
    text = "".join(format_vector(vector, text_format) for vector in trace).encode()
    path = tmp_path / "trace"
    path.write_bytes(mutated(text, mutations))
    found = read(path, check_epochs=False)
    if not mutations:
        assert found == trace
    if found:
        for other in (ORIGINAL, ALTERNATE):
            try:
                write_vectors(tmp_path / "again", found, other)
            except ValueError as problem:           # a closer that the original format has no words for
                assert other == ORIGINAL and "write the alternate format" in str(problem)
            else:
                assert read(tmp_path / "again", check_epochs=False) == found


@settings(max_examples=500)
@given(st.one_of(lines, st.binary(max_size=300)), st.booleans())
def test_any_lines(tmp_path, content, packed):
    (tmp_path / "trace").write_bytes(gzip.compress(content, mtime=0) if packed else content)
    found = read(tmp_path / "trace")
    if found:
        batch = from_vectors(found)
        assert list(batch) == found


@settings(max_examples=150)
@given(st.lists(vectors(), min_size=1, max_size=3), st.integers(0, 1 << 16), st.integers(0, 255), st.booleans())
def test_damaged_gzip(tmp_path, trace, place, value, cut):
    packed = bytearray(gzip.compress("".join(map(format_vector, trace)).encode(), mtime=0))
    place %= len(packed)
    if cut:
        del packed[max(place, 2):]
    else:
        packed[place] = value
    (tmp_path / "trace.gz").write_bytes(packed)
    read(tmp_path / "trace.gz")


def proper_plan(trace):
    """The bytes of the plan of a trace."""
    columns = compile_plan(from_vectors(trace))
    file = io.BytesIO()
    header = {"connections": len(columns["start_us"]), "init_ops": len(columns["init_need"]),
              "acc_ops": len(columns["acc_need"])}
    file.write(b"tmixplan 1\n" + json.dumps(header).encode() + b"\n")
    for name, _, _ in COLUMNS:
        file.write(columns[name].tobytes())
    return file.getvalue()


@settings(max_examples=400)
@given(st.lists(vectors(any_closer=True), min_size=1, max_size=4))
def test_a_plan_is_what_the_vectors_say(tmp_path, trace):
    write_plan(tmp_path / "plan", compile_plan(from_vectors(trace)), source=0)
    plan = read_plan(tmp_path / "plan")
    assert len(plan) == len(trace) and list(plan.start_us) == sorted(vector.start_us for vector in trace)
    for row, number in enumerate(plan.conn_id):
        for side, ops in zip(("init", "acc"), programs(trace[number])):
            rows = range(getattr(plan, f"{side}_first")[row], getattr(plan, f"{side}_first")[row + 1])
            assert [(getattr(plan, f"{side}_wait_us")[i], getattr(plan, f"{side}_bytes")[i]) for i in rows] == [
                (op.wait_us, op.size_bytes) for op in ops]


DAMAGES = st.lists(st.tuples(st.integers(0, 1 << 20), st.one_of(st.binary(min_size=1, max_size=8),
                                                                st.integers(-2**63, 2**63 - 1).map(
    struct.Struct("<q").pack))), min_size=1, max_size=3)


@settings(max_examples=400)
@given(st.lists(vectors(), min_size=1, max_size=3), DAMAGES, st.integers(0, 40), st.booleans())
def test_damaged_plans(tmp_path, trace, damages, less, header):
    """Refused, or every offset inside the columns: the replay must not read beside them."""
    content = bytearray(proper_plan(trace))
    for place, what in damages:
        place %= 120 if header else len(content)
        content[place:place + len(what)] = what
    (tmp_path / "plan").write_bytes(bytes(content)[:len(content) - less])
    try:
        plan = read_plan(tmp_path / "plan")
    except PlanError as problem:
        assert str(problem).startswith(f"{tmp_path}/plan: ") and "\n" not in str(problem)
        return
    assert plan.init_first[-1] == len(plan.init_need) and plan.acc_first[-1] == len(plan.acc_bytes)


@settings(max_examples=400)
@given(st.integers(0, 5), st.integers(0, 9), DAMAGES, st.integers(0, 40), st.booleans())
def test_damaged_records(tmp_path, connections, ops, damages, less, header):
    records = Records.empty({"source": 0, "role": "initiator", "connections": connections, "own_ops": ops,
                             "peer_ops": 3})
    path = tmp_path / "source0.initiator.records"
    records.write(str(path))
    whole = path.read_bytes()
    assert read_records(path)[0] == records.header
    content = bytearray(whole)
    for place, what in damages:
        place %= len(MAGIC) + 100 if header else len(content)
        content[place:place + len(what)] = what
    path.write_bytes(bytes(content)[:len(content) - less])
    try:
        found, columns = read_records(path)
    except RecordsError as problem:
        assert str(problem).startswith(f"{path}: ") and "\n" not in str(problem)
        return
    for name, count, _ in RECORD_COLUMNS:
        assert len(columns[name]) == found[count]


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_outputs_that_are_no_files_stay_what_they_are(tmp_path, name):
    import os
    import stat
    import threading
    os.mkfifo(tmp_path / name)
    taken = []
    reader = threading.Thread(target=lambda: taken.append((tmp_path / name).read_bytes()))
    reader.start()
    vector = next(iter(read_vectors(_one(tmp_path))))
    assert write_vectors(tmp_path / name, [vector]) == 1
    reader.join(10)
    assert stat.S_ISFIFO((tmp_path / name).stat().st_mode) and taken[0]
    with pytest.raises(OSError, match="No space left"):
        write_vectors("/dev/full", [vector])
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_vectors(tmp_path / "link", [vector])
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == format_vector(vector)
    with pytest.raises(IsADirectoryError):
        write_vectors(tmp_path, [vector])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "link", "one", "target"])


def _one(folder):
    (folder / "one").write_text("SEQ 0 1 1 1\n> 5\n")
    return folder / "one"
