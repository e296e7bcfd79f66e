# SPDX-License-Identifier: GPL-2.0-only
"""Hosts on which no guest starts say why, and what to do. Refusals are real: calls are forbidden, limits set."""
import os
import resource
import subprocess
import sys
import types

import pytest

from kernel import guest, host, launch
from tests.unit.kernel import forbidding


@pytest.fixture
def forbid(monkeypatch):
    """forbid(calls): from now on the host forbids them."""
    command = list(host._PROBE)
    return lambda calls: monkeypatch.setattr(host, "_PROBE", [sys.executable, forbidding.__file__, calls, *command])


def test_this_machine_can():
    assert host.problems(64) == []
    assert set(host.facts()) == {"landlock", "fixed_addresses"}


@pytest.mark.parametrize(
    "calls, what, remedy",
    [
        (
            f"{forbidding.PTRACE}",
            "ptrace: a process cannot have itself traced: Operation not permitted",
            "yama.ptrace_scope",
        ),
        (f"{forbidding.PTRACE}:{0x4200}", "ptrace: a child cannot be traced: Operation not permitted", "SYS_PTRACE"),
        (f"{forbidding.PTRACE}:{0x4204}", "registers: a child's registers cannot be read", "PTRACE_GETREGSET"),
        (f"{forbidding.PTRACE}:31", "sysemu: a child's system calls cannot be emulated", "gVisor"),
        (f"{forbidding.MMAP}:{0x100000}", "low_addresses: nothing can be mapped at 0x100000", "vm.mmap_min_addr"),
    ],
)
def test_what_the_host_forbids(forbid, calls, what, remedy):
    forbid(calls)
    ((message, fix),) = host.problems(64)
    assert message.startswith(what) and remedy in fix


def test_addresses_that_cannot_be_fixed_are_noted_and_do_no_harm(forbid):
    assert host.facts()["fixed_addresses"]
    forbid(f"{forbidding.PERSONALITY}")
    assert host.problems(64) == [] and not host.facts()["fixed_addresses"]


def test_memory_that_may_not_be_mapped(monkeypatch):
    def limited(*arguments, **options):
        return subprocess.run(
            *arguments, **options, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
        )

    monkeypatch.setattr(host, "subprocess", types.SimpleNamespace(run=limited, DEVNULL=subprocess.DEVNULL))
    ((message, fix),) = host.problems(1024)
    assert "1024 MB of" in message and "Cannot allocate memory" in message and "vm.overcommit_memory" in fix


@pytest.mark.parametrize(
    "free_mb, flags, message",
    [(64, 0, "64 MB needed, X has 63 MB free"), (2000, os.ST_NOEXEC, "X is mounted noexec")],
)
def test_no_place_for_the_memory(tmp_path, monkeypatch, free_mb, flags, message):
    monkeypatch.setenv("TESTBED_GUEST_MEMORY_DIR", str(tmp_path))
    monkeypatch.setenv("TESTBED_CACHE", "/")
    real = os.statvfs
    monkeypatch.setattr(
        os,
        "statvfs",
        lambda path: types.SimpleNamespace(f_bavail=(free_mb << 8) - 1, f_frsize=4096, f_flag=flags)
        if str(path) == str(tmp_path)
        else real(path),
    )
    ((said, fix),) = host.problems(64)
    assert message.replace("X", str(tmp_path)) in said and "TESTBED_GUEST_MEMORY_DIR" in fix


def test_a_folder_for_the_memory_that_is_not_there(monkeypatch):
    monkeypatch.setenv("TESTBED_GUEST_MEMORY_DIR", "/nonexistent")
    ((said, _),) = host.problems(64)
    assert "/nonexistent: No such file or directory" in said


def test_a_cache_without_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    real = os.statvfs
    monkeypatch.setattr(
        os,
        "statvfs",
        lambda path: types.SimpleNamespace(f_flag=os.ST_NOEXEC) if str(path) == str(tmp_path) else real(path),
    )
    ((said, fix),) = host.problems(64)
    assert f"{tmp_path} is mounted noexec" in said and "TESTBED_CACHE" in fix


