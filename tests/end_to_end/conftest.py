# SPDX-License-Identifier: GPL-2.0-only
import os
import signal

import pytest

from tests.end_to_end.command_line import CommandLine


@pytest.fixture
def testbed(tmp_path):
    command_line = CommandLine(tmp_path)
    yield command_line
    for pid, _ in command_line.processes():
        os.kill(pid, signal.SIGKILL)
