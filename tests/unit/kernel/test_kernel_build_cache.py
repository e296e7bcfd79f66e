# SPDX-License-Identifier: GPL-2.0-only
"""Building: patches, configuration, cache. Toy trees and fake compilers, no kernel."""
import json
import os
import shutil

import pytest

from kernel import build, source
from kernel.source import KernelError

needs_patch = pytest.mark.skipif(not shutil.which("patch"), reason="patch is not installed")

PATCH = """\
--- a/net/tcp.c
+++ b/net/tcp.c
@@ -1,3 +1,3 @@
 int first;
-int cwnd = 10;
+int cwnd = 4;
 int last;
"""
ORIGINAL = "int first;\nint cwnd = 10;\nint last;\n"
PATCHED = ORIGINAL.replace("10", "4")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A kernel/ folder of the test's own: its configuration and patches."""
    folder = tmp_path / "kernel"
    (folder / "patches" / "speed").mkdir(parents=True)
    (folder / "uml.config").write_text("CONFIG_NET=y\n")
    (folder / "patches" / "0001-needed.patch").write_text(PATCH)
    monkeypatch.setattr(build, "_HERE", folder)
    monkeypatch.setattr(build, "_CONFIG", folder / "uml.config")
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "linux"
    (folder / "net").mkdir(parents=True)
    (folder / "Kbuild").write_text("")
    (folder / "net" / "tcp.c").write_text(ORIGINAL)
    return folder


