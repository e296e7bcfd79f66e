# SPDX-License-Identifier: GPL-2.0-only
"""Sources of modules with hostile names and hostile content: these meet a compiler, and some a kernel."""
from __future__ import annotations

import pathlib

from tests.hostile.case import SMALL, Case, Content

_GOOD = (pathlib.Path(__file__).resolve().parents[2] / "docs/examples/tcp_mine.c").read_text()


def _module(name: str, source: Content, says: str, path: str = "tcp_mine.c", code: int = 4, guest: bool = True) -> Case:
    return Case(f"module-{name}", ["run", "small.yaml", "--no-report", "--cca", f"./{path}"], code, says,
                {"small.yaml": SMALL, path: source}, guest=guest, after=_nothing_was_executed)


def _named(name: str, path: str) -> Case:
    """A strange name of a file that does not compile: the message is the compiler's, with that name."""
    return _module(f"name-{name}", "#error this one\n", "this one", path)


def _nothing_was_executed(work: pathlib.Path) -> None:
    assert not list(work.rglob("pwned")) and not (work.parent / "pwned").exists()
    assert not list(work.glob("*.ko")) and not list(work.glob(".*.cmd"))


CASES = [
    _named("semicolon", "tcp_x;touch pwned;.c"),
    _named("substitution", "tcp_$(touch pwned).c"),
    _named("backquotes", "tcp_`touch pwned`.c"),
    _named("make-variable", "tcp_$(shell touch pwned).c"),
    _named("quote", "tcp_'x.c"),
    _named("hash", "tcp_#x.c"),
    _named("unicode", "tcp_größe.c"),
    _named("hyphen", "-tcp.c"),
    _named("newline", "tcp_a\nb.c"),
    _named("long", "t" * 240 + ".c"),
    _module("empty", "", "tcp_mine|register|license"),
    _module("nothing-registered", '#include <linux/module.h>\nMODULE_LICENSE("GPL");\n', "regist"),
    _module("without-licence", _GOOD.replace('MODULE_LICENSE("GPL");', ""), "MODULE_LICENSE|license"),
    _module("binary", bytes(range(256)) * 10, r"tcp_mine\.c"),
    _module("endless-include", '#include "/dev/zero"\n', "compil|time|memory|/dev/zero|ended"),
    _module("includes-itself", '#include "tcp_mine.c"\n', "nested|depth|include"),
    _module("secret-include", '#include "/etc/shadow"\n', r"tcp_mine|shadow"),
    _module("macros", "#define A0 x x x x x x x x x x\n" + "".join(
        f"#define A{n} {' '.join([f'A{n - 1}'] * 10)}\n" for n in range(1, 7)) + "A6\n",
            "compil|time|memory|output|large|killed|limit"),
    _module("many-errors", "\n".join(f"int f{n}(void) {{ return x{n}; }}" for n in range(1000)), r"tcp_mine\.c"),
    Case("module-folder-without-kbuild", ["run", "small.yaml", "--no-report", "--cca", "./folder/"], 4,
         "neither a Kbuild nor",
         {"small.yaml": SMALL, "folder/tcp_mine.c": "int x;\n"}),
    *[_module(f"registers-{kind}", _GOOD.replace('"mine"', f'"{name}"'), "name|registers")
      for kind, name in {"up": "../../../zz", "empty": ""}.items()],
]
