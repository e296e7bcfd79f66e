# SPDX-License-Identifier: GPL-2.0-only
"""Errors a user can do something about: one clear line each, and an exit code."""


class TestbedError(Exception):
    """Ends a command with its message and `exit_code`. Not a bug in the testbed."""
    exit_code = 1
    __test__ = False        # not a test class, whatever its name suggests to pytest

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it, instead of the way through our code."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(TestbedError):
    """What was asked for does not exist or makes no sense (names, values, options)."""
    exit_code = 2


class ScenarioError(UsageError):
    """A scenario file that cannot be used: `file:line: field: what is wrong`."""


class EnvironmentProblem(TestbedError):
    """Something is missing on this machine: a program, space, a permission."""
    exit_code = 3


class NoWorkers(EnvironmentProblem):
    """Nothing that could carry out any run: it ends all of several commands, because the others would fail alike."""


class RunFailed(TestbedError):
    """A run ended without a usable result; what it left is kept for inspection."""
    exit_code = 4


class ExpectationFailed(TestbedError):
    """Runs are there, but results are not what the scenario expects, or cannot be judged."""
    exit_code = 6


class NotReproducible(TestbedError):
    """A repeated run gave other data than the first."""
    exit_code = 5


class AnalysisError(TestbedError):
    """Results from which nothing can be made as asked; the message says which and why."""


class DamagedRun(AnalysisError):
    """A file of a run folder is missing, or is not what the run left."""


def what_failed(problem: OSError) -> str:
    """An error of the operating system, in words: No space left on device: /x/y."""
    said = problem.strerror or str(problem)
    return f"{said}: {problem.filename}" if problem.filename else said
