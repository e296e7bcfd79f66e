# SPDX-License-Identifier: GPL-2.0-only
"""Runs on a wall clock that are bad in one way each, as bad_runs.py has those of any clock."""
import pandas as pd

from tests.unit.testbed.bad_runs import Bad
from tests.unit.testbed.spoils import put

REAL = {"clock": "real"}
_SECOND_US = 10**6
_ZERO = ["user_us", "system_us", "irq_us", "softirq_us", "steal_us", "packets_dropped", "time_squeezes"]


def cpus(**spent):
    """Two CPUs that are idle; the second spends so many us of each second otherwise, its counters grow by so much."""
    def spoil(files):
        rows = []
        for t in range(31):
            for cpu in (0, 1):
                mine = spent if cpu else {}
                row = {"t_us": t * _SECOND_US, "cpu": cpu, "run_delay_us": None,
                       **dict.fromkeys(_ZERO, 0), **{name: t * value for name, value in mine.items()}}
                times = sum(value for name, value in mine.items() if name.endswith("_us") and name != "run_delay_us")
                rows.append({**row, "idle_us": t * (_SECOND_US - times)})
        files["cpu"] = pd.DataFrame(rows)
    return spoil


def late(us, of):
    """Every of-th sample of the queues is late."""
    def spoil(files):
        cpus(softirq_us=600_000)(files)
        queue = files["queue"]
        files["queue"] = queue.assign(t_us=[t + us * (t // _SECOND_US % of == 0) for t in queue["t_us"]])
    return spoil


CHECKS = [
    Bad("cpu", "not sampled", lambda files: None, "suspect", "the CPUs were not sampled", REAL),
    Bad("cpu", "busy with packets", cpus(softirq_us=600_000, system_us=350_000), "invalid",
        r"no CPU time was left in 100 % of the seconds: CPU 1 was 95 % busy \(user 0 %, system 35 %, irq 0 %, "
        r"softirq 60 %, steal 0 %\)", REAL),
    Bad("cpu", "samples late", late(100_001, 10), "invalid",
        "of the samples were more than 100 ms late: CPU 1 was 60 % busy", REAL),
    Bad("cpu", "a few samples late", late(100_001, 25), "suspect", "of the samples were more than 100 ms late",
        REAL),
    Bad("cpu", "taken away", cpus(steal_us=51_000), "invalid", "CPU 1 was taken away by other machines for 5.1 %",
        REAL),
    Bad("cpu", "taken away a little", cpus(steal_us=11_000), "suspect", "CPU 1 was taken away .* for 1.1 %", REAL),
    Bad("cpu", "tasks waited", cpus(run_delay_us=251_000), "suspect",
        "tasks waited for CPU 1 for 251 ms of each second", REAL),
    Bad("cpu", "packets dropped", cpus(packets_dropped=2), "invalid", "CPU 1 dropped 38 packets", REAL),
    Bad("idle_network", "late on a wall clock", put("checks.json", "paths/0/measured_rtt_us", 8600.0), "suspect",
        "8.600 ms instead of 8.047 ms", REAL),
    Bad("idle_network", "too late on a wall clock", put("checks.json", "paths/0/measured_rtt_us", 10_100.0), "invalid",
        "10.100 ms instead of 8.047 ms", REAL),
    Bad("idle_network", "slow on a wall clock", put("checks.json", "bottlenecks/0/measured_bps", 97_900_000), "suspect",
        "carries 97.900 Mbit/s", REAL),
    Bad("idle_network", "too slow on a wall clock", put("checks.json", "bottlenecks/0/measured_bps", 94_900_000),
        "invalid", "carries 94.900 Mbit/s", REAL),
]

#: what a wall clock may do: nothing is said of it
FINE = [
    ("cpu", cpus(user_us=940_000, run_delay_us=200_000, steal_us=9_000)),
    ("cpu", cpus(user_us=990_000)),             # the other CPU was free
    ("cpu", late(4999, 1)),
    ("idle_network", put("checks.json", "paths/0/measured_rtt_us", 8500.0)),
    ("idle_network", put("checks.json", "bottlenecks/0/measured_bps", 98_100_000)),
]
