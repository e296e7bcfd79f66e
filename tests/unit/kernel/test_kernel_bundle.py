# SPDX-License-Identifier: GPL-2.0-only
"""The code that runs inside: the same folder from any checkout, whole or made again."""
import errno
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest

import testbed
from testbed.core import c_libraries, cache_dirs
from testbed.core.errors import EnvironmentProblem
from testbed.engines.uml import init, inventory
from testbed.runs import code_bundle


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """use(folder) makes a copy of the code there the one that is bundled."""
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))

    def use(folder):
        if not folder.exists():
            for name in code_bundle._contents():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(testbed.PROJECT_DIR / name, folder / name)
        monkeypatch.setattr(code_bundle, "PROJECT_DIR", folder)
        code_bundle._contents.cache_clear()
        return folder

    yield use
    code_bundle._contents.cache_clear()


def state(folder):
    """Names, contents, modes and times of everything in a folder."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.stat()
        found[str(path.relative_to(folder))] = (
            stat.filemode(status.st_mode),
            status.st_mtime,
            path.read_bytes() if path.is_file() else None,
        )
    return found


def test_the_same_from_any_checkout_whatever_the_umask(checkout, tmp_path, monkeypatch):
    checkout(tmp_path / "a")
    first, digest = code_bundle.ensure(), code_bundle.digest()
    content = state(first)
    assert first.parent == tmp_path / "cache" / "bundles" and len([n for n in content if n.endswith(".pyc")]) > 20
    assert first == code_bundle.ensure() and sorted(p.name for p in first.parent.iterdir()) == [
        first.name,
        f"{first.name}.json",
    ]
    shutil.rmtree(tmp_path / "cache")
    before = os.umask(0o077)
    try:
        checkout(tmp_path / "a" / "much" / "longer" / "path")
        assert code_bundle.ensure() == first and code_bundle.digest() == digest and state(first) == content
    finally:
        os.umask(before)


def test_what_runs_inside_is_in_it_and_nothing_else(checkout, tmp_path):
    names = set(code_bundle._contents())
    assert {
        "testbed/guest/main.py",
        "testbed/engines/uml/init.py",
        "testbed/__init__.py",
        "traffic/io/clock.py",
        "topologies/linux/network.py",
        "testbed/probes/queue.py",
    } <= names
    assert not [name for name in names if name.startswith(("analysis", "testbed/cli", "tests", "kernel"))]
    # what a new file imports comes with it
    folder = checkout(tmp_path / "a")
    digest = code_bundle.digest()
    (folder / "testbed" / "extra.py").write_text("from . import more\n")
    (folder / "testbed" / "more.py").write_text("")
    (folder / "testbed" / "unused.py").write_text("")
    checkout(folder)
    assert code_bundle.digest() == digest
    (folder / "testbed" / "probes" / "new.py").write_text("def f():\n    from testbed import extra\n")
    checkout(folder)
    assert code_bundle.digest() != digest
    assert {"testbed/extra.py", "testbed/more.py"} <= set(
        code_bundle._contents()
    ) and "testbed/unused.py" not in code_bundle._contents()


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "traffic/io/clock.py").write_text("x"),
        lambda folder: (folder / "traffic/io/clock.py").unlink(),
        lambda folder: (folder / "added.py").write_text("x"),
        lambda folder: next(folder.rglob("*.pyc")).write_bytes(b""),
        lambda folder: folder.with_name(folder.name + ".json").write_text("{"),
        shutil.rmtree,
    ],
    ids=["changed", "removed", "added", "byte code emptied", "manifest cut", "gone"],
)
def test_a_damaged_one_is_made_again(checkout, tmp_path, damage):
    checkout(tmp_path / "a")
    folder = code_bundle.ensure()
    content = state(folder)
    damage(folder)
    assert code_bundle.ensure() == folder and state(folder) == content
    assert len(list(folder.parent.iterdir())) == 2


def test_what_makes_programs_start_faster_is_there_where_it_can_be_compiled(checkout, tmp_path, monkeypatch):
    checkout(tmp_path / "a")
    library = code_bundle.ensure() / c_libraries.PRELOAD
    # in a program with it, memory is locked until it says that it is ready, and programs that it starts are without
    script = """import os, traffic.io.process_memory
