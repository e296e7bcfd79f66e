# SPDX-License-Identifier: GPL-2.0-only
"""Builds of a tree that somebody edits: what is compiled again, and from what the first one begins. Toy trees, and make
with a toy Makefile."""
import json
import os
import subprocess
import types

import pytest

from kernel import build, configuration, make, patching, source, tree_copy
from kernel.source import KernelError
from tests.unit.kernel.toy_patch import NEW_FILE, ORIGINAL, PATCHED, add_patch
from tests.unit.testbed.test_history import commit, git

#: an object is a copy of its source, made when that is newer; the log has a line for each
MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 12
SOURCE ?= .
all: net/tcp.o net/other.o
net/tcp.o net/other.o: %.o: $(SOURCE)/%.c
\t@mkdir -p $(@D); cp $< $@; echo $@ >> compiled
"""


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "linux"
    (folder / "net").mkdir(parents=True)
    (folder / "Kbuild").write_text("")
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "net/tcp.c").write_text(ORIGINAL)
    (folder / "net/other.c").write_text("one\n")
    return folder


@pytest.fixture
def ensure(tmp_path, monkeypatch):
    """ensure(spec) -> the kernel; ensure.compiled(): what was compiled since this was asked last."""
    folder = tmp_path / "kernel"
    add_patch(folder / "patches", "0001-needed.patch")
    (folder / "uml.config").write_text("CONFIG_NET=y\n")
    monkeypatch.setattr(patching, "FOLDER", folder / "patches")
    monkeypatch.setattr(configuration, "CONFIG", folder / "uml.config")
    monkeypatch.setattr(source, "missing_tools", lambda: [])
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    compiled = []

    def compile_it(source_dir, target, report, hz, options):
        if "broken" in (source_dir / "net/other.c").read_text():
            raise KernelError("the kernel does not build")
        done = subprocess.run(["make", "-s", "-f", source_dir / "Makefile", f"SOURCE={source_dir}", "all"], cwd=target,
                              check=True, capture_output=True, text=True)
        assert not done.stderr
        (target / ".net.o.cmd").write_text(f"cc {source_dir}/net/tcp.c {target}/net/tcp.o")
        if (target / "compiled").exists():
            compiled.extend((target / "compiled").read_text().split())
            (target / "compiled").unlink()
        (target / "Makefile").write_text(f"include {source_dir}/Makefile\n")
        (target / "linux").write_text((target / "net/tcp.o").read_text() + (target / "net/other.o").read_text())
        (target / "linux").chmod(0o755)

    def describe(source_dir, target, hz, options):
        (target / "testbed.json").write_text(json.dumps({
            "release": "6.12.0-testbed", "congestion_controls": ["reno"], "features": [], "hz": hz,
            "options": list(options), "config_sha256": "0", "source_dir": str(source_dir)}))
    monkeypatch.setattr(make, "_build", compile_it)
    monkeypatch.setattr(make, "_describe", describe)

    def asked():
        found = sorted(compiled)
        compiled.clear()
        return found

    def run(spec, **options):
        return build.ensure(str(spec), run.said.append, **options)
    run.compiled, run.said = asked, []
    return run


def age(tree):
    """Make all files old, as those of a tree are that somebody has for a while."""
    for path in tree.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def test_only_what_was_edited_is_compiled_again(ensure, tree):
    first = ensure(tree)
    assert ensure.compiled() == ["net/other.o", "net/tcp.o"] and first.takes_modules
    assert first.program.read_text() == PATCHED + "one\n"
    (tree / "net/other.c").write_text("two\n")
    second = ensure(tree)
    assert ensure.compiled() == ["net/other.o"], "what patches changed has kept its time"
    assert second.program.read_text() == PATCHED + "two\n" and first.program.read_text() == PATCHED + "one\n"
    assert ensure(tree) == second and ensure.compiled() == []
    assert (tree / "net/tcp.c").read_text() == ORIGINAL


def test_an_old_file_put_back_is_compiled_again(ensure, tree, tmp_path):
    """cp -p and tar give files times that are older than any object."""
    age(tree)
    first = ensure(tree)
    (tree / "net/other.c").write_text("two\n")
    ensure(tree)
    (tree / "net/other.c").write_text("one\n")
    age(tree)
    ensure.compiled()
    again = ensure(tree)
    assert again.key == first.key and again.takes_modules and ensure.compiled() == ["net/other.o"]
    assert again.program.read_text() == PATCHED + "one\n"


def test_a_patched_file_that_is_edited(ensure, tree):
    ensure(tree)
    ensure.compiled()
    (tree / "net/tcp.c").write_text(ORIGINAL + "int more;\n")
    assert ensure(tree).program.read_text() == PATCHED + "int more;\none\n" and ensure.compiled() == ["net/tcp.o"]


def test_a_patch_that_is_gone_is_taken_back(ensure, tree):
    ensure(tree)
    add_patch(patching.FOLDER, "0002-more.patch", "--- a/net/other.c\n+++ b/net/other.c\n@@ -1 +1 @@\n-one\n+more\n")
    assert ensure(tree).program.read_text() == PATCHED + "more\n"
    (patching.FOLDER / "series").write_text("all  0001-needed.patch\n")
    ensure.compiled()
    assert ensure(tree).program.read_text() == PATCHED + "one\n" and ensure.compiled() == ["net/other.o"]


def test_the_first_build_begins_from_another_tree_of_that_version(ensure, tree, tmp_path):
    ensure(tree)
    ensure.compiled()
    other = tmp_path / "other"
    subprocess.run(["cp", "-r", tree, other], check=True)
    (other / "net/other.c").write_text("two\n")
    built = ensure(other)
    assert ensure.compiled() == ["net/other.o"] and built.program.read_text() == PATCHED + "two\n"
    assert built.build_dir != ensure(tree).build_dir
    (commands,) = [(built.build_dir / ".net.o.cmd").read_text()]
    assert commands == f"cc {built.source_dir}/net/tcp.c {built.build_dir}/net/tcp.o"
    (other / "Makefile").write_text(MAKEFILE.replace("12", "13"))
    subprocess.run(["cp", "-r", other, tmp_path / "newer"], check=True)
    ensure.compiled()
    ensure(tmp_path / "newer")
    assert ensure.compiled() == ["net/other.o", "net/tcp.o"], "another version is no base"


def test_a_work_folder_that_is_in_use_is_no_base(ensure, tree, tmp_path):
    first = ensure(tree)
    other = tmp_path / "other"
    subprocess.run(["cp", "-r", tree, other], check=True)
    ensure.compiled()
    with make.try_lock(first.build_dir.parent.name):
        ensure(other)
    assert ensure.compiled() == ["net/other.o", "net/tcp.o"]


def test_a_build_that_fails_is_no_kernel_and_the_next_goes_on(ensure, tree):
    first = ensure(tree)
    (tree / "net/other.c").write_text("broken\n")
    for _ in range(2):
        with pytest.raises(KernelError, match="does not build"):
            ensure(tree)
    assert not build.find(str(tree)) and first.program.exists()
    (tree / "net/other.c").write_text("two\n")
    ensure.compiled()
    assert ensure(tree).program.read_text() == PATCHED + "two\n" and ensure.compiled() == ["net/other.o"]


def test_patches_that_do_not_fit_name_the_tree(ensure, tree):
    (tree / "net/tcp.c").write_text("something else\n")
    with pytest.raises(KernelError, match=f"{tree}: 0001-needed.patch does not apply"):
        ensure(tree)
    (tree / "Makefile").write_text("all:\n")
    with pytest.raises(KernelError, match=f"{tree}: no kernel tree"):
        ensure(tree)


def test_options_have_work_folders_of_their_own(ensure, tree):
    add_patch(patching.FOLDER, "speed/0001-fast.patch", NEW_FILE)
    usual, stock = ensure(tree), ensure(tree, options=["stock"])
    assert usual.build_dir != stock.build_dir
    assert usual.takes_modules and build.find(str(tree)).takes_modules


def test_without_a_compiler_a_kernel_that_is_there_is_taken(ensure, tree, monkeypatch):
    first = ensure(tree)
    (tree / "net/other.c").write_text("two\n")
    ensure(tree)
    (tree / "net/other.c").write_text("one\n")
    os.utime(tree / "net/other.c", ns=(1, 1))
    again = ensure(tree)
    monkeypatch.setattr(source, "missing_tools", lambda: [("gcc", "gcc")])
    assert again.program.read_text() == first.program.read_text() and ensure(tree) == again


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


@pytest.fixture
def follow(tree, tmp_path):
    """follow() -> names of the files in the copy."""
    def run(anew=()):
        tree_copy.follow(tree, run.copy, tmp_path / "record.json", anew)
        return names(run.copy)
    run.copy = tmp_path / "copy"
    return run


ALL = ["Kbuild", "Makefile", "net/other.c", "net/tcp.c"]


def test_a_copy_follows_what_is_added_removed_and_renamed(follow, tree):
    assert follow() == ALL
    (tree / "net/new.c").write_text("")
    (tree / "net/link.c").symlink_to("tcp.c")
    (tree / "net/folder").symlink_to("..")
    (tree / "net/other.c").unlink()
    assert follow() == ["Kbuild", "Makefile", "net/folder", "net/link.c", "net/new.c", "net/tcp.c"]
    assert os.readlink(follow.copy / "net/link.c") == "tcp.c" and os.readlink(follow.copy / "net/folder") == ".."
    (tree / "net").rename(tree / "netz")
    (tree / "netz/folder").unlink()
    assert follow() == ["Kbuild", "Makefile", "netz/link.c", "netz/new.c", "netz/tcp.c"]
    assert not (follow.copy / "net").exists()


def test_what_no_guest_kernel_is_built_from_is_left_out(follow, tree):
    for name in ("drivers/gpu/drm/x.c", "drivers/gpu/Kconfig", "net/tcp.o", "net/.tcp.o.cmd", ".git/HEAD"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    (tree / ".git/HEAD").unlink()
    (tree / ".git").rmdir()
    assert follow() == sorted([*ALL, "drivers/gpu/Kconfig"])
    assert (tree / "net/tcp.o").exists()


def test_a_tree_that_was_built_in_place_is_cleaned_in_the_copy(follow, tree, monkeypatch):
    said = []
    monkeypatch.setattr(source, "make_target", lambda *words: said.append(words))
    (tree / ".config").write_text("")
    (tree / "include/generated").mkdir(parents=True)
    (tree / "include/generated/x.h").write_text("")
    assert follow() == ALL and said == [(follow.copy, "mrproper")]


def test_of_a_git_tree_goes_what_git_has_and_what_is_new(follow, tree):
    git(tree, "init", "-q", "-b", "main")
    commit(tree, "first", **{".gitignore": "*.lex.c\n"})
    (tree / "net/new.c").write_text("")
    (tree / "net/made.lex.c").write_text("")
    assert follow() == sorted([".gitignore", *ALL, "net/new.c"])
    (tree / "net/tcp.c").unlink()
    assert "net/tcp.c" not in follow()


def test_a_git_tree_that_ignores_the_kernel(follow, tree):
    """So does Debian's source, which people put into a repository."""
    (tree / ".gitignore").write_text("/*\n")
    git(tree, "init", "-q", "-b", "main")
    assert follow() == sorted([".gitignore", *ALL])


