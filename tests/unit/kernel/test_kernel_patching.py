# SPDX-License-Identifier: GPL-2.0-only
"""Which patches a kernel gets. Toy trees, no kernel."""

import pytest

from kernel import patching
from kernel.source import KernelError
from tests.unit.kernel.toy_patch import ORIGINAL, PATCH, PATCHED


@pytest.fixture
def patches(tmp_path, monkeypatch):
    """A folder of patches of the test's own."""
    folder = tmp_path / "patches"
    (folder / "speed").mkdir(parents=True)
    (folder / "0001-needed.patch").write_text(PATCH)
    monkeypatch.setattr(patching, "FOLDER", folder)
    return folder


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "linux"
    (folder / "net").mkdir(parents=True)
    (folder / "Makefile").write_text(
        "# SPDX-License-Identifier: GPL-2.0\nVERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 192\n"
    )
    (folder / "net" / "tcp.c").write_text(ORIGINAL)
    return folder


def files(tree):
    return sorted(p.name for p in tree.rglob("*"))


def test_patches_are_applied(patches, tree):
    said = []
    patching.put_all(tree, said.append)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and said == []
    assert files(tree) == ["Makefile", "net", "tcp.c"], "no .orig or .rej files"


@pytest.mark.parametrize("content", ["int first;\nint window = 10;\nint last;\n", ""])
def test_a_patch_that_does_not_fit_is_refused_and_changes_nothing(patches, tree, content):
    (tree / "net" / "tcp.c").write_text(content)
    with pytest.raises(KernelError, match="0001-needed.patch does not apply to this kernel"):
        patching.put_all(tree, lambda text: None)
    assert (tree / "net" / "tcp.c").read_text() == content
    assert files(tree) == ["Makefile", "net", "tcp.c"]


def test_a_tree_that_has_a_patch_already_is_taken_as_it_is(patches, tree):
    (patches / "speed" / "0001-same.patch").write_text(PATCH)
    (tree / "net" / "tcp.c").write_text(PATCHED)
    said = []
    patching.put_all(tree, said.append)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and said == []


def test_a_patch_for_speed_is_left_out_where_it_does_not_fit(patches, tree):
    (patches / "speed" / "0001-misfit.patch").write_text(PATCH.replace("cwnd", "window"))
    (patches / "speed" / "0002-fits.patch").write_text("--- /dev/null\n+++ b/net/fast.c\n@@ -0,0 +1 @@\n+int fast;\n")
    said = []
    patching.put_all(tree, said.append)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and (tree / "net" / "fast.c").read_text() == "int fast;\n"
    assert said == ["0001-misfit.patch does not apply to this kernel: built without it, runs will be slower"]


def test_a_stock_kernel_gets_no_patch_for_speed(patches, tree):
    (patches / "speed" / "0001-fast.patch").write_text("--- /dev/null\n+++ b/net/fast.c\n@@ -0,0 +1 @@\n+int fast;\n")
    said = []
    patching.put_all(tree, said.append, ("ipv6", "stock"))
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and not (tree / "net" / "fast.c").exists()
    assert said == ["option stock: built without kernel/patches/speed, runs will be slower"]


@pytest.mark.parametrize("name", ["speed/0002-fast.patch", "speed/until-6.2/0002-fast.patch"])
def test_a_patch_for_speed_does_not_make_anybody_build_a_stock_kernel_again(patches, name):
    before = patching.digest((6, 1)), patching.digest((6, 1), ["stock"])
    (patches / name).parent.mkdir(exist_ok=True)
    (patches / name).write_text(PATCH)
    after = patching.digest((6, 1)), patching.digest((6, 1), ["stock"])
    assert before[0] == before[1] == after[1] != after[0]


def test_a_kernel_gets_the_patch_that_was_made_for_its_version(patches, tree):
    """Both fit, but only one compiles there."""
    for folder, value in (("until-6.2", 2), ("from-6.13", 13)):
        (patches / folder).mkdir()
        (patches / folder / "0001-needed.patch").write_text(PATCH.replace("= 4", f"= {value}"))
    patching.put_all(tree, pytest.fail)
    assert (tree / "net" / "tcp.c").read_text() == ORIGINAL.replace("10", "2")


def test_where_that_does_not_fit_the_usual_one_is_tried(patches, tree):
    (patches / "until-6.2").mkdir()
    (patches / "until-6.2" / "0001-needed.patch").write_text(PATCH.replace("cwnd", "window"))
    patching.put_all(tree, pytest.fail)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED


def test_a_kernel_may_need_no_such_patch(patches, tree):
    (patches / "until-6.2").mkdir()
    (patches / "until-6.2" / "0001-needed.patch").write_text("Subject: this\n\nwas different in those days.\n")
    patching.put_all(tree, pytest.fail)
    assert (tree / "net" / "tcp.c").read_text() == ORIGINAL


def test_a_patch_may_be_for_some_versions_only(patches, tree):
    (patches / "speed" / "from-6.13").mkdir()
    (patches / "speed" / "from-6.13" / "0001-new.patch").write_text(
        "--- /dev/null\n+++ b/net/fast.c\n@@ -0,0 +1 @@\n+int fast;\n"
    )
    patching.put_all(tree, pytest.fail)
    assert not (tree / "net" / "fast.c").exists()


@pytest.mark.parametrize(
    "folder, version, concerned",
    [
        ("until-6.2", (6, 1), True),
        ("until-6.2", (6, 2), True),
        ("until-6.2", (6, 12), False),
        ("until-6.2", None, True),
        ("from-6.13", (6, 2), False),
        ("from-6.13", (6, 13), True),
        ("from-6.13", (7, 0), True),
        ("speed", (6, 1), True),
    ],
)
def test_the_digest_is_of_the_patches_that_may_concern_a_version(patches, folder, version, concerned):
    before = patching.digest(version)
    (patches / folder).mkdir(exist_ok=True)
    (patches / folder / "0002-other.patch").write_text(PATCH)
    assert (patching.digest(version) != before) == concerned


def test_the_projects_own_patches_are_well_formed():
    found = list(patching.FOLDER.rglob("*.patch"))
    assert found
    for patch in found:
        lines = patch.read_text().splitlines()
        targets = [line for line in lines if line.startswith("+++ ")]
        assert all(line.startswith("+++ b/") for line in targets), patch.name
        assert targets or patch.parent.name.startswith(("from-", "until-")), patch.name
        assert lines[0] == "# SPDX-License-Identifier: GPL-2.0-only", patch.name