def locked():
    return [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmLck')]
print('LD_PRELOAD' in os.environ, int(locked()[0]) > 0 or os.geteuid() > 0)
traffic.io.process_memory.as_usual()
print(locked())"""
    said = subprocess.run([sys.executable, "-c", script], env={"LD_PRELOAD": str(library), "PYTHONPATH": str(
        testbed.PROJECT_DIR)}, capture_output=True, text=True, check=True)
    assert said.stdout == "False True\n['0']\n" and not said.stderr
    assert init._PRELOAD == f"{code_bundle.MOUNTED_AT}/{c_libraries.PRELOAD}"
    shutil.rmtree(tmp_path / "cache")
    with monkeypatch.context() as without:
        without.setattr(c_libraries.subprocess, "run", no_compiler(subprocess.run))
        without.setenv("TESTBED_COMPILED", "no")
        plain = code_bundle.ensure()
        assert not (plain / c_libraries.PRELOAD).exists() and code_bundle.ensure() == plain
    assert (code_bundle.ensure() / c_libraries.PRELOAD).exists()     # what was missing was installed since


@pytest.mark.parametrize("problem", [FileNotFoundError(errno.ENOENT, "gcc"), subprocess.CalledProcessError(1, "gcc")])
def test_a_compiler_that_fails_once_is_asked_again(checkout, tmp_path, monkeypatch, problem):
    checkout(tmp_path / "a")
    with monkeypatch.context() as without:
        without.setattr(c_libraries.subprocess, "run", no_compiler(subprocess.run, problem))
        with pytest.raises(EnvironmentProblem, match=f"^{c_libraries.TMIX_CORE} cannot be made: .*gcc.*; .*epoll"):
            code_bundle.ensure()
        said = []
        without.setenv("TESTBED_COMPILED", "no")
        assert "-without-preload" in code_bundle.ensure(said.append).name
        assert [line.partition(" ")[0] for line in said] == ["preload.so", "random_device.so"]
    assert code_bundle.ensure() == code_bundle.folder_of(code_bundle.digest())


def test_what_a_compiler_refuses_is_said_with_its_words(checkout, tmp_path):
    folder = checkout(tmp_path / "a")
    (folder / "traffic/replay/core/loop.c").write_text("int tmix_run(void) { return missing; }\n")
    checkout(folder)
    with pytest.raises(EnvironmentProblem, match="loop.c:1:.*missing"):
        code_bundle.ensure()


def test_traffic_can_go_without_compiled_code(checkout, tmp_path, monkeypatch):
    """Which makes other bytes, so that ids of runs are others."""
    checkout(tmp_path / "a")
    with_it, digest = code_bundle.ensure(), code_bundle.digest()
    monkeypatch.setenv("TESTBED_COMPILED", "no")
    said = []
    without = code_bundle.ensure(said.append)
    assert without.name != with_it.name and code_bundle.digest() != digest and not said
    files = [{str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
             for folder in (with_it, without)]
    assert files[0] - files[1] == {c_libraries.TMIX_CORE} and files[1] <= files[0]


def no_compiler(run, problem=None):
    def other(command, **options):
        if command[0] == "gcc":
            raise problem or FileNotFoundError(errno.ENOENT, "gcc")
        return run(command, **options)
    return other


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "not yours"), OSError(errno.EROFS, "read-only")])
def test_a_cache_that_can_only_be_read_is_used(checkout, tmp_path, monkeypatch, error):
    checkout(tmp_path / "a")
    folder = code_bundle.ensure()
    monkeypatch.setattr(os, "utime", refusing(error))
    assert cache_dirs.whole(folder) and code_bundle.ensure() == folder


def test_a_folder_that_was_found_whole_is_read_again_only_when_a_file_changed(checkout, tmp_path, monkeypatch):
    checkout(tmp_path / "a")
    folder = code_bundle.ensure()
    assert cache_dirs.whole(folder)
    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "read_bytes", refusing(PermissionError(errno.EACCES, "not yours")))
        assert cache_dirs.whole(folder)
    file = folder / "traffic/io/clock.py"
    before = file.stat()
    file.write_bytes(file.read_bytes()[::-1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not cache_dirs.whole(folder)


def test_a_cache_that_cannot_be_read_is_not_used(checkout, tmp_path, monkeypatch):
    checkout(tmp_path / "a")
    before = os.umask(0o077)
    try:
        folder = code_bundle.ensure()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.with_name(folder.name + ".json").stat().st_mode) == 0o644     # others may read it
    monkeypatch.setattr(pathlib.Path, "read_text", refusing(PermissionError(errno.EACCES, "not yours")))
    assert not cache_dirs.whole(folder)


def refusing(error):
    def refuse(*_args, **_kwargs):
        raise error
    return refuse


def test_a_cache_that_cannot_be_written(checkout, tmp_path, monkeypatch):
    checkout(tmp_path / "a")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "file"))
    with pytest.raises(EnvironmentProblem, match="^the cache folder .*file cannot be used: .*file is not a folder; set "
                                                 "TESTBED_CACHE to a folder of yours$"):
        code_bundle.ensure()


@pytest.mark.parametrize("problem, why", [
    (PermissionError(errno.EACCES, "Permission denied", "/nobody/cache/kernels"), "/nobody/cache/kernels: Perm"),
    (OSError(errno.EROFS, "Read-only file system", "/nobody/cache/lock"), "/nobody/cache/lock: Read-only file system"),
    (OSError(errno.ENOENT, "No such file", "/nobody/cache/lock"), ""), (OSError(errno.EIO, "broken"), ""),
    (OSError(errno.ENOSPC, "No space left on device", "/nobody/cache/x"), "/nobody/cache/x: No space left on device"),
    (PermissionError(errno.EACCES, "Permission denied", "/nobody"), "/nobody: Permission denied"),
    (PermissionError(errno.EACCES, "Permission denied", "/usr"), ""),
    (PermissionError(errno.EACCES, "Permission denied", "/nobody/results"), "")])
def test_errors_that_are_the_caches(monkeypatch, problem, why):
    monkeypatch.setenv("TESTBED_CACHE", "/nobody/cache")
    monkeypatch.setattr(cache_dirs, "why_unwritable", lambda _: "")
    begins = f"the cache folder /nobody/cache cannot be used: {why}" if why else ""
    assert cache_dirs.unusable(problem).startswith(begins)
    assert bool(cache_dirs.unusable(problem)) == bool(why)


@pytest.mark.parametrize("full, why", [(True, "No space left on device"), (False, "")])
def test_a_full_disk_whose_error_names_no_file(monkeypatch, tmp_path, full, why):
    """It is the cache's if nothing can be written there; else that of the results, say."""
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path))
    monkeypatch.setattr(cache_dirs, "full", lambda folder: full)
    said = cache_dirs.unusable(OSError(errno.ENOSPC, why))
    assert why in said and bool(said) == full


