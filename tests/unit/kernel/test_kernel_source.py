# SPDX-License-Identifier: GPL-2.0-only
"""Kernel sources: what a --kernel option stands for, and how it is fetched. Toy trees only."""
import hashlib
import io
import os
import pathlib
import subprocess
import tarfile

import pytest

from kernel import source
from kernel.source import KernelError


def fake(folder, name, script):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Folder of fake programs that come before the real ones; a cache that knows nothing yet."""
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "bin"


@pytest.fixture
def tree(tmp_path):
    """Something that looks like a kernel tree."""
    folder = tmp_path / "linux"
    (folder / "net").mkdir(parents=True)
    (folder / "Kbuild").write_text("# top\n")
    (folder / "net" / "tcp.c").write_text("int cwnd = 10;\n")
    return folder


def git(tree, *arguments):
    subprocess.run(
        ["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments],
        check=True,
        capture_output=True,
    )


def digest(tree):
    return source.identify(str(tree))[1]


def test_a_version_is_debians_package_of_it(programs):
    fake(programs, "apt-cache", 'echo "$2:\n  Installed: (none)\n  Candidate: 6.12.9-1~bpo12"')
    for spec in (None, "", "6.12"):
        assert source.identify(spec) == ("Debian linux-source-6.12 6.12.9-1~bpo12", "debian-6.12-6.12.9-1~bpo12")
    assert source.identify("6.1")[1].startswith("debian-6.1-")


@pytest.mark.parametrize("output", ["", "linux-source-6.12:\n  Candidate: (none)"])
def test_a_version_that_apt_does_not_know(programs, output):
    fake(programs, "apt-cache", f'printf "{output}"')
    with pytest.raises(KernelError, match="apt knows no linux-source-6.12; `testbed kernel --kernel 6.12` looks"):
        source.identify(None)


def test_without_apt(monkeypatch, tmp_path):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelError, match="apt-cache is missing"):
        source.identify("6.12")


@pytest.mark.parametrize("spec", ["6.12.1", "linux", "/nonexistent", "."])
def test_what_is_no_source(tmp_path, monkeypatch, spec):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KernelError, match=f"--kernel {spec}: neither a version"):
        source.identify(spec)


def test_a_tarball_is_known_by_its_content(tmp_path):
    def pack(name, content):
        with tarfile.open(tmp_path / name, "w") as archive:
            (member := tarfile.TarInfo("linux/Makefile")).size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return str(tmp_path / name)
    one = pack("a.tar", b"one")
    name, identity = source.identify(one)
    digest = hashlib.sha256(pathlib.Path(one).read_bytes()).hexdigest()
    assert name == one and identity == f"tarball-{digest[:16]}" == source.identify(pack("b.tar", b"one"))[1]
    assert source.identify(pack("b.tar", b"two"))[1] != identity


def test_a_tree_is_known_by_its_files(tree):
    first = digest(tree)
    assert first.startswith("tree-") and digest(tree) == first
    (tree / "net" / "tcp.c").write_text("int cwnd = 1000;\n")
    second = digest(tree)
    os.utime(tree / "net" / "tcp.c", ns=(1, 1))
    third = digest(tree)
    (tree / "net" / "new.c").write_text("")
    assert len({first, second, third, digest(tree)}) == 4


def test_a_git_tree_is_known_by_its_commit_and_changes(tree):
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "first")
    first = digest(tree)
    os.utime(tree / "net" / "tcp.c", ns=(1, 1))
    assert digest(tree) == first, "times do not matter to git"
    (tree / "net" / "tcp.c").write_text("int cwnd = 2;\n")
    changed = digest(tree)
    git(tree, "commit", "-q", "-a", "-m", "second")
    assert len({first, changed, digest(tree)}) == 3


def test_new_files_that_git_does_not_know_yet_count_too(tree):
    """A new congestion control is written before it is committed."""
    git(tree, "init", "-q")
    (tree / ".gitignore").write_text("*.o\n")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "first")
    seen = {digest(tree)}
    for content in ("int mine;\n", "int mine = 1;\n", "int mine = 2;\n"):
        (tree / "net" / "tcp_mine.c").write_text(content)
        seen.add(digest(tree))
    assert len(seen) == 4
    (tree / "net" / "tcp.o").write_text("ignored")
    assert digest(tree) in seen


def test_a_pristine_source_for_somebody_to_change(tree, tmp_path):
    (tree / ".gitignore").write_text("*.o\n#\n/*\n!/debian/\n")
    with tarfile.open(tmp_path / "linux.tar", "w") as tar:
        tar.add(tree, "linux-6.99")
    source.write_source(str(tmp_path / "linux.tar"), tmp_path / "new/mine", lambda text: None)
    assert (tmp_path / "new/mine/net/tcp.c").read_text() == "int cwnd = 10;\n"
    assert (tmp_path / "new/mine/.gitignore").read_text() == "*.o\n#\n"
    for spec, folder, said in ((str(tmp_path / "linux.tar"), tmp_path / "new/mine", "exists; a new folder expected"),
                               (str(tree), tmp_path / "other", "a folder; a version or a tarball expected"),
                               (str(tmp_path / "linux.tar"), tmp_path / "linux.tar/below",
                                "linux.tar/below: .*linux.tar is a file; a new folder expected")):
        with pytest.raises(KernelError, match=said):
            source.write_source(spec, folder, lambda text: None)


def test_fetching_a_tarball(tree, tmp_path):
    with tarfile.open(tmp_path / "linux.tar.gz", "w:gz") as tar:
        tar.add(tree, "linux-6.99")
    source.fetch(str(tmp_path / "linux.tar.gz"), tmp_path / "out", lambda text: None)
    assert (tmp_path / "out" / "net" / "tcp.c").read_text() == "int cwnd = 10;\n" and not (
        tmp_path / "out.part"
    ).exists()


def test_tarballs_that_are_none(tree, tmp_path):
    (tmp_path / "x.tar").write_bytes(b"rubbish" * 1000)
    with pytest.raises(KernelError, match="not a tarball"):
        source.fetch(str(tmp_path / "x.tar"), tmp_path / "out", lambda text: None)
    with tarfile.open(tmp_path / "y.tar", "w") as tar:
        tar.add(tree / "net", "net")
    with pytest.raises(KernelError, match="no kernel tree in it"):
        source.fetch(str(tmp_path / "y.tar"), tmp_path / "out", lambda text: None)
    assert not list(tmp_path.glob("out*"))


def test_missing_tools(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    for tool in set(source._TOOLS) - {"flex", "xz"}:
        fake(tmp_path / "bin", tool, "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert source.missing_tools() == [("flex", "flex"), ("xz", "xz-utils")]


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path))
    assert source.cache_dir() == tmp_path
    monkeypatch.delenv("TESTBED_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert source.cache_dir() == tmp_path / "xdg" / "tcp-testbed"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert source.cache_dir() == tmp_path / ".cache" / "tcp-testbed"

    def unknown() -> pathlib.Path:
        raise RuntimeError("Could not determine home directory.")
    monkeypatch.setattr(pathlib.Path, "home", unknown)
    with pytest.raises(KernelError, match="no home folder that could have the cache; set TESTBED_CACHE"):
        source.cache_dir()


def test_what_no_guest_kernel_is_built_from_stays_in_the_package(tmp_path):
    """Of drivers that no guest has only what configuring reads is unpacked: an eighth of the disk."""
    tree = tmp_path / "in/linux-source-6.12"
    kept = ["Makefile", "drivers/gpu/Kconfig", "drivers/gpu/drm/Makefile", "drivers/net/tun.c",
            "drivers/net/wireless/a.c", "arch/um/kernel/time.c", "arch/x86/um/a.S", "net/ipv4/tcp.c",
            "include/net/tcp.h", "tools/testing/a.c"]
    left = ["drivers/gpu/drm/amd/huge.h", "drivers/net/ethernet/intel/a.c", "sound/a.c", "arch/arm64/boot/dts/a.dts",
            "Documentation/net/a.rst"]
    for name in (*kept, *left):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("x")
    subprocess.run(["tar", "-cJf", tmp_path / "source.tar.xz", "-C", tmp_path / "in", "linux-source-6.12"], check=True)
    (tmp_path / "out").mkdir()
    source._unpack(tmp_path / "source.tar.xz", tmp_path / "out", source.not_unpacked())
    out = tmp_path / "out/linux-source-6.12"
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == sorted(kept)
