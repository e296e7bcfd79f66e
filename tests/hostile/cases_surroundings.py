# SPDX-License-Identifier: GPL-2.0-only
"""Right commands in strange surroundings: folders, variables, standard files, permissions."""
from __future__ import annotations

import os
import pathlib

from tests.hostile.case import SMALL, Case

_RUN = '"$TESTBED" run small.yaml --no-report --load 61'
_RENO = ["run", "small.yaml", "--no-report", "--cca", "reno"]
_REFUSED = "load 61: small has load 60, 85"
_NOSUCH = "no congestion control 'nosuch' in this kernel"


def _shell(name: str, line: str, code: int | tuple[int, ...], says: str, **environment: str | None) -> Case:
    return Case(f"around-{name}", line, code, says, {"small.yaml": SMALL}, environment)


def _doctor(name: str, says: str, code: int = 3, **environment: str | None) -> Case:
    return Case(f"doctor-{name}", ["doctor"], code, says, {"file": "a file"}, environment)


def _list(name: str, says: str, code: int, *what: str, **environment: str | None) -> Case:
    return Case(f"list-{name}", ["list", *what], code, says, {"file": "a file"}, environment)


def _loop(work: pathlib.Path) -> None:
    (work / "results").symlink_to("results")


def _dangling(work: pathlib.Path) -> None:
    (work / "results").symlink_to("nowhere")


def _sealed(work: pathlib.Path) -> None:
    (work / "results").mkdir()
    os.chmod(work / "results", 0o500)


