# SPDX-License-Identifier: GPL-2.0-only
"""An experiment packed in one checkout, verified in another, as another user."""
from __future__ import annotations

import json
import lzma
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator

import pytest

from tests.end_to_end import toy_checkout

_NOBODY = 65534


def command(code: pathlib.Path, home: pathlib.Path, *words: str | pathlib.Path, user: int | None = None) \
        -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TESTBED_RESULTS": str(home / "results"),
                   "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    return subprocess.run([code / "bin/testbed", *words], env=environment, cwd=home, user=user, capture_output=True,
                          text=True, timeout=300)


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> tuple[pathlib.Path, pathlib.Path]:
    """(the pack of two runs and a report, the checkout it was made in)"""
    folder = tmp_path_factory.mktemp("pack")
    code = toy_checkout.make(folder / "code")
    done = command(code, folder, "run", "c", "--engine", "toy", "--cca", "reno", "--seeds", "2")
    assert done.returncode == 0, done.stderr
    done = command(code, folder, "pack", "c-toy")
    assert done.returncode == 0 and done.stdout.startswith("c-toy.pack.tar.xz: 2 runs, "), done.stderr
    return folder / "c-toy.pack.tar.xz", code


def contents(pack: pathlib.Path) -> dict[str, bytes]:
    with tarfile.open(pack, "r:xz") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


def repacked(pack: pathlib.Path, target: pathlib.Path, change) -> pathlib.Path:
    """A copy with other contents."""
    files = contents(pack)
    change(files)
    with tarfile.open(target, "w:xz") as tar:
        for name, data in files.items():
            path = target.with_name("member")
            path.write_bytes(data)
            tar.add(path, arcname=name)
    return target


def test_what_is_in_it(packed):
    files = contents(packed[0])
    about = json.loads(files["pack.json"])
    assert set(about["files"]) == set(files) - {"pack.json"} and about["name"] == "c-toy"
    runs = {name.split("/")[1] for name in files if name.startswith("runs/")}
    assert len(runs) == 2 and not [name for name in files if "/raw/" in name]
    for run in runs:
        assert json.loads(files[f"runs/{run}/run.json"])["raw_sha256"] and f"runs/{run}/metrics.csv" in files
    code = json.loads(files["code.json"])
    assert {"testbed/engines/toy.py", "kernel/uml.config", "traffic/cbr.py"} <= set(code)
    assert "report/index.html" in files


@pytest.fixture
def nobodys_folder() -> Iterator[pathlib.Path]:
    """Not among pytest's own, which every session that begins makes private again."""
    if os.geteuid():
        pytest.skip("only root can be another user")
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, _NOBODY, _NOBODY)
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def test_another_checkout_and_another_user(packed, nobodys_folder):
    folder = nobodys_folder
    code = toy_checkout.make(folder / "another/checkout")
    pack = shutil.copy(packed[0], folder)
    done = command(code, folder, "verify", pack, "--jobs", "1", user=_NOBODY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("identical: 2 runs of c-toy\n") and done.stdout.count("identical: reno-seed") == 2
    # other code that gives other data: which files, which bytes
    toy = code / "testbed/engines/toy.py"
    toy.write_text(toy.read_text().replace('"drops": 0', '"drops": 1'))
    done = command(code, folder, "verify", pack, user=_NOBODY)
    assert done.returncode == 5 and "note: 1 files of the testbed differ: testbed/engines/toy.py\n" in done.stdout
    assert "reno-seed1: different data in queue.csv.gz; what differs besides: the testbed's code that runs inside" in \
        done.stderr
    assert done.stderr.endswith("c-toy.pack.tar.xz: 2 of 2 runs gave other data\n")
    assert not (folder / "results").exists() and not list(folder.glob("verify-*"))


def _evil(files):
    files["../evil"] = b""


@pytest.mark.parametrize("change, words", [
    (lambda files: files.update({next(n for n in files if n.endswith("run.json")): b"{}"}), "run.json is not what was"),
    (lambda files: files.pop("experiment.json"), "damaged: experiment.json is not what was packed"),
    (lambda files: files.update(more=b"x"), "damaged: more is not what was packed"),
    (lambda files: files.update({"pack.json": b"[]"}), "not a pack of this version"),
    (lambda files: files.pop("pack.json"), "damaged, or not a pack: "),
    (_evil, "a name that leads outside")])
def test_a_pack_that_was_changed(packed, tmp_path, change, words):
    pack = repacked(packed[0], tmp_path / "changed.pack.tar.xz", change)
    from testbed.core.errors import UsageError
    from testbed.runs import pack as packs
    with pytest.raises(UsageError, match=words) as refused:
        packs.unpack(pack, tmp_path / "to")
    assert "\n" not in str(refused.value) and not (tmp_path / "evil").exists()


@pytest.mark.parametrize("data", [b"", b"no pack", lzma.compress(b"no tar")])
def test_what_is_no_pack(packed, tmp_path, data):
    path = tmp_path / "no.tar.xz"
    path.write_bytes(data)
    done = command(packed[1], tmp_path, "verify", path)
    assert done.returncode == 2 and done.stderr.startswith(f"testbed: {path}: damaged, or not a pack: ")
    assert done.stderr.count("\n") == 1


def test_a_truncated_pack(packed, tmp_path):
    from testbed.core.errors import UsageError
    from testbed.runs import pack as packs
    whole = packed[0].read_bytes()
    (tmp_path / "cut.tar.xz").write_bytes(whole[:len(whole) // 2])
    with pytest.raises(UsageError, match="cut.tar.xz: damaged, or not a pack: "):
        packs.unpack(tmp_path / "cut.tar.xz", tmp_path / "to")