def test_what_is_the_same_keeps_its_time(follow, tree):
    follow()
    times = {name: (follow.copy / name).stat().st_mtime_ns for name in ALL}
    (tree / "net/other.c").write_text("two\n")
    os.utime(tree / "net/tcp.c")
    follow(["net/tcp.c"])
    changed = {name for name in ALL if (follow.copy / name).stat().st_mtime_ns != times[name]}
    assert changed == {"net/other.c"}


def test_paths_that_patches_changed_are_copied_anew(follow, tree):
    follow()
    (follow.copy / "net/tcp.c").write_text(PATCHED)
    follow()
    assert (follow.copy / "net/tcp.c").read_text() == PATCHED
    follow(["net/tcp.c"])
    assert (follow.copy / "net/tcp.c").read_text() == ORIGINAL


@pytest.mark.parametrize("text", ["", "[]", "{\"a\": 1}", "{", "null"])
def test_a_damaged_record_is_no_record(follow, tree, tmp_path, text):
    follow()
    (tmp_path / "record.json").write_text(text)
    (tree / "net/other.c").write_text("two\n")
    assert follow() == ALL and (follow.copy / "net/other.c").read_text() == "two\n"


def test_locks_of_different_names_do_not_wait(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path))
    said = types.SimpleNamespace(lines=[])
    with make.lock(said.lines.append, "one"):
        with make.lock(said.lines.append, "two"):
            assert said.lines == [] and make.try_lock("one") is None
    held = make.try_lock("one")
    assert held is not None
    held.close()
