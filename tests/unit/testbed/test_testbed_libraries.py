# SPDX-License-Identifier: GPL-2.0-only
"""A compiler that is missing, fails or lies: one line each, and no library that cannot be loaded."""
import shutil

import pytest

from testbed.core import c_libraries
from testbed.core.errors import UsageError
from testbed.runs import code_bundle
from traffic.replay import core_loop

LYING = "what gcc made cannot be loaded: "
NAMES = (c_libraries.PRELOAD, c_libraries.RANDOM_DEVICE, c_libraries.TMIX_CORE)
CALLED = ("use_virtual_clock", "_ZNSt13random_device9_M_getvalEv", "tmix_run")
GCC = "/usr/bin/gcc -shared -fPIC -x c - -o library.so <<'END'\n%s\nEND\n"


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """say(script) makes that the gcc; returns what is made with it, and why the rest is not."""
    def say(script):
        (tmp_path / "gcc").write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / "gcc").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return c_libraries.make(code_bundle._contents())
    return say


@pytest.mark.parametrize("script, why", [
    ("echo garbage > library.so", f"{LYING}file too short"), (": > library.so", f"{LYING}file too short"),
    ("exit 0", "gcc said nothing and made nothing"), ("exit 3", "gcc: exit code 3"),
    ("kill -11 $$", "gcc: ended by SIGSEGV"),
    ("echo one; echo x.h: error: no such file >&2; exit 1", "x.h: error: no such file"),
    ('/usr/bin/gcc "$@" && truncate -s 5000 library.so', f"{LYING}ended by SIGBUS"),
    (GCC % "int nowhere(void); int tmix_run(void) { return nowhere(); }", f"{LYING}undefined symbol: nowhere")])
def test_a_compiler_that_fails_or_lies(compiler, script, why):
    assert compiler(script) == ({}, dict.fromkeys(NAMES, why))


def test_a_library_without_what_is_called_in_it(compiler):
    assert compiler(GCC % "int x;") == ({}, {
        name: f"{LYING}undefined symbol: {symbol}"
        for name, symbol in zip(NAMES, CALLED)})


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert c_libraries.make(code_bundle._contents()) == ({}, dict.fromkeys(NAMES, "there is no gcc in PATH"))


def test_a_compiler_that_does_not_end(compiler, monkeypatch):
    monkeypatch.setattr(c_libraries, "_PATIENCE_S", 0.2)
    assert compiler("exec sleep 60") == ({}, dict.fromkeys(NAMES, "gcc: no end after 0.2 s"))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_the_usual_one():
    made, missing = c_libraries.make(code_bundle._contents())
    assert set(made) == set(NAMES) and not missing


@pytest.mark.parametrize("value", ["0", "NO", "false"])
def test_an_odd_choice(monkeypatch, value):
    monkeypatch.setenv("TESTBED_COMPILED", value)
    with pytest.raises(UsageError, match=f"^TESTBED_COMPILED={value}: yes or no$"):
        c_libraries.wanted()


def test_a_library_that_does_not_load_inside_is_no_reason_for_epoll(tmp_path):
    (tmp_path / "core.so").write_bytes(b"")
    with pytest.raises(ImportError, match="core.so: file too short"):
        core_loop.CoreLoop([], "", str(tmp_path / "core.so"))
