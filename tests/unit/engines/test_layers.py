# SPDX-License-Identifier: GPL-2.0-only
"""Dependencies go one way (docs/explanation/architecture.md): a layer imports those before it, and no other."""
import ast
import itertools

import pytest

from testbed import PROJECT_DIR

#: from the bottom up; layers of one line do not know each other
LAYERS = (("kernel",), ("testbed.core",), ("topologies",), ("traffic",), ("testbed.probes",),
          ("testbed.guest", "testbed.scenario", "testbed.checks"), ("analysis",), ("testbed.runs",),
          ("testbed.engines",), ("testbed.executors", "testbed.packet_scripts"), ("testbed.cli",), ("testbed.api",))
HEIGHTS = {name: height for height, names in enumerate(LAYERS) for name in names}
#: of testbed, analysis may read these only: what a run is made from is none of its business
OF_ANALYSIS = ("testbed.core", "testbed.checks")


#: what may be imported inside a function, since not every command needs it: ms of CPU time that it takes in a new
#: process (Debian 12, Python 3.11), with what it imports itself; of packages the module that takes the most
LATE_MS = {"pandas": 212, "numpy": 57, "scipy": 97, "distributed": 243, "rich": 28, "argcomplete": 9, "kernel": 37,
           "topologies": 59, "traffic": 86, "testbed.probes": 29, "testbed.checks": 31, "testbed.scenario": 73,
           "testbed.runs": 211, "testbed.engines": 32, "testbed.executors": 115, "analysis": 259,
           "testbed.packet_scripts": 124, "testbed.core.cache_dirs": 39, "testbed.cli._completion": 9, "difflib": 4,
           "hypothesis": 95}
#: in files that programs of a run import, each in a process of its own: ms that it takes after all else that the file
#: imports (the least of five; Debian 12, Python 3.11). What takes less than half a millisecond is imported at the top
LATE_INSIDE_MS = {
    "ctypes": 1.2, "pathlib": 2.7, "runpy": 0.7, "tarfile": 26, "testbed.core.fields": 20, "testbed.core.files": 5.1,
    "testbed.core.guesses": 8.6, "testbed.core.ip": 11, "testbed.core.raw_files": 2.2, "testbed.core.raw_tables": 0.8,
    "testbed.guest.air": 3.5, "testbed.guest.shell": 39, "testbed.guest.thresholds": 0.5, "topologies.base": 73,
    "topologies.links.link": 59, "topologies.links.schedule": 27, "topologies.linux.namespace": 4.3,
    "topologies.linux.network": 25, "topologies.standards": 0.9, "topologies.wireless.airways": 1.7,
    "topologies.wireless.radios": 1.7, "traffic.greedy.ring": 4.6, "traffic.greedy.threads": 2.0,
    "traffic.replay.collect": 53, "traffic.replay.core_loop": 2.8, "traffic.replay.eventloop": 1.9,
    "traffic.tmix.names": 7.5, "traffic.tmix.order": 6.6, "traffic.tmix.prefill": 0.6, "traffic.tmix.reader": 2.6,
    "traffic.tmix.selected": 1.9, "traffic.tmix.sources": 14, "traffic.tmix.workload": 16,
    "traffic.workload.components": 86}
INSIDE = ("testbed/guest/", "testbed/probes/", "topologies/", "traffic/")
#: these make the code of the testbed reachable before they import it
BEGINNINGS = ("testbed/engines/uml/init.py", "testbed/engines/host/enter.py", "testbed/engines/vagrant/inside.py",
              "testbed/packet_scripts/init.py")


def layer_of(module: str) -> str | None:
    """The layer of a module; None of what belongs to none: testbed itself, and what is not ours."""
    parts = module.split(".")
    name = ".".join(parts[:2]) if parts[0] == "testbed" else parts[0]
    return name if name in HEIGHTS else None


def imported(path, source):
    """(line, module) of every import of a file, those inside functions, too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: a relative import"
            # `from testbed import core` names a layer, too
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def wrong_imports(path, source):
    own = layer_of(".".join(path.with_suffix("").parts))
    for line, module in imported(path, source):
        other = layer_of(module)
        if own is None or other is None or own == other:
            continue
        if HEIGHTS[other] >= HEIGHTS[own] or (own == "analysis" and module.startswith("testbed")
                                              and other not in OF_ANALYSIS):
            yield f"{path}:{line}: {own} must not import {module}"


def sources():
    for folder in ("kernel", "testbed", "topologies", "traffic", "analysis"):
        yield from sorted((PROJECT_DIR / folder).rglob("*.py"))


def test_every_import_goes_to_a_lower_layer():
    found = [message for file in sources()
             for message in wrong_imports(file.relative_to(PROJECT_DIR), file.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


def late_imports(path, source):
    """Imports inside functions that nothing excuses."""
    excused = [*LATE_MS, *LATE_INSIDE_MS] if str(path).startswith(INSIDE) else LATE_MS
    inner = {ast.unparse(node) for function in ast.walk(ast.parse(source))
             if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(function)
             if isinstance(node, (ast.Import, ast.ImportFrom))}
    for _, module in imported(path, "\n".join(sorted(inner))):
        if not any(f"{module}.".startswith(f"{late}.") for late in excused):
            yield f"{path}: {module} is imported inside a function"


def test_imports_inside_functions_are_of_what_takes_long():
    found = [message for file in sources() for path in [file.relative_to(PROJECT_DIR)]
             if str(path) not in BEGINNINGS for message in late_imports(path, file.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path, line, found", [
    ("made_up.py", "import json", 1), ("made_up.py", "from testbed.core import fields", 1),
    ("made_up.py", "import pandas as pd", 0), ("made_up.py", "from analysis.read import runs", 0),
    ("traffic/made_up.py", "from testbed.core import fields", 0), ("traffic/made_up.py", "import json", 1)])
def test_a_late_import_is_found(path, line, found):
    assert len(list(late_imports(path, f"def f():\n    {line}\n"))) == found
    assert not list(late_imports(path, line))


def test_every_file_belongs_to_a_layer():
    modules = [".".join(file.relative_to(PROJECT_DIR).with_suffix("").parts) for file in sources()]
    assert [module for module in modules if layer_of(module) is None] == ["testbed.__init__", "testbed.__main__"]


@pytest.mark.parametrize("low, high", itertools.combinations([name for names in LAYERS for name in names[:1]], 2))
def test_an_import_upwards_is_found(low, high):
    path = PROJECT_DIR.__class__(low.replace(".", "/")) / "made_up.py"
    above, _, name = high.rpartition(".")
    lines = {"plain": f"import {high}.thing", "inside": f"def f():\n    from {high} import thing"}
    if above:
        lines["name"] = f"from {above} import {name}"
    for source in lines.values():
        assert list(wrong_imports(path, source)), source
