# SPDX-License-Identifier: GPL-2.0-only
"""What probes are told of a run, from plain values."""
from testbed.core.timing import Timing
from testbed.probes._context import Context
from topologies.links.records import Network
from traffic.workload.records import Flow


def context(probe, network=None, flows=(), t0_ns=0, warmup_us=0, test_us=1_000_000, **options):
    """For `collect` of a probe; options: those of the probe."""
    return Context(probe.Options(**options), Network(network or {}), [Flow(one) for one in flows], t0_ns,
                   Timing(warmup_us=warmup_us, test_us=test_us))
