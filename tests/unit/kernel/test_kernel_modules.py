# SPDX-License-Identifier: GPL-2.0-only
"""Sources of modules: which files count, what makes them another module, what is refused."""
import json
import pathlib
import re
import subprocess
import types

import pytest

from kernel import api_changes, built_files, compiling, includes, modinfo, modules, source_lines, trial


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
    assert modules.sources(folder) == [pathlib.Path(p) for p in ("Kbuild", "sub/math.h", "tcp_mine.c")]


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
    modules._copy(source, modules.sources(source), folder)
    assert {path.name for path in folder.iterdir()} == {f"{safe}.c", "Kbuild"}
    assert (folder / "Kbuild").read_text() == f"obj-m := {safe}.o\n"
    shown = modules._readable(source, folder)(f"{folder}/{safe}.c:3:1: error: no\n{folder}/{safe}.o")
    assert shown == f"{source}:3:1: error: no\n{tmp_path}/{safe}.o"


def test_of_what_make_says_the_compilers_words_are_shown():
    assert (
        compiling._words("make[1]: Entering directory '/k'\nx.c:3:1: error: no\nmake[2]: *** [x] Error 1\n")
        == "x.c:3:1: error: no"
    )
    assert "EXPORT_SYMBOL" in compiling._words('ERROR: modpost: "f" [x.ko] undefined!')
    assert compiling._words("w\n" * 5000).endswith(f"({5000 - 200} more lines)")


def test_a_damaged_record_of_a_module_is_none(tmp_path):
    part = {"file": "x.ko", "congestion_controls": ["x"], "needs": []}
    whole = {"parts": [part], "source": "x.c", "sha256": "ab", "warnings": "", "renamed": {}}
    (tmp_path / "x.ko").write_text("")
    (tmp_path / "module.json").write_text(json.dumps(whole))
    assert modules._load(tmp_path, None).congestion_controls == ("x",)
    for damaged in (
        "",
        json.dumps(whole)[:-5],
        "[]",
        "null",
        "{}",
        json.dumps({**whole, "parts": []}),
        json.dumps({**whole, "renamed": 3}),
        json.dumps({**whole, "parts": [{**part, "file": 3}]}),
        json.dumps({**whole, "parts": [{**part, "file": "gone.ko"}]}),
        json.dumps({**whole, "parts": [{**part, "congestion_controls": None}]}),
    ):
        (tmp_path / "module.json").write_text(damaged)
        assert modules._load(tmp_path, None) is None, damaged


def test_parameters_of_a_module(tmp_path):
    (tmp_path / "a.ko").write_bytes(b"\x7fELF\0license=GPL\0parm=b:what it is: this\0parmtype=b:int\0parm=a\0")
    assert modinfo.of_module(tmp_path / "a.ko") == {"a": "", "b": "what it is: this"}