def test_code_that_does_not_compile(checkout, tmp_path):
    folder = checkout(tmp_path / "a")
    (folder / "traffic" / "broken.py").write_text("def :\n")
    checkout(folder)
    with pytest.raises(EnvironmentProblem, match="does not compile.*broken.py"):
        code_bundle.ensure()
    assert not list((tmp_path / "cache" / "bundles").iterdir())


def test_byte_code_for_which_there_is_no_space(checkout, tmp_path, monkeypatch):
    """Is said in a line, and not as if the code were wrong: compileall has lines for every file."""
    folder = checkout(tmp_path / "a")
    (folder / "traffic" / "broken.py").write_text("def :\n")
    checkout(folder)
    monkeypatch.setattr(cache_dirs, "full", lambda folder: True)
    with pytest.raises(EnvironmentProblem, match="^the cache folder .* cannot be used: .*: No space left on device; "
                                                 "set TESTBED_CACHE to a folder of yours$"):
        code_bundle.ensure()
    assert not list((tmp_path / "cache" / "bundles").iterdir())


def test_both_sides_agree_where_it_is_mounted():
    assert init.PROJECT_DIR == code_bundle.MOUNTED_AT


def test_hashes_are_found_and_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path))
    program = tmp_path / "linux"
    program.write_text("kernel")
    found = inventory.hashes(program)
    assert {"kernel", "python", "ip", "tc", "libc.so.6", "python_standard_library", "mininet"} <= set(found)
    assert all(len(value) == 64 for value in found.values())
    monkeypatch.setattr(inventory, "_sha256", lambda path: pytest.fail(f"{path} hashed again"))
    assert inventory.hashes(program) == found
    monkeypatch.undo()
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path))
    program.write_text("another")
    for damaged in (None, "", "[]", json.dumps({str(pathlib.Path(program)): 3})):
        if damaged is not None:
            (tmp_path / "file-hashes.json").write_text(damaged)
        again = inventory.hashes(program)
        assert {name for name in found if again[name] != found[name]} == {"kernel"}
