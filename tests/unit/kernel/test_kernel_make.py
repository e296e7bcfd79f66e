# SPDX-License-Identifier: GPL-2.0-only
"""Builds of kernels: what is said of one that fails. A toy make, no kernel."""
import re

import pytest

from kernel import make
from kernel.source import KernelError


def test_the_first_line_has_the_compilers_error(tmp_path, monkeypatch):
    """`bisect` shows that line of each revision that it skips."""
    program = tmp_path / "make.sh"
    program.write_text("case $1 in allnoconfig) exit 0;; esac\n"
                       "echo '  CC      net/error.o'\necho 'net/x.c:3:1: error: expected ;'\nexit 2\n")
    monkeypatch.setattr(make, "make_command", lambda *_: ["sh", str(program)])
    monkeypatch.setattr(make.configuration, "check", lambda *_: None)
    with pytest.raises(KernelError) as raised:
        make._build(tmp_path, tmp_path, print)
    assert re.match(r"the kernel does not build: net/x.c:3:1: error: expected ;; the log is .*build.log\n",
                    str(raised.value))
