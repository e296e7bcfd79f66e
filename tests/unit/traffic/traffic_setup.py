# SPDX-License-Identifier: GPL-2.0-only
"""A small network, the timing of a run and variants, for the tests in this folder."""
from testbed.core.timing import Timing
from traffic.workload.records import Variant

EDGE = {"rate_bps": 10**9, "queue": {"kind": "pfifo", "limit": 1000}}
CENTRAL = {"rate_bps": 10**8, "queue": {"kind": "pfifo", "limit": 100}}
DUMBBELL = {"kind": "dumbbell", "central": CENTRAL, "edge": EDGE, "left_delays_us": [0, 5000],
            "right_delays_us": [2000, 9000]}
TIMING = Timing(prefill_us=1_000_000, warmup_us=2_000_000, test_us=7_000_000)


def variant(name, kernel_cca=None, **more):
    """A variant's record, as traffic needs it."""
    return Variant({"name": name, "kernel_cca": kernel_cca or name, "under_test": True, "sysctls": {}, "parameters": {},
                    "module_sha256": None, **more})