@pytest.mark.parametrize(
    "own, files, words",
    [
        (
            "0::/a/b\n",
            {"a/memory.max": f"{500 << 20}", "a/memory.current": f"{200 << 20}"},
            ["300 MB of memory left"],
        ),
        (
            "0::/a/b\n",
            {"a/b/memory.max": "max", "a/b/pids.max": "70", "a/b/pids.current": "50"},
            ["20 more processes"],
        ),
        ("0::/\n", {"memory.max": "max", "pids.max": "max"}, []),
        ("0::/a\n", {"a/memory.max": "damaged", "a/memory.current": "0"}, []),
        (
            "5:memory:/a\n3:cpu,pids:/a\n",
            {
                "memory/a/memory.limit_in_bytes": f"{100 << 20}",
                "memory/a/memory.usage_in_bytes": "0",
                "pids/a/pids.max": "10",
                "pids/a/pids.current": "9",
            },
            ["100 MB of memory left", "1 more processes"],
        ),
        (
            "5:memory:/\n",
            {"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "5"},
            [],
        ),
    ],
)
def test_what_a_control_group_allows(tmp_path, monkeypatch, own, files, words):
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(content + "\n")
    monkeypatch.setattr(host, "_CGROUPS", tmp_path / "groups")
    monkeypatch.setattr(host, "_OWN_CGROUPS", tmp_path / "own")
    found = [message for message, _ in host.problems(64)]
    assert len(found) == len(words) and all(word in message for word, message in zip(words, found))


def test_another_machine(monkeypatch):
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(machine="aarch64"))
    assert "needs x86_64, this is aarch64" in host.problems()[0][0]


def confined(folder, shell, *options, before=()):
    """Run a line of shell below the launcher; what it printed."""
    command = [*before, sys.executable, "-I", "-S", launch.__file__, *options, "--", "/bin/sh", "-c", shell]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout.split()


READS = [word for path in guest.SYSTEM for word in ("--read", path)]


def test_what_it_starts_changes_and_reads_nothing_else(tmp_path):
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("content")
    line = (
        "cat mine/file other/file 2>&- | wc -c; "
        "for d in mine other; do touch $d/new 2>&-; truncate -s 1 $d/file 2>&-; done; "
        "ls mine other 2>&- | wc -l; echo x > /dev/null && echo null"
    )
    able = launch.landlock_version() >= 3
    assert confined(tmp_path, line, "--write", str(tmp_path / "mine"), *READS) == (
        ["7", "3", "null"] if able else ["14", "7", "null"]
    )
    if able:
        assert (tmp_path / "other" / "file").read_text() == "content" and not (tmp_path / "other" / "new").exists()


def test_without_landlock_it_goes_on(tmp_path):
    before = [sys.executable, forbidding.__file__, f"{forbidding.LANDLOCK}"]
    assert confined(tmp_path, "touch new && echo made", "--write", "/usr", before=before) == ["made"]


def test_limits_processor_and_folder(tmp_path):
    cpu = min(os.sched_getaffinity(0))
    said = confined(
        tmp_path,
        "ulimit -f; nproc; cat /proc/self/fd/7/here",
        "--limit",
        f"FSIZE={1 << 20}",
        "--cpu",
        str(cpu),
        "--folder",
        f"7={tmp_path}",
    )
    assert said == ["2048", "1"]
    (tmp_path / "here").write_text("found")
    assert confined(tmp_path, "cat /proc/self/fd/7/here", "--folder", f"7={tmp_path}") == ["found"]


@pytest.mark.skipif(not os.path.exists("/proc/self/autogroup"), reason="a kernel without autogroup")
@pytest.mark.parametrize("before, nice", [(["nice", "-n", "7", "setsid", "--wait"], "7"), (["setsid", "--wait"], "0")])
def test_a_session_of_its_own_is_as_nice_as_what_started_it(tmp_path, before, nice):
    if os.nice(0):
        pytest.skip("these tests are nice themselves")
    assert confined(tmp_path, "cat /proc/self/autogroup", before=before)[2] == nice
