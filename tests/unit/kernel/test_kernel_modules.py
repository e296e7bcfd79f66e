# SPDX-License-Identifier: GPL-2.0-only
"""Sources of modules: which files count, what makes them another module, what is refused."""
import pathlib

import pytest

from kernel import modinfo, modules


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "Kbuild").write_text("obj-m := tcp_mine.o\n")
    (tmp_path / "tcp_mine.c").write_text("int x;\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "math.h").write_text("")
    return tmp_path


def test_what_a_build_leaves_is_no_source(folder):
    before = modules.digest_of(folder)
    for name in ("tcp_mine.ko", "tcp_mine.o", "tcp_mine.mod", "tcp_mine.mod.c", ".tcp_mine.o.cmd", "Module.symvers", "modules.order", "README.md"):
        (folder / name).write_text("x")
    (folder / ".git").mkdir()
    (folder / ".git" / "index").write_text("x")
    assert modules.digest_of(folder) == before
    assert modules._files(folder) == [pathlib.Path(p) for p in ("Kbuild", "sub/math.h", "tcp_mine.c")]


def test_any_change_of_a_source_makes_another_module(folder):
    digests = {modules.digest_of(folder)}
    for change in (lambda: (folder / "tcp_mine.c").write_text("int y;\n"), lambda: (folder / "sub/math.h").write_text(" "),
                   lambda: (folder / "sub/math.h").rename(folder / "math.h"), lambda: (folder / "new.c").write_text("")):
        change()
        digests.add(modules.digest_of(folder))
    assert len(digests) == 5


@pytest.mark.parametrize("spoil, message", [
    (lambda f: f / "nothing", "no such file or folder"), (lambda f: f / "sub", "neither a Kbuild nor a Makefile in it"),
    (lambda f: f / "Kbuild", "a .c file or a folder")])
def test_what_is_no_module(folder, spoil, message):
    with pytest.raises(modules.ModuleError, match=message):
        modules.digest_of(spoil(folder))


def test_a_folder_that_is_too_large(folder, monkeypatch):
    monkeypatch.setattr(modules, "_MOST_BYTES", 10)
    with pytest.raises(modules.ModuleError, match="is this the folder of a module"):
        modules.digest_of(folder)


def test_compiler_messages_have_the_users_paths(tmp_path):
    source = tmp_path / "tcp_mine.c"
    source.write_text("")
    said = "make[1]: Entering directory '/k'\n/cache/x/tcp_mine.c:3:1: error: no\nmake[2]: *** [x] Error 1\n"
    assert modules._readable(said, pathlib.Path("/cache/x"), source) == f"{source}:3:1: error: no"
    assert "EXPORT_SYMBOL" in modules._readable('ERROR: modpost: "f" [/cache/x/tcp_mine.ko] undefined!', pathlib.Path("/cache/x"), source)


def test_parameters_of_a_module(tmp_path):
    (tmp_path / "a.ko").write_bytes(b"\x7fELF\0license=GPL\0parm=b:what it is: this\0parmtype=b:int\0parm=a\0")
    assert modinfo.of_module(tmp_path / "a.ko") == {"a": "", "b": "what it is: this"}
