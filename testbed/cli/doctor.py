# SPDX-License-Identifier: GPL-2.0-only
"""Say what this machine lacks for each engine, and the command that fixes it."""
import os
import shutil
import subprocess

import kernel
from testbed import PROJECT_DIR, engines, results

HELP = "what is missing on this machine, and what fixes it"


def add_arguments(parser):
    parser.add_argument("--engine", help="only this engine (default: all)")


def main(arguments):
    """Exit code 0 if the default engine (or the one asked for) can run, 3 otherwise."""
    troubles = 0
    missing = _missing_packages()
    troubles += _line(not missing, "Debian packages", "all there" if not missing else f"missing: {', '.join(missing)}",
                      "make setup")
    built = kernel.find()
    print(f"  {'ok' if built else '--':7} guest kernel: "
          + (f"{built.release} from {built.source}" if built else "not built yet; `testbed kernel` or the first run does it"))
    for name in [arguments.engine] if arguments.engine else engines.names():
        engine = engines.load(name)({})
        problems = engine.problems()
        for problem in problems:
            _line(False, f"engine {name}", problem.message, problem.fix)
        if not problems:
            _line(True, f"engine {name}", f"ready ({engine.clock} time)", "")
        if problems and name in (arguments.engine, "uml"):
            troubles += 1
    folder = results.results_dir()
    while not folder.exists():
        folder = folder.parent
    free_mb = shutil.disk_usage(folder).free >> 20
    troubles += _line(free_mb >= 2000 and os.access(folder, os.W_OK), "results folder",
                      f"{results.results_dir()}, {free_mb} MB free", "free some space, or set TESTBED_RESULTS")
    return 3 if troubles else 0


def _line(good, what, message, fix):
    print(f"  {'ok' if good else 'PROBLEM':7} {what}: {message}" + ("" if good or not fix else f"\n          fix: {fix}"))
    return 0 if good else 1


def _missing_packages():
    wanted = [line.split("#")[0].split() for line in (PROJECT_DIR / "packages.txt").read_text().splitlines()]
    names = [words[1] for words in wanted if len(words) == 2]
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names],
                              capture_output=True, text=True)
    except FileNotFoundError:
        return []
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in installed]
