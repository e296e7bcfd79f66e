# SPDX-License-Identifier: GPL-2.0-only
"""What a run shows that no metric says: the kernel crashed, it warned of itself, or the verdict is invalid.

`testbed bisect --by` finds the commit that brought it. A symptom is a function of a run's folder: it returns what the
run shows of it in a few words, or '' if nothing. Unknown: the run cannot say, such as one that failed for another
reason.
"""
from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

from kernel import crash
from testbed.core.errors import TestbedError
from testbed.core.guest_files import Late
from testbed.runs.run import read_verdict
from testbed.runs.store import read_record

#: Documentation/admin-guide/tainted-kernels.rst: a machine check, a bad page, an oops, a warning, a lockup
_TROUBLE_BITS = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14
_WARNING = re.compile(r"^(?:\[ *\d+\.\d+\] ?)?(WARNING: .*)$", re.MULTILINE)
_LONGEST = 200


class Unknown(TestbedError):
    """A run of which it is not known whether it shows the symptom."""


def _crash(run_dir: pathlib.Path) -> str:
    """The kernel crashed."""
    record = read_record(run_dir)
    if record is None or record.status == "finished":
        return ""
    trouble = crash.describe(_log(run_dir))
    if trouble or (record.error or "").startswith("the guest kernel"):
        return _short(" ".join((trouble or record.error or "").splitlines()[:2]))
    raise Unknown(f"a run failed for another reason: {_short(record.error or 'unknown')}")


def _warning(run_dir: pathlib.Path) -> str:
    """The kernel warned of itself, in its log."""
    if said := _WARNING.search(_log(run_dir)):
        return _short(said[1])
    record = read_record(run_dir)
    if record is None or record.status != "finished":
        raise Unknown(f"a run failed: {_short(record.error or 'unknown' if record else 'unknown')}")
    path = run_dir / "raw/late.json"
    try:
        late = Late(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError) as problem:
        raise Unknown(f"{path}: cannot be read: {problem}") from None
    if late.tainted is None:
        raise Unknown("whether the kernel warned of itself is not known")
    return _short(late.trouble[0] if late.trouble else "the kernel is tainted") \
        if late.tainted & _TROUBLE_BITS else ""


def _verdict(run_dir: pathlib.Path) -> str:
    """The run is invalid."""
    from testbed import checks
    record = read_record(run_dir)
    if record is None or record.status != "finished":
        raise Unknown(f"a run failed: {_short(record.error or 'unknown' if record else 'unknown')}")
    if read_verdict(run_dir) != "invalid":
        return ""
    return _short(next((reason["message"] for reason in checks.read_verdict(run_dir)["reasons"]
                        if reason["level"] == "invalid"), "invalid"))


#: {what --by names: of a run}
OF_RUNS: dict[str, Callable[[pathlib.Path], str]] = {"crash": _crash, "warning": _warning, "verdict": _verdict}


def _log(run_dir: pathlib.Path) -> str:
    """The kernel's log; '' of a run that has none."""
    try:
        return (run_dir / "log.txt").read_bytes().decode("utf-8", "replace").replace("\r", "")
    except FileNotFoundError:
        return ""


def _short(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]} ..."
