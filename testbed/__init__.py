# SPDX-License-Identifier: GPL-2.0-only
"""A TCP congestion-control testbed on the real Linux kernel.

For notebooks and programs: `run`, `open` and `query` (docs/reference/python.md). They are loaded when first used.
"""
import pathlib

__version__ = "0.2"

#: the checkout (or installation) this code belongs to
PROJECT_DIR = pathlib.Path(__file__).resolve().parent.parent
#: names of testbed.api; __init__.pyi says their types
_OF_API = ("EnvironmentProblem", "Experiment", "Picture", "Run", "RunFailed", "ScenarioError", "TestbedError",
           "UsageError", "open", "query", "run", "series_names")


def __getattr__(name: str) -> object:
    if name not in _OF_API:
        raise AttributeError(f"module 'testbed' has no attribute {name!r}")
    # no import statement: by those, everything that imports a module of testbed would depend on all of the API
    found = globals()[name] = getattr(__import__("testbed.api", fromlist=[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_API})
