# SPDX-License-Identifier: GPL-2.0-only
"""What is removed from the cache of kernels, and what is not. Empty folders, no kernel."""
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from kernel import build, configuration, patching, pruning, source
from tests.unit.kernel.toy_patch import add_patch


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, with a configuration and patches of its own."""
    folder = tmp_path / "kernel"
    folder.mkdir()
    add_patch(folder / "patches", "0001-any.patch")
    add_patch(folder / "patches", "speed/0001-old.patch", versions="-6.2")
    (folder / "uml.config").write_text("CONFIG_NET=y\n")
    monkeypatch.setattr(patching, "FOLDER", folder / "patches")
    monkeypatch.setattr(configuration, "CONFIG", folder / "uml.config")
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def add(cache, identity, version, days=0, tree=None, finished=True):
    """A build and its source tree, last used `days` ago."""
    source_dir = cache / "sources" / (tree or f"{identity}-{patching.digest(version)[:8]}")
    source_dir.mkdir(parents=True, exist_ok=True)
    (source_dir / "Makefile").write_text(f"VERSION = {version[0]}\nPATCHLEVEL = {version[1]}\n")
    folder = build.build_dir_of(identity, version)
    folder.mkdir(parents=True)
    if finished:
        (folder / "testbed.json").write_text(
            json.dumps(
                {
                    "source_dir": str(source_dir),
                    "release": "6.99",
                    "congestion_controls": [],
                    "config_sha256": "ab",
                    "features": [],
                }
            )
        )
        os.utime(folder / "testbed.json", (time.time() - days * 86400,) * 2)
    return folder, source_dir


def left(cache):
    return {p for part in ("kernels", "sources") for p in (cache / part).glob("*")}


def prune(**options):
    said = []
    pruning.prune(report=said.append, **options)
    return said


def test_nothing_to_do(cache):
    assert prune(keep=()) == []
    found = {
        *add(cache, "debian-6.1-6.1.192-2", (6, 1)),
        *add(cache, "tree-0123456789abcdef", (6, 1)),
        *add(cache, "debian-7.2-7.2.13-1", (7, 2)),
    }
    assert prune(keep=()) == [] and left(cache) == found


def test_what_was_not_used_for_long_goes_with_its_tree(cache):
    old, new = add(cache, "debian-6.12-1", (6, 12), days=31), add(cache, "debian-6.12-2", (6, 12), days=29)
    said = prune(keep=())
    assert left(cache) == set(new)
    assert said == [f"removing kernels/{old[0].name} (0 MB)", f"removing sources/{old[1].name} (0 MB)"]


def test_what_is_to_be_kept_stays_however_old(cache, monkeypatch):
    monkeypatch.setattr(source.apt, "candidate", lambda package: "6.12.9-1")
    found = add(cache, "debian-6.12-6.12.9-1", (6, 12), days=500)
    prune(keep=(None, "/nonexistent"))
    assert left(cache) == set(found)
    prune(keep=("6.1",))
    assert left(cache) == set()


def test_builds_with_another_configuration_go_and_their_tree_stays_while_it_is_used(cache, tmp_path):
    before, tree = add(cache, "debian-6.12-1", (6, 12))
    (tmp_path / "kernel" / "uml.config").write_text("CONFIG_NET=y\nCONFIG_INET=y\n")
    after, _ = add(cache, "debian-6.12-1", (6, 12))
    prune(keep=())
    assert left(cache) == {after, tree} and before != after


def test_a_patch_for_other_versions_does_not_outdate_a_build(cache, tmp_path):
    new, old = add(cache, "debian-6.12-1", (6, 12)), add(cache, "tree-0123456789abcdef", (6, 1))
    (tmp_path / "kernel" / "patches" / "speed" / "0001-old.patch").write_text("older\n")
    prune(keep=())
    assert left(cache) == set(new) and not set(old) & left(cache)


def test_leftovers_of_interrupted_builds_and_removals_go(cache):
    add(cache, "debian-6.12-1", (6, 12), finished=False)
    for name in (
        "debian-6.12-1-01234567.unpatched",
        "debian-6.12-1-01234567.unpatched.part",
        "debian-6.12-1-89abcdef.gone",
    ):
        (cache / "sources" / name / "net").mkdir(parents=True)
    prune(keep=())
    assert left(cache) == set()


def test_copies_of_code_go_when_no_run_uses_them_any_more(cache):
    for name, days in (("old", 31), ("new", 29)):
        (cache / "bundles" / name / "traffic").mkdir(parents=True)
        (cache / "bundles" / f"{name}.json").write_text("{}")
        os.utime(cache / "bundles" / f"{name}.json", (time.time() - days * 86400,) * 2)
    (cache / "bundles" / "without").mkdir()
    prune(keep=())
    assert {path.name for path in (cache / "bundles").iterdir()} == {"new", "new.json"}


def test_a_kernel_that_runs_is_not_removed(cache):
    folder, tree = add(cache, "debian-6.12-1", (6, 12), days=100)
    shutil.copy("/bin/sleep", folder / "linux")
    guest = subprocess.Popen([folder / "linux", "60"])
    try:
        prune(keep=())
        assert left(cache) == {folder, tree}
    finally:
        guest.kill()
        guest.wait()
    prune(keep=())
    assert left(cache) == set()


def test_only_folders_of_the_cache_are_touched(cache, tmp_path):
    outside = tmp_path / "mine"
    outside.mkdir()
    (cache / "kernels").mkdir()
    (cache / "kernels" / "link").symlink_to(outside)
    (cache / "kernels" / "file").write_text("")
    (cache / "modules").mkdir()
    prune(keep=())
    assert outside.is_dir() and (cache / "modules").is_dir() and len(left(cache)) == 2


def test_it_waits_for_a_build(cache):
    held = subprocess.Popen(
        ["flock", "--shared", str(cache / "lock"), "sh", "-c", "echo held; sleep 0.5"], stdout=subprocess.PIPE
    )
    assert held.stdout.readline() == b"held\n"
    told: list[str] = []
    started = time.monotonic()
    pruning.prune(keep=(), report=told.append)
    assert time.monotonic() - started > 0.3
    assert f"waiting for another build in {cache}" in told
    held.wait()


@pytest.mark.parametrize("kind", ["trees", "bisect"])
def test_a_work_folder_goes_with_its_last_kernel(cache, kind):
    for name, days in (("used", 1), ("unused", 100)):
        folder, _ = add(cache, f"tree-{name}", (6, 12), days=days)
        work = cache / kind / name / "tree"
        work.mkdir(parents=True)
        (work / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\n")
        facts = json.loads((folder / "testbed.json").read_text()) | {"source_dir": str(work)}
        (folder / "testbed.json").write_text(json.dumps(facts))
        os.utime(folder / "testbed.json", (time.time() - days * 86400,) * 2)
    (cache / kind / "modules").mkdir()
    prune(keep=())
    assert sorted(path.name for path in (cache / kind).iterdir()) == ["modules", "used"]


def test_the_size_is_told(cache):
    folder, tree = add(cache, "debian-6.12-1", (6, 12), days=100)
    (tree / "big").write_bytes(os.urandom(3 << 20))
    assert 3 << 20 <= pruning.prune(keep=(), report=lambda text: None) < 4 << 20
    assert not pathlib.Path(tree).exists()