def test_what_a_file_includes_from_its_folder_belongs_to_its_sources(tmp_path):
    (tmp_path / "mine/sub").mkdir(parents=True)
    source = tmp_path / "mine/tcp_mine.c"
    source.write_text('#include <net/tcp.h>\n#include "x.h"\n # include "sub/y.h"\n#include "../secret.h"\n'
                      '#include "/etc/passwd"\n#include "link.h"\n#include "gone.h"\n#include "tcp_mine.c"\n')
    (tmp_path / "mine/x.h").write_text("#define X 1\n")
    (tmp_path / "mine/sub/y.h").write_text('#include "../z.h"\n#include "y.h"\n')
    (tmp_path / "mine/z.h").write_text("")
    (tmp_path / "mine/other.h").write_text("")
    (tmp_path / "secret.h").write_text("")
    (tmp_path / "mine/link.h").symlink_to(tmp_path / "secret.h")
    wanted = ["tcp_mine.c", "sub/y.h", "x.h", "z.h"]
    assert list(map(str, modules.sources(source))) == wanted
    (tmp_path / "copy").mkdir()
    modules._copy(source, modules.sources(source), tmp_path / "copy")
    assert {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*.[ch]")} == set(wanted)
    before = modules.digest_of(source)
    (tmp_path / "mine/other.h").write_text("not of it")
    assert modules.digest_of(source) == before
    (tmp_path / "mine/z.h").write_text("of it")
    assert modules.digest_of(source) != before


@pytest.mark.parametrize("most, message", [("_MOST_BYTES", "it and what it includes have more than"),
                                           ("_MOST_FILES", "it includes more than 1 files of its folder")])
def test_includes_without_end(tmp_path, monkeypatch, most, message):
    (tmp_path / "tcp_mine.c").write_text('#include "a.h"\n')
    (tmp_path / "a.h").write_text('#include "b.h"\n' + " " * 100)
    (tmp_path / "b.h").write_text("")
    monkeypatch.setattr(includes if most == "_MOST_FILES" else modules, most, 1 if most == "_MOST_FILES" else 99)
    with pytest.raises(modules.ModuleError, match=message):
        modules.sources(tmp_path / "tcp_mine.c")


def _parts(*parts):
    return modules.Module(tuple(modules.Part(name, pathlib.Path(f"{name}.ko"), ccas, needs)
                                for name, ccas, needs in parts), "folder", "ab")


def test_a_congestion_control_is_loaded_with_what_it_needs_and_nothing_else():
    module = _parts(("a", (), ()), ("b", (), ("a",)), ("tcp_one", ("one",), ("b",)), ("tcp_two", ("Two", "three"), ()))
    assert module.congestion_controls == ("one", "Two", "three") and module.name == "tcp_one"
    assert [part.name for part in module.loaded_for("one")] == ["a", "b", "tcp_one"]
    assert [part.name for part in module.loaded_for("three")] == ["tcp_two"] == [module.part_name("Two")]


OPS = """
struct ops { unsigned key; char name[16]; void *owner; };
struct ops first = {.name = "cubic"}, second __attribute__((section(".data..read_mostly"))) = {.name = NAME};
const char other[16] = "cubic", longer[16] = "not cubic";
char depends[] __attribute__((section(".modinfo"))) = "license=GPL\\0depends=tcp_lib,mptcp-x";
struct { char state[24], name[56]; } this __attribute__((section(".gnu.linkonce.this_module"))) = {.name = "tcp_cubic"};
"""


@pytest.fixture
def ops(tmp_path):
    """An object file with structures such as those of a module, as the compiler makes it."""
    def made(name):
        (tmp_path / "ops.c").write_text(OPS)
        subprocess.run(["gcc", "-c", f"-DNAME=\"{name}\"", "-o", tmp_path / "tcp_cubic.ko", tmp_path / "ops.c"],
                       check=True)
        return tmp_path / "tcp_cubic.ko"
    return made


def test_a_taken_name_is_changed_in_the_built_module(ops):
    file = ops("dubic")
    before = file.read_bytes()
    built_files.rename_congestion_control(file, "cubic", "cubic_2")
    after = file.read_bytes()
    changed = [at for at, (old, new) in enumerate(zip(before, after)) if old != new]
    assert len(before) == len(after) and bytes(after[at] for at in changed) == b"_2"
    assert after.count(b"cubic_2".ljust(16, b"\0")) == 1 and after.count(b"\0dubic\0") == 1


def test_a_name_that_is_not_there_once_is_not_changed(ops):
    file = ops("cubic")
    for content, message in ((file.read_bytes(), "'cubic' is 2 times"), (ops("x").read_bytes()[:200], "no ELF file"),
                             (b"\x7fELF\x02\x01", "no ELF file"), (b"", "no ELF file")):
        file.write_bytes(content)
        with pytest.raises(built_files.NotFound, match=message):
            built_files.rename_congestion_control(file, "cubic", "cubic_2")
        assert file.read_bytes() == content


def test_a_module_gets_another_name_of_its_own(ops):
    file = built_files.rename_module(ops("x"), "tcp_cubic_given")
    assert file.name == "tcp_cubic_given.ko" and not file.with_name("tcp_cubic.ko").exists()
    assert file.read_bytes().count(b"tcp_cubic_given".ljust(56, b"\0")) == 1
    assert built_files.needs(file) == ["tcp_lib", "mptcp-x"]


def test_modules_come_after_those_that_they_need(tmp_path):
    for name, needs in {"a": "c,built_in", "b": "", "c": "d", "d": ""}.items():
        (tmp_path / f"{name}.ko").write_bytes(f"\0depends={needs}\0".encode())
    files = built_files.in_order(sorted(tmp_path.glob("*.ko"), reverse=True))
    assert "".join(file.stem for file in files) in ("bdca", "dcab", "dbca", "dcba")


def _names(*answers):
    """A trial that answers so, one after another: names, or a name that is taken."""
    left = list(answers)

    def load(files):
        answer = left.pop(0)
        if isinstance(answer, str):
            raise trial.TakenName(files[0], answer, f": registers {answer}, which the kernel has already")
        return answer
    return load


def test_names_are_tried_until_one_is_free(ops):
    parts, renamed = modules._tried([ops("x")], _names("cubic", "cubic_2", [["cubic_3"]]))
    assert renamed == {"cubic_3": "cubic"} and parts[0].congestion_controls == ("cubic_3",)
    assert b"cubic_3\0" in parts[0].file.read_bytes()
    with pytest.raises(trial.TrialError, match="registers cubic_9, which the kernel has already$"):
        modules._tried([ops("x")], _names("cubic", *(f"cubic_{number}" for number in range(2, 10))))
    with pytest.raises(trial.TrialError, match=r"registers cubic, .* \('cubic' is 2 times in its data\)"):
        modules._tried([ops("cubic")], _names("cubic"))


WARNINGS = """\
/c/.new-1/t.c: In function 'x_acked':
/c/.new-1/t.c:20:18: warning: array subscript 'struct big[0]' is partly outside array bounds of 'unsigned char[104]' \
[-Warray-bounds]
   20 |         b->last[b->n++ % 16] = s->rtt_us;
/c/.new-1/t.c:18:25: note: object of size 104 allocated by 'testbed_private_state'
"""


@pytest.mark.parametrize("text, words", [
    (WARNINGS, "/c/.new-1/t.c:20:18: struct big is larger than the 104 bytes of a congestion control's state"),
    ("t.c:14:9: warning: 'memset' forming offset [104, 119] is out of the bounds [0, 104] [-Warray-bounds]\n",
     "t.c:14:9: more is used than the 104 bytes"),
    ("t.c:14:9: warning: 'memset' writing 136 bytes into a region of size 104 overflows the destination "
     "[-Wstringop-overflow=]\n", "t.c:14:9: more is used than the 104 bytes"),
    ("t.c:1:1: warning: array subscript 5 is outside array bounds of 'int[4]' [-Warray-bounds]\n", None),
    ("t.c:1:1: warning: unused variable 'x' [-Wunused-variable]\n", None)])
def test_state_beyond_a_sockets_room_is_found_in_what_the_compiler_says(tmp_path, text, words):
    header = tmp_path / "include/net/inet_connection_sock.h"
    header.parent.mkdir(parents=True)
    header.write_text("\tu64\t\t\t  icsk_ca_priv[104 / sizeof(u64)];\n")
    found = compiling._beyond(types.SimpleNamespace(make_reads=lambda: [tmp_path]), text)
    assert found is None if words is None else found.startswith(words)


@pytest.mark.parametrize("words, advice", [
    ("x.c:9:3: error: initialization of 'void (*)(struct sock *, u32,  int,  const struct rate_sample *)' {aka 'void "
     "(*)(struct sock *, unsigned int,  int,  const struct rate_sample *)'} from incompatible pointer type 'void (*)("
     "struct sock *, const struct rate_sample *)' [-Werror=incompatible-pointer-types]",
     "since Linux 6.10: cong_control takes"),
    ("error: initialization of 'void (*)(struct sock *, const struct ack_sample *)' from incompatible pointer type "
     "'void (*)(struct sock *, u32,  s32)'", "since Linux 4.7: pkts_acked takes"),
    ("x.c:3:7: error: implicit declaration of function 'prandom_u32_max' [-Werror=implicit-function-declaration]",
     "since Linux 6.2: get_random_u32_below(n) (or run it with --kernel 6.1)"),
    ("error: implicit declaration of function \u2018tcp_tso_autosize\u2019; did you mean", "since Linux 4.16: "),
    ("error: 'struct tcp_congestion_ops' has no member named 'tso_segs_goal'", "since Linux 4.16: `.min_tso_segs`"),
    ("error: 'tcp_time_stamp' undeclared (first use in this function)", "since Linux 6.7: tcp_jiffies32"),
    ('ERROR: modpost: "__floatunsidf" [/x/tcp_x.ko] undefined!', "a kernel has no floating point"),
    ('ERROR: modpost: "tcp_enter_loss" [/x/tcp_x.ko] undefined!', None),
    ("error: 'my_time_stamp' undeclared", None)])
def test_advice_where_the_kernels_interface_has_changed(words, advice):
    found = api_changes.advice(words)
    assert [line.startswith(advice) for line in found] == [True] if advice else found == []


def test_lines_of_source_of_a_place(tmp_path):
    source = tmp_path / ".new-x" / "sub" / "tcp_mine.c"
    source.parent.mkdir(parents=True)
    source.write_text("int twice(int x)\n{\n\treturn x +\n\t\tx;\n}\n\n"
                      "int divided(int x, int y)\n{\n\treturn x / y;\n}\n")
    file = tmp_path / "tcp_mine.debug"
    subprocess.run(["gcc", "-g", "-O1", "-c", "-o", file, source], check=True)
    said = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=divided", file], check=True,
                          capture_output=True, text=True).stdout
    start = int(re.search(r"^([0-9a-f]+) <divided>", said, re.M)[1], 16)
    division = int(re.search(r"^ *([0-9a-f]+):\s+idiv", said, re.M)[1], 16)
    lines = source_lines.Lines({"tcp_mine": file, "tcp_gone": tmp_path / "gone"})
    assert lines(f"divided+{division - start:#x}/0x20 [tcp_mine]") == " (sub/tcp_mine.c:9)"
    assert lines(f".text+{division:#x}/0x0 [tcp_mine]") == " (divided, sub/tcp_mine.c:9)"
    for unknown in ("divided+0x1/0x20", "other+0x1/0x20 [tcp_mine]", "divided+0x1/0x20 [tcp_gone]", "x [y]"):
        assert lines(unknown) == ""
