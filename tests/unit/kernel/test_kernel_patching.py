# SPDX-License-Identifier: GPL-2.0-only
"""Which patches a kernel gets. Toy trees, no kernel."""

import functools

import pytest

from kernel import patching
from kernel.source import KernelError
from tests.unit.kernel.toy_patch import NEW_FILE, ORIGINAL, PATCH, PATCHED, add_patch


@pytest.fixture
def add(tmp_path, monkeypatch):
    """add(name, patch, versions): one more patch in a folder of the test's own, which has one already."""
    folder = tmp_path / "patches"
    monkeypatch.setattr(patching, "FOLDER", folder)
    add_patch(folder, "0001-needed.patch")
    return functools.partial(add_patch, folder)


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


def test_patches_are_applied(add, tree):
    said = []
    patching.put_all(tree, said.append)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and said == []
    assert files(tree) == ["Makefile", "net", "tcp.c"], "no .orig or .rej files"


@pytest.mark.parametrize("content", ["int first;\nint window = 10;\nint last;\n", ""])
def test_a_patch_that_does_not_fit_is_refused_and_changes_nothing(add, tree, content):
    (tree / "net" / "tcp.c").write_text(content)
    with pytest.raises(KernelError, match="0001-needed.patch does not apply to this kernel"):
        patching.put_all(tree, lambda text: None)
    assert (tree / "net" / "tcp.c").read_text() == content
    assert files(tree) == ["Makefile", "net", "tcp.c"]


def test_a_tree_that_has_a_patch_already_is_taken_as_it_is(add, tree):
    add("speed/0001-same.patch", PATCH)
    (tree / "net" / "tcp.c").write_text(PATCHED)
    said = []
    patching.put_all(tree, said.append)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and said == []


def test_a_patch_for_speed_is_left_out_where_it_does_not_fit(add, tree):
    add("speed/0001-misfit.patch", PATCH.replace("cwnd", "window"))
    add("speed/0002-fits.patch", NEW_FILE)
    said = []
    patching.put_all(tree, said.append)
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and (tree / "net" / "fast.c").read_text() == "int fast;\n"
    assert said == ["0001-misfit.patch does not apply to this kernel: built without it, runs will be slower"]


def test_a_stock_kernel_gets_no_patch_for_speed(add, tree):
    add("speed/0001-fast.patch", NEW_FILE)
    said = []
    patching.put_all(tree, said.append, ("ipv6", "stock"))
    assert (tree / "net" / "tcp.c").read_text() == PATCHED and not (tree / "net" / "fast.c").exists()
    assert said == ["option stock: built without kernel/patches/speed, runs will be slower"]


@pytest.mark.parametrize("versions", ["all", "-6.2"])
def test_a_patch_for_speed_does_not_make_anybody_build_a_stock_kernel_again(add, versions):
    before = patching.digest((6, 1)), patching.digest((6, 1), ["stock"])
    add("speed/0002-fast.patch", PATCH, versions)
    after = patching.digest((6, 1)), patching.digest((6, 1), ["stock"])
    assert before[0] == before[1] == after[1] != after[0]


@pytest.mark.parametrize("versions, there", [("-6.2", True), ("6.1-6.2", True), ("6.1-", True), ("6.2-", False),
                                             ("6.13-", False), ("-5.19", False)])
def test_a_kernel_gets_the_patches_of_its_version(add, tree, versions, there):
    """The tree is 6.1."""
    add("speed/0001-new.patch", NEW_FILE, versions)
    patching.put_all(tree, pytest.fail)
    assert (tree / "net" / "fast.c").exists() == there


@pytest.mark.parametrize("versions, version, concerned", [
    ("-6.2", (6, 1), True), ("-6.2", (6, 2), True), ("-6.2", (6, 12), False), ("-6.2", None, True),
    ("6.13-", (6, 2), False), ("6.13-", (6, 13), True), ("6.13-", (7, 0), True), ("all", (6, 1), True)])
def test_the_digest_is_of_the_patches_that_may_concern_a_version(add, versions, version, concerned):
    before = patching.digest(version)
    add("0002-other.patch", PATCH, versions)
    assert (patching.digest(version) != before) == concerned


@pytest.mark.parametrize("line", ["all", "-  0001-needed.patch", "6  0001-needed.patch", "6.12  0001-needed.patch",
                                  "all  0009-gone.patch", "all 0001-needed.patch and more"])
def test_a_line_of_the_series_that_cannot_be_read(add, tree, line):
    with open(patching.FOLDER / "series", "a") as series:
        series.write(f"# more\n{line}\n")
    with pytest.raises(KernelError, match=r"series:3: versions \(all, .*\) and a patch file expected"):
        patching.put_all(tree, pytest.fail)


def test_a_line_of_the_series_without_a_version_and_one_that_is_no_text(add):
    series = patching.FOLDER / "series"
    before = series.read_bytes()
    add("0002-other.patch", PATCH, "6.12-6.3")
    with pytest.raises(KernelError, match="series:.*: 6.12-6.3 holds no version"):
        patching.series()
    series.write_bytes(before + b"all \xff.patch\n")
    with pytest.raises(KernelError, match="series:.*: versions .* expected"):
        patching.series()


def test_a_folder_without_a_version_is_no_kernel_tree(add, tree):
    (tree / "Makefile").write_text("all:\n")
    with pytest.raises(KernelError, match="no kernel tree"):
        patching.put_all(tree, pytest.fail)


def test_the_projects_own_patches_are_well_formed():
    found = list(patching.FOLDER.rglob("*.patch"))
    assert sorted(found) == sorted(patch.path for patch in patching.series()), "every patch is in the series, once"
    for patch in found:
        lines = patch.read_text().splitlines()
        targets = [line for line in lines if line.startswith("+++ ")]
        assert targets and all(line.startswith("+++ b/") for line in targets), patch.name
        assert lines[0] == "# SPDX-License-Identifier: GPL-2.0-only", patch.name


@pytest.mark.parametrize("version", [(6, 1), (6, 12), (6, 15), (7, 3)])
def test_no_kernel_gets_two_versions_of_a_patch(version):
    numbers = [(patch.for_speed, patch.path.name[:4]) for patch in patching.series() if patch.concerns(version)]
    assert len(numbers) == len(set(numbers))
