# SPDX-License-Identifier: GPL-2.0-only
"""What the probe `cpu` reads of the kernel's files, and what becomes of it."""
import types

import pandas as pd

from testbed.core import raw_tables
from testbed.probes import cpu
from tests.unit.testbed.probe_contexts import context

STAT = """cpu  30 0 40 100 0 5 6 7 0 0
cpu0 10 1 20 50 2 3 4 5 8 9
cpu11 20 0 20 50 0 2 2 2 0 0
intr 1 2 3
ctxt 12
"""
SOFTNET = """000000ff 00000002 00000010 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
00000001 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 0000000b 00000000 00000000
"""     # noqa: E501
SCHEDSTAT = """version 15
timestamp 4295000000
cpu0 0 0 0 0 0 0 9000000 2500999 12
domain0 3 0 0
cpu11 0 0 0 0 0 0 1 0 0
"""


def test_times_are_those_of_each_cpu_in_microseconds():
    assert cpu.stat(STAT) == {0: [110_000, 200_000, 30_000, 40_000, 50_000, 520_000],
                              11: [200_000, 200_000, 20_000, 20_000, 20_000, 500_000]}


def test_backlogs_are_of_the_cpu_that_the_line_names():
    assert cpu.softnet(SOFTNET) == {0: (2, 16), 11: (0, 1)}
    assert cpu.softnet("000000ff 00000002 00000010\n00000001 00000000 00000003\n") == {0: (2, 16), 1: (0, 3)}


def test_run_delays_are_microseconds():
    assert cpu.schedstat(SCHEDSTAT) == {0: 2500, 11: 0}


def test_counters_begin_at_zero_and_what_is_not_known_stays_empty(tmp_path, monkeypatch):
    readings = iter([{0: [100, 0, 0, 0, 0, 900, 5, 7, cpu._UNKNOWN]},
                     {0: [150, 1, 2, 3, 4, 990, 6, 9, cpu._UNKNOWN], 1: [7, 7, 7, 7, 7, 7, 7, 7, 70]}])
    monkeypatch.setattr(cpu, "_read", lambda loops: next(readings))
    sampler = cpu.Sampler(cpu.Options(), types.SimpleNamespace(timer_period_us=57), {}, str(tmp_path))
    sampler.open()
    sampler.sample(3)
    sampler.sample(100_001)
    assert sampler.close()["timer_period_us"] == 57
    (tmp_path / "raw").mkdir()
    cpu.collect(tmp_path, tmp_path / "raw", context(cpu))
    table = pd.read_csv(tmp_path / "raw" / "cpu.csv.gz")
    assert list(table) == raw_tables.TABLES["cpu"].names()
    assert table.loc[1].tolist()[:-1] == [100_001, 0, 50, 1, 2, 3, 4, 90, 1, 2]
    assert table["run_delay_us"].isna().tolist() == [True, True, False]
    assert table.loc[2].tolist()[2:] == [0] * 9         # a CPU that came later


def test_this_machines_files_are_read():
    found = cpu._read({})
    assert found and all(len(values) == 9 and sum(values[:6]) > 0 for values in found.values())


def test_what_keeps_a_cpu_from_idling_is_no_work():
    assert cpu.stat(STAT, nice_is_idle=True)[0] == [100_000, 200_000, 30_000, 40_000, 50_000, 530_000]
