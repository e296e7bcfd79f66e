# SPDX-License-Identifier: GPL-2.0-only
"""For notebooks and programs: run experiments and look at what they show (docs/reference/python.md).

    import testbed
    found = testbed.run("long-flows", ccas=["reno", "cubic"], seeds=5, quick=True)
    found.summary("throughput", "p95_delay")
    found.figure("queueing_delay")

It stands beside the command line and does what that does, by the same code.
"""
from analysis.read.curves import names as series_names
from testbed.api.experiment import Experiment, Run, open_experiment
from testbed.api.pictures import Picture
from testbed.api.running import run
from testbed.core.errors import EnvironmentProblem, RunFailed, ScenarioError, TestbedError, UsageError
from testbed.runs.queries import query

__all__ = ["EnvironmentProblem", "Experiment", "Picture", "Run", "RunFailed", "ScenarioError", "TestbedError",
           "UsageError", "open", "query", "run", "series_names"]

open = open_experiment