def compiler(folder, monkeypatch, version):
    folder.mkdir(exist_ok=True)
    (folder / "gcc").write_text(f"#!/bin/sh\necho {version}\n")
    (folder / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@needs_patch
def test_patches_are_applied(here, tree):
    said = []
    build._patch(tree, said.append)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and said == []
    assert sorted(p.name for p in tree.rglob("*")) == ["Kbuild", "net", "tcp.c"], "no .orig or .rej files"


@needs_patch
@pytest.mark.parametrize("content", ["int first;\nint window = 10;\nint last;\n", ""])
def test_a_patch_that_does_not_fit_is_refused_and_changes_nothing(here, tree, content):
    (tree / "net" / "tcp.c").write_text(content)
    with pytest.raises(KernelError, match="0001-needed.patch does not apply to this kernel"):
        build._patch(tree, lambda text: None)
    assert (tree / "net" / "tcp.c").read_text() == content
    assert sorted(p.name for p in tree.rglob("*")) == ["Kbuild", "net", "tcp.c"]


@needs_patch
def test_a_tree_that_has_a_patch_already_is_taken_as_it_is(here, tree):
    (here / "patches" / "speed" / "0001-same.patch").write_text(PATCH)
    (tree / "net" / "tcp.c").write_text(PATCHED)
    said = []
    build._patch(tree, said.append)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and said == []


@needs_patch
def test_a_patch_for_speed_is_left_out_where_it_does_not_fit(here, tree):
    (here / "patches" / "speed" / "0001-misfit.patch").write_text(PATCH.replace("cwnd", "window"))
    (here / "patches" / "speed" / "0002-fits.patch").write_text(
        "--- /dev/null\n+++ b/net/fast.c\n@@ -0,0 +1 @@\n+int fast;\n")
    said = []
    build._patch(tree, said.append)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and (tree / "net" / "fast.c").read_text() == "int fast;\n"
    assert said == ["0001-misfit.patch does not apply to this kernel: built without it, runs will be slower"]


def test_the_projects_own_patches_are_well_formed():
    folder = build.pathlib.Path(build.__file__).parent / "patches"
    patches = list(folder.rglob("*.patch"))
    assert patches
    for patch in patches:
        lines = patch.read_text().splitlines()
        targets = [line for line in lines if line.startswith("+++ ")]
        assert targets and all(line.startswith("+++ b/") for line in targets), patch.name


def test_a_build_is_known_by_source_configuration_patches_and_compiler(here, tmp_path, monkeypatch):
    compiler(tmp_path / "gcc12", monkeypatch, "12.2.0")
    keys = [build._build_dir("tree-1")]
    assert build._build_dir("tree-1") == keys[0] and keys[0].parent == tmp_path / "cache" / "kernels"
    keys.append(build._build_dir("tree-2"))
    (here / "uml.config").write_text("CONFIG_NET=y\nCONFIG_INET=y\n")
    keys.append(build._build_dir("tree-1"))
    (here / "patches" / "0001-needed.patch").write_text(PATCH + "\n")
    keys.append(build._build_dir("tree-1"))
    (here / "patches" / "speed" / "0001-fast.patch").write_text(PATCH)
    keys.append(build._build_dir("tree-1"))
    compiler(tmp_path / "gcc14", monkeypatch, "14.1.0")
    keys.append(build._build_dir("tree-1"))
    assert len(set(keys)) == len(keys)
    assert all(key.name.startswith(("tree-1-", "tree-2-")) for key in keys)


@pytest.mark.parametrize("config, refused", [
    ("CONFIG_NET=y\nCONFIG_INET=y\nCONFIG_HZ=1000\n", None),
    ("CONFIG_NET=y\n# CONFIG_INET is not set\n", "CONFIG_INET=y"),
    ("CONFIG_NET=m\nCONFIG_INET=y\n", "CONFIG_NET=y"),
    ("CONFIG_NET=y\n", None),                           # this kernel has no such symbol at all
    ("CONFIG_NET=y\nCONFIG_INET=y\nCONFIG_HZ=100\n", None),
])
def test_options_that_the_kernel_refuses(here, tmp_path, config, refused):
    (here / "uml.config").write_text("# a comment\nCONFIG_NET=y\nCONFIG_INET=y\nCONFIG_HZ=1000\n")
    (tmp_path / ".config").write_text(config)
    if refused:
        with pytest.raises(KernelError, match=f"this kernel refuses {refused}$"):
            build._check_config(tmp_path / ".config")
    else:
        build._check_config(tmp_path / ".config")


def test_a_finished_build_is_found_and_not_made_again(here, tree, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_build", lambda *_: pytest.fail("built again"))
    assert build.find(str(tree)) is None and build.find("/nonexistent") is None
    folder = build._build_dir(source.identify(str(tree))[1])
    folder.mkdir(parents=True)
    assert build.find(str(tree)) is None, "a build that was interrupted"
    (folder / "testbed.json").write_text(json.dumps({
        "release": "6.99", "congestion_controls": ["bbr", "reno"], "config_sha256": "ab", "source_dir": "/src"}))
    found = build.find(str(tree))
    assert found == build.ensure(str(tree))
    assert (found.program, found.release, found.congestion_controls, found.key) == (folder / "linux", "6.99", ("bbr", "reno"), folder.name)


@needs_patch
def test_a_source_is_patched_once_and_built_in_a_folder_of_its_own(here, tree, tmp_path, monkeypatch):
    built = []

    def describe(source_dir, build_dir):
        (build_dir / "testbed.json").write_text(json.dumps({
            "release": "6.99", "congestion_controls": ["reno"], "config_sha256": "ab", "source_dir": str(source_dir)}))
    monkeypatch.setattr(build, "_build", lambda source_dir, build_dir, report: build_dir.mkdir(parents=True) or built.append((source_dir, build_dir)))
    monkeypatch.setattr(build, "_describe", describe)
    monkeypatch.setattr(source, "missing_tools", lambda: [])
    monkeypatch.setattr(source, "_make", lambda tree, target: None)
    made = build.ensure(str(tree), lambda text: None)
    (source_dir, build_dir), = built
    assert (source_dir / "net" / "tcp.c").read_text() == PATCHED and (tree / "net" / "tcp.c").read_text() == ORIGINAL
    assert made.source_dir == source_dir and source_dir.parent == tmp_path / "cache" / "sources" and build_dir == made.build_dir
    build.ensure(str(tree))
    (here / "uml.config").write_text("CONFIG_NET=y\nCONFIG_INET=y\n")
    monkeypatch.setattr(source, "fetch", lambda *_: pytest.fail("fetched again"))
    build.ensure(str(tree), lambda text: None)
    assert len(built) == 2 and built[1][0] == source_dir and built[1][1] != build_dir


@needs_patch
def test_a_refused_patch_leaves_no_source_behind(here, tree, tmp_path, monkeypatch):
    (tree / "net" / "tcp.c").write_text("something else\n")
    monkeypatch.setattr(source, "missing_tools", lambda: [])
    monkeypatch.setattr(source, "_make", lambda tree, target: None)
    for _ in range(2):
        with pytest.raises(KernelError, match="does not apply"):
            build.ensure(str(tree), lambda text: None)
    assert [p.name for p in (tmp_path / "cache" / "sources").iterdir() if not p.name.endswith(".unpatched")] == []


def test_missing_tools_are_named_before_anything_is_done(here, tree, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "missing_tools", lambda: [("flex", "flex"), ("xz", "xz-utils")])
    with pytest.raises(KernelError, match="first: apt-get install flex xz-utils"):
        build.ensure(str(tree), lambda text: None)
    assert not (tmp_path / "cache").exists()
