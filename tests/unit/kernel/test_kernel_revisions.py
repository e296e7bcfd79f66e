# SPDX-License-Identifier: GPL-2.0-only
"""Kernels of revisions, one from what the one before left: toy trees and a toy compiler, no kernel."""
import json

import pytest

from kernel import build, configuration, make, modules, patching, revisions
from kernel.source import KernelError
from testbed.runs.git_history import History
from tests.unit.kernel.toy_patch import ORIGINAL, PATCHED, add_patch
from tests.unit.testbed.test_history import commit, git

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 12\n"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """.tree: a git tree with two revisions of a kernel; .build(revision), .compiled: [(what net/tcp.c said, what the
    build folder had before)]."""
    folder = tmp_path / "kernel"
    add_patch(folder / "patches", "0001-needed.patch")
    (folder / "uml.config").write_text("CONFIG_NET=y\n")
    monkeypatch.setattr(patching, "FOLDER", folder / "patches")
    monkeypatch.setattr(configuration, "CONFIG", folder / "uml.config")
    monkeypatch.setattr(revisions, "missing_tools", lambda: [])
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    tree = tmp_path / "linux"
    (tree / "net").mkdir(parents=True)
    git(tree, "init", "-q", "-b", "main")
    commit(tree, "first", Makefile=MAKEFILE, other="1", **{"net/tcp.c": ORIGINAL})
    commit(tree, "second", other="2")

    def compile_it(source, target, report, hz, options):
        target.mkdir(parents=True, exist_ok=True)
        if (source / "other").read_text() == "broken":
            raise KernelError("the kernel does not build; error: broken")
        Made.compiled.append(((source / "net/tcp.c").read_text(), sorted(path.name for path in target.iterdir())))
        (target / "linux").write_text((source / "other").read_text())
        (target / "linux").chmod(0o755)
        (target / "System.map").write_text("map")
        (target / "object.o").write_text("large")
        (target / ".config").write_text("CONFIG_NET=y\n")

    def describe(source, target, hz, options):
        (target / "testbed.json").write_text(json.dumps({
            "release": "6.12.0-testbed", "congestion_controls": ["reno"], "features": [], "hz": hz,
            "options": list(options), "config_sha256": "0", "source_dir": str(source)}))
    monkeypatch.setattr(make, "_build", compile_it)
    monkeypatch.setattr(make, "_describe", describe)

    class Made:
        compiled = []
        work = tmp_path / "work"
        history = History(tree, tmp_path / "work")

        def build(self, revision, options=()):
            one = self.history.resolve("--good", revision)
            return revisions.build(one.hash, lambda where: self.history.check_out(one, where), self.work,
                                   lambda text: None, options=options)
    Made.tree = tree
    return Made()


def test_a_build_goes_on_from_the_one_before(made):
    first, second = made.build("main~1"), made.build("main")
    assert made.compiled[0] == (PATCHED, []) and made.compiled[1][0] == PATCHED and "object.o" in made.compiled[1][1]
    assert first.key != second.key and first.key.startswith("commit-") and second.build_dir == made.work / "build"
    for built, text in ((first, "1"), (second, "2")):
        assert built.program.read_text() == text and built.program.parent.name == built.key
        assert sorted(path.name for path in built.program.parent.iterdir()) == [
            ".config", "System.map", "linux", "testbed.json"]
    assert git(made.tree, "status", "--porcelain") == ""


def test_what_was_built_is_found_by_its_commit_and_by_its_key(made):
    first = made.build("main~1")
    hash_of = made.history.resolve("--good", "main~1").hash
    assert revisions.find(hash_of, (6, 12)).key == first.key == build.ensure(f"build:{first.key}").key
    assert revisions.find(hash_of, (6, 12), hz=250) is None
    assert build.find(f"build:{first.key}").source == f"commit {hash_of[:16]}"


def test_a_stock_kernel_of_a_revision(made):
    add_patch(patching.FOLDER, "speed/0001-fast.patch", "--- /dev/null\n+++ b/fast\n@@ -0,0 +1 @@\n+fast\n")
    made.build("main~1")
    assert (made.work / "tree/fast").exists()
    made.build("main~1", ["stock"])
    assert not (made.work / "tree/fast").exists() and made.compiled[1][0] == PATCHED


def test_modules_are_built_only_while_the_work_tree_is_at_the_commit(made):
    """Else they would be compiled for another kernel without anybody noticing."""
    first = made.build("main~1")
    assert build.find(f"build:{first.key}").build_dir == made.work / "build"
    made.build("main")
    left = build.find(f"build:{first.key}")
    assert left.build_dir == first.program.parent and not left.takes_modules
    (made.tree / "tcp_mine.c").write_text("int x;\n")
    with pytest.raises(modules.ModuleError, match=f"cannot be compiled for the kernel {first.key}: its tree"):
        modules.build_for(left, made.tree / "tcp_mine.c", print, lambda files: [])


def test_other_kernels_of_the_cache_have_names_too(made):
    first = made.build("main~1")
    name = "debian-6.12-6.12.117-1~deb12u1+b1-0123456789ab"
    first.program.parent.rename(first.program.parents[1] / name)
    found = build.find(f"build:{name}")
    assert found.key == found.source == name and found.release == first.release


def test_after_one_that_does_not_build_nothing_is_taken_for_it(made):
    first = made.build("main~1")
    commit(made.tree, "third", other="broken")
    made.history = History(made.tree, made.work)
    with pytest.raises(KernelError, match="error: broken"):
        made.build("main")
    assert build.find(f"build:{first.key}").build_dir == first.program.parent
    assert not list(first.program.parents[1].glob("*.part")) and len(list(first.program.parents[1].iterdir())) == 1


def test_a_revision_that_the_patches_do_not_fit(made):
    commit(made.tree, "third", **{"net/tcp.c": "something else\n"})
    made.history = History(made.tree, made.work)
    with pytest.raises(KernelError, match="does not apply"):
        made.build("main")


def test_a_revision_that_is_no_kernel(made):
    commit(made.tree, "third", Makefile="all:\n")
    made.history = History(made.tree, made.work)
    with pytest.raises(KernelError, match="no kernel tree"):
        made.build("main")


@pytest.mark.parametrize("key", ["", "../../etc", "commit-0123456789abcdef-0123456789ab", "debian-6.12",
                                 "../x-0123456789ab", "x-0123456789ab.part"])
def test_keys_of_nothing(made, key):
    assert build.find(f"build:{key}") is None
    with pytest.raises(KernelError, match="no such build"):
        build.ensure(f"build:{key}")
