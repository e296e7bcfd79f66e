# SPDX-License-Identifier: GPL-2.0-only
"""The first process of a run on the running kernel: SIGTERM ends it in order, or else after a while."""
import subprocess
import sys

import pytest

from testbed import PROJECT_DIR

_BEGIN = f"""
import signal, sys, time
sys.path[:0] = [{str(PROJECT_DIR)!r}]
from testbed.engines.host import enter
enter._PATIENCE_S = 1
signal.signal(signal.SIGTERM, enter._end)
"""
_IN_ORDER = """
try:
    signal.raise_signal(signal.SIGTERM)
finally:
    signal.raise_signal(signal.SIGTERM)         # of the parent's end, after the parent's own
    print("cleaned")
"""
_TOO_LONG = """
try:
    signal.raise_signal(signal.SIGTERM)
finally:
    time.sleep(60)
    print("cleaned")
"""
_LOST = """
class Lost:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
Lost()
time.sleep(60)
print("cleaned")
"""


@pytest.mark.parametrize("program, cleaned, complaint", [
    (_IN_ORDER, "cleaned\n", "ended by SIGTERM\n"), (_TOO_LONG, "", ""), (_LOST, "", "Exception ignored")])
def test_sigterm(program, cleaned, complaint):
    done = subprocess.run([sys.executable, "-c", _BEGIN + program], capture_output=True, text=True, timeout=50)
    assert done.returncode == 1 and done.stdout == cleaned
    assert done.stderr.startswith(complaint)
