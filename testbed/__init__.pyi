# SPDX-License-Identifier: GPL-2.0-only
# For editors: what `import testbed` offers. mypy looks no further, or all modules would be one circle.
import pathlib
from typing import Any

MYPY: bool
if not MYPY:
    from testbed.api import (EnvironmentProblem as EnvironmentProblem, Experiment as Experiment, Picture as Picture,
                             Run as Run, RunFailed as RunFailed, ScenarioError as ScenarioError,
                             TestbedError as TestbedError, UsageError as UsageError, open as open, query as query,
                             run as run, series_names as series_names)

__version__: str
PROJECT_DIR: pathlib.Path

def __getattr__(name: str) -> Any: ...