CASES = [
    _doctor("results-file", "PROBLEM  results folder: .*file is not a folder", TESTBED_RESULTS="file"),
    _doctor("results-below-a-file", "PROBLEM  results folder: .*file is not a folder", TESTBED_RESULTS="file/results"),
    _doctor("results-device", "PROBLEM  results folder: /dev/null is not a folder", TESTBED_RESULTS="/dev/null"),
    _doctor("results-proc", "PROBLEM  results folder: /proc", TESTBED_RESULTS="/proc/results"),
    _doctor("results-not-text", "results folder: ", (0), TESTBED_RESULTS="\udcff"),
    _doctor("results-newline", "results folder: ", (0), TESTBED_RESULTS="a\nb"),
    _doctor("results-name-too-long", "results folder", 3, TESTBED_RESULTS="x" * 300),
    _doctor("cache-file", "PROBLEM  cache folder: .* is not a folder", TESTBED_CACHE="file"),
    _doctor("cache-device", "PROBLEM  cache folder: .* is not a folder", TESTBED_CACHE="/dev/null"),
    _doctor("cache-empty-folder", "not built yet", (0, 3), TESTBED_CACHE="nothing"),
    _doctor("memory-nowhere", "PROBLEM  engine uml: no space for the guest's memory.*fix: ",
            TESTBED_GUEST_MEMORY_DIR="/nonexistent"),
    _doctor("memory-file", "PROBLEM  engine uml: .*memory", TESTBED_GUEST_MEMORY_DIR="file"),
    _doctor("memory-proc", "PROBLEM  engine uml: .*memory.*/proc has 0 MB free", TESTBED_GUEST_MEMORY_DIR="/proc"),
    _doctor("no-path", "not a Debian system", PATH="/nonexistent"),
    _doctor("no-home", "engine uml: ready", 0, HOME=None),
    _doctor("home-nowhere", "engine uml: ready", 0, HOME="/nonexistent"),
    Case("doctor-link-to-itself", ["doctor"], 3, "PROBLEM  results folder: .*is not a folder", prepare=_loop),
    Case("doctor-dangling-link", ["doctor"], 3, "PROBLEM  results folder: .*is not a folder", prepare=_dangling),
    _list("results-file", "Runs in .*none", 0, "runs", TESTBED_RESULTS="file"),
    _list("results-nowhere", "Runs in .*none", 0, "runs", TESTBED_RESULTS="/nonexistent/results"),
    _list("results-not-text", "Runs in .*none", 0, "runs", TESTBED_RESULTS="\udcff"),
    _list("cache-file", "Not a directory|not built yet|no folder", (0, 1, 3), "ccas", TESTBED_CACHE="file"),
    _list("columns-zero", "Scenarios", 0, "scenarios", COLUMNS="0"),
    _list("columns-one", "a", 0, "scenarios", COLUMNS="1"),
    _list("columns-word", "access-link", 0, "scenarios", COLUMNS="many"),
    _list("columns-huge", "access-link", 0, "scenarios", COLUMNS="99999"),
    _list("columns-negative", "access-link", 0, "scenarios", COLUMNS="-5"),
    _list("no-term", "access-link", 0, "scenarios", TERM=None),
    _list("strange-term", "access-link", 0, "scenarios", TERM="nosuch"),
    _list("forced-colour", "access-link", 0, "scenarios", FORCE_COLOR="1"),
    _list("everything-as-json", '"runs"', 0, "scenarios", "engines", "topologies", "traffic", "probes", "runs",
          "--json"),
    _shell("language-c", f"LC_ALL=C {_RUN}", 2, _REFUSED),
    _shell("language-posix-ascii", f"LC_ALL=POSIX PYTHONIOENCODING=ascii {_RUN} --set title=größe", 2, _REFUSED),
    _shell("language-unknown", f"LC_ALL=xx_XX.nosuch {_RUN}", 2, _REFUSED),
    _shell("python-path", f"mkdir m && echo 'raise SystemExit(9)' > m/yaml.py && PYTHONPATH=m {_RUN}", 2, _REFUSED),
    _shell("python-home", f"PYTHONHOME=/nonexistent {_RUN}", 2, _REFUSED),
    _shell("python-options", f"PYTHONSTARTUP=/nonexistent PYTHONINSPECT= PYTHONDEVMODE= {_RUN}", 2, _REFUSED),
    _shell("modules-here", "for m in yaml numpy argparse testbed kernel; do echo 'raise SystemExit(9)' > $m.py; done; "
           + _RUN, 2, _REFUSED),
    _shell("folder-deleted", 'mkdir gone && cd gone && rmdir ../gone && "$TESTBED" list topologies', 1,
           "testbed: the current folder does not exist any more"),
    _shell("stdin-closed", f"{_RUN} <&-", 2, _REFUSED),
    _shell("stdout-closed", f"{_RUN} >&-", 2, _REFUSED),
    _shell("stderr-closed", f"{_RUN} 2>&-", 2, ""),
    _shell("all-closed", f"{_RUN} <&- >&- 2>&-", 2, ""),
    _shell("stderr-full", f"{_RUN} 2>/dev/full", 2, ""),
    _shell("stderr-into-a-closed-pipe",
           f"{{ {_RUN}; echo $? > code; }} 2>&1 | true; sleep 0.5; grep -q 2 code && echo good", 0, "good"),
    _shell("list-into-head", '"$TESTBED" list | head -1', 0, "Scenarios"),
    _shell("list-into-nothing", '"$TESTBED" list scenarios ccas engines probes | true', 0, ""),
    _shell("help-to-full", '"$TESTBED" --help > /dev/full', 3, "testbed: .*No space left on device"),
    _shell("few-files", f"ulimit -n 16; {_RUN}", (1, 2), "testbed: "),
    _shell("little-memory", f"ulimit -v 100000; {_RUN}", (1, 2, 3), "testbed: "),
    _shell("small-stack", f"ulimit -s 256; {_RUN}", 2, _REFUSED),
    _shell("interrupt", '"$TESTBED" list probes & sleep 0.1; kill -INT $!; wait $!', (0, 130), ""),
    _shell("hangup", 'setsid "$TESTBED" list probes & sleep 0.15; kill -HUP $!; wait $!', (0, 129), ""),
    _shell("through-a-link", 'ln -s "$TESTBED" t && ./t --version', 0, "testbed "),
    _shell("by-a-relative-path", 'cd / && ".$TESTBED" --version', 0, "testbed "),
    _shell("empty-environment", 'env -i "$TESTBED" list topologies', 0, "dumbbell"),
    _shell("without-permission-for-results", f"chmod 500 .; {_RUN}; code=$?; chmod 755 .; exit $code", 2, _REFUSED),
    Case("around-umask-777", ["tmix", "synth", "out", "--duration", "1"], 0, "", umask=0o777,
         after=lambda work: os.chmod(work / "out", 0o600)),
    Case("around-umask-777-run", ["run", "small.yaml", "--cca", "nosuch"], 2, _NOSUCH, {"small.yaml": SMALL},
         umask=0o777),
    Case("around-results-is-a-file", ["run", "small.yaml", "--no-report", "--cca", "reno"], 3,
         r"testbed: results cannot be written: .*/results is not a folder", {"small.yaml": SMALL, "results": "a file"}),
    Case("around-results-runs-is-a-file", ["run", "small.yaml", "--no-report", "--cca", "reno"], 3,
         r"testbed: results cannot be written: .*results/runs is not a folder",
         {"small.yaml": SMALL, "results/runs": "a file"}),
    Case("around-results-in-proc", ["run", "small.yaml", "--no-report", "--cca", "reno"], 3,
         r"testbed: results cannot be written: /proc/results: cannot write in /proc",
         {"small.yaml": SMALL}, {"TESTBED_RESULTS": "/proc/results"}),
    Case("around-results-link-to-itself", ["run", "small.yaml", "--no-report", "--cca", "reno"], 3,
         r"testbed: results cannot be written: .*results is not a folder",
         {"small.yaml": SMALL}, prepare=_loop),
    Case("around-memory-nowhere", ["run", "small.yaml", "--cca", "reno"], 3, "no space for the guest's memory",
         {"small.yaml": SMALL}, {"TESTBED_GUEST_MEMORY_DIR": "/nonexistent"}),
    *[Case(f"around-cache-{name}", command, 3, rf"^testbed: the cache folder {folder} cannot be used: {why}; set "
           r"TESTBED_CACHE to a folder of yours\n$", {"small.yaml": SMALL}, {"TESTBED_CACHE": cache})
      for name, command, cache, folder, why in (
          ("is-a-file", _RENO, "small.yaml", r"\S*/small\.yaml", r"\S*/small\.yaml is not a folder"),
          ("below-a-file", _RENO, "small.yaml/a/b", r"\S*/small\.yaml/a/b", r"\S*/small\.yaml is not a folder"),
          ("in-proc", _RENO, "/proc/cache", "/proc/cache", "cannot write in /proc: .*"),
          ("in-proc-kernel", ["kernel"], "/proc/cache", "/proc/cache", "cannot write in /proc: .*"),
          ("is-a-file-kernel", ["kernel", "--prune"], "small.yaml", r"\S*/small\.yaml", r"\S* is not a folder"))],
]
