# SPDX-License-Identifier: GPL-2.0-only
"""Sources of modules: which files count, what makes them another module, what is refused."""
import json
import pathlib

import pytest

from kernel import compiling, modinfo, modules


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "Kbuild").write_text("obj-m := tcp_mine.o\n")
    (tmp_path / "tcp_mine.c").write_text("int x;\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "math.h").write_text("")
    return tmp_path


def test_what_a_build_leaves_is_no_source(folder):
    before = modules.digest_of(folder)
    for name in (
        "tcp_mine.ko",
        "tcp_mine.o",
        "tcp_mine.mod",
        "tcp_mine.mod.c",
        ".tcp_mine.o.cmd",
        "Module.symvers",
        "modules.order",
        "README.md",
    ):
        (folder / name).write_text("x")
    (folder / ".git").mkdir()
    (folder / ".git" / "index").write_text("x")
    assert modules.digest_of(folder) == before
    assert modules._files(folder) == [pathlib.Path(p) for p in ("Kbuild", "sub/math.h", "tcp_mine.c")]


def test_any_change_of_a_source_makes_another_module(folder):
    digests = {modules.digest_of(folder)}
    for change in (
        lambda: (folder / "tcp_mine.c").write_text("int y;\n"),
        lambda: (folder / "sub/math.h").write_text(" "),
        lambda: (folder / "sub/math.h").rename(folder / "math.h"),
        lambda: (folder / "new.c").write_text(""),
    ):
        change()
        digests.add(modules.digest_of(folder))
    assert len(digests) == 5


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda f: f / "nothing", "no such file or folder"),
        (lambda f: f / "sub", "neither a Kbuild nor a Makefile in it"),
        (lambda f: f / "Kbuild", "a .c file or a folder"),
    ],
)
def test_what_is_no_module(folder, spoil, message):
    with pytest.raises(modules.ModuleError, match=message):
        modules.digest_of(spoil(folder))


def test_a_folder_that_is_too_large(folder, monkeypatch):
    monkeypatch.setattr(modules, "_MOST_BYTES", 10)
    with pytest.raises(modules.ModuleError, match="is this the folder of a module"):
        modules.digest_of(folder)


@pytest.mark.parametrize(
    "name, safe",
    [
        ("tcp_mine.c", "tcp_mine"),
        ("my mine;v2.c", "my_mine_v2"),
        ("tcp_$(shell touch x).c", "tcp___shell_touch_x_"),
        ("7.c", "tcp_7"),
        ("#'\".c", "tcp____"),
        ("ü.c", "tcp__"),
        ("x" * 200 + ".c", "x" * 40),
    ],
)
def test_a_file_is_built_under_a_name_that_is_no_command_and_shown_under_its_own(tmp_path, name, safe):
    source, folder = tmp_path / name, tmp_path / "cache"
    source.write_text("int x;\n")
    folder.mkdir()
    assert modules._safe(source.stem) == safe
    modules._copy(source, modules._files(source), folder, safe)
    assert {path.name for path in folder.iterdir()} == {f"{safe}.c", "Kbuild"}
    assert (folder / "Kbuild").read_text() == f"obj-m := {safe}.o\n"
    shown = modules._readable(source, folder, safe)(f"{folder}/{safe}.c:3:1: error: no\n{folder}/{safe}.o")
    assert shown == f"{source}:3:1: error: no\n{tmp_path}/{safe}.o"


def test_of_what_make_says_the_compilers_words_are_shown():
    assert (
        compiling._words("make[1]: Entering directory '/k'\nx.c:3:1: error: no\nmake[2]: *** [x] Error 1\n")
        == "x.c:3:1: error: no"
    )
    assert "EXPORT_SYMBOL" in compiling._words('ERROR: modpost: "f" [x.ko] undefined!')
    assert compiling._words("w\n" * 5000).endswith(f"({5000 - 200} more lines)")


def test_a_damaged_record_of_a_module_is_none(tmp_path):
    whole = {"file": "x.ko", "source": "x.c", "sha256": "ab", "congestion_controls": ["x"], "warnings": ""}
    (tmp_path / "x.ko").write_text("")
    (tmp_path / "module.json").write_text(json.dumps(whole))
    assert modules._load(tmp_path, None).congestion_controls == ("x",)
    for damaged in (
        "",
        json.dumps(whole)[:-5],
        "[]",
        "null",
        "{}",
        json.dumps({**whole, "file": 3}),
        json.dumps({**whole, "file": "gone.ko"}),
        json.dumps({**whole, "congestion_controls": None}),
    ):
        (tmp_path / "module.json").write_text(damaged)
        assert modules._load(tmp_path, None) is None, damaged


def test_parameters_of_a_module(tmp_path):
    (tmp_path / "a.ko").write_bytes(b"\x7fELF\0license=GPL\0parm=b:what it is: this\0parmtype=b:int\0parm=a\0")
    assert modinfo.of_module(tmp_path / "a.ko") == {"a": "", "b": "what it is: this"}
