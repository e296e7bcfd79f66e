# SPDX-License-Identifier: GPL-2.0-only
"""What the machine's CPUs did, sampled: busy, interrupted, taken away, too late for packets (-> cpu.csv.gz).

On a wall clock a CPU that is too slow distorts the network; engines with one record this by themselves. All of it is
of the whole machine. In virtual time it means nothing.
"""
import dataclasses
import glob
import pathlib
from array import array
from typing import TYPE_CHECKING

from testbed.core import fields, no_idle
from topologies.links.records import Network as Description

if TYPE_CHECKING:
    from testbed.probes._context import Context
    from topologies.linux.network import Network


_INTERVAL_US = 100_000
#: /proc/stat counts in ticks of USER_HZ, which is 100 everywhere
_TICK_US = 10_000
#: a kernel without CONFIG_SCHEDSTATS does not say how long tasks waited for a CPU
_UNKNOWN = -1
#: of softnet_stat: packets dropped since the backlog was full, times that a softirq had to leave off, which CPU
_DROPPED, _SQUEEZED, _CPU = 1, 2, 12


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: time between two readings."""
    interval_us: int = fields.time(default=_INTERVAL_US, least=10_000)


class Sampler:
    """Reads /proc/stat, /proc/schedstat and /proc/net/softnet_stat."""

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        self.interval_us = options.interval_us
        self._timer_period_us = network.timer_period_us
        self._file = open(f"{work_dir}/cpu.bin", "wb")
        self._start: dict[int, list[int]] = {}

    def open(self) -> None:
        pass

    def sample(self, t_us: int) -> None:
        """Note what the CPUs have done since the first sample."""
        rows = array("q")
        for cpu, values in _read(no_idle.pids()).items():
            before = self._start.setdefault(cpu, values)
            rows.extend([t_us, cpu, *(value if value == _UNKNOWN else value - start
                                      for value, start in zip(values, before))])
        rows.tofile(self._file)

    def close(self) -> dict[str, object]:
        self._file.close()
        paths = glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
        return {"timer_period_us": self._timer_period_us,
                "governors": sorted({pathlib.Path(path).read_text().strip() for path in paths})}


def _read(loops: dict[int, int]) -> dict[int, list[int]]:
    """{CPU: [user, system, irq, softirq, steal, idle in us, dropped, squeezed, run delay in us]} since boot.

    loops: {CPU: process that keeps it from idling}. What they compute, and wait, is idle time.
    """
    with open("/proc/stat", encoding="ascii") as f:
        found = stat(f.read(), nice_is_idle=bool(loops))
    with open("/proc/thread-self/net/softnet_stat", encoding="ascii") as f:
        backlogs = softnet(f.read())
    try:
        with open("/proc/schedstat", encoding="ascii") as f:
            delays = schedstat(f.read())
        for cpu, pid in loops.items():
            delays[cpu] -= _waited_us(pid)
    except FileNotFoundError:
        delays = {}
    return {cpu: [*times, *backlogs.get(cpu, (0, 0)), delays.get(cpu, _UNKNOWN)] for cpu, times in found.items()}


def _waited_us(pid: int) -> int:
    """How long a process has waited for a CPU."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[1]) // 1000


def stat(text: str, nice_is_idle: bool = False) -> dict[int, list[int]]:
    """{CPU: [user, system, irq, softirq, steal, idle] in us} of /proc/stat; nice is user's or idle, iowait idle."""
    found = {}
    for line in text.splitlines():
        name, *words = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, idle, iowait, irq, softirq, steal = (int(word) * _TICK_US for word in words[:8])
            users, idles = (user, idle + nice) if nice_is_idle else (user + nice, idle)
            found[int(name[3:])] = [users, system, irq, softirq, steal, idles + iowait]
    return found


def softnet(text: str) -> dict[int, tuple[int, int]]:
    """{CPU: (packets dropped, times squeezed)} of /proc/net/softnet_stat, whose older kernels list CPUs in order."""
    found = {}
    for number, line in enumerate(text.splitlines()):
        words = [int(word, 16) for word in line.split()]
        found[words[_CPU] if len(words) > _CPU else number] = words[_DROPPED], words[_SQUEEZED]
    return found


def schedstat(text: str) -> dict[int, int]:
    """{CPU: us that tasks have waited for it} of /proc/schedstat."""
    return {int(words[0][3:]): int(words[8]) // 1000 for words in map(str.split, text.splitlines())
            if words and words[0].startswith("cpu")}


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    import numpy as np
    import pandas as pd

    from testbed.core import raw_tables
    from testbed.core.raw_files import write_table
    columns = raw_tables.TABLES["cpu"].names()
    rows = np.fromfile(work_dir / "cpu.bin", dtype="<i8").reshape(-1, len(columns))
    table = pd.DataFrame(rows, columns=columns)
    table["run_delay_us"] = table["run_delay_us"].astype("Int64").mask(table["run_delay_us"] == _UNKNOWN)
    write_table(table, raw_dir, "cpu")
