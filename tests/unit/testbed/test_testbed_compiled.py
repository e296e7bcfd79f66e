# SPDX-License-Identifier: GPL-2.0-only
"""The replay's compiled code: made once for its sources and its compiler, and done without where that fails."""
import os
import pathlib
import time

import pytest

from kernel import build
from testbed import bundle, compiled, kept

LIBRARY = f"abc__mypyc{compiled._SUFFIX}"


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """What a compiler that needs no time was called with; its cache is empty."""
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TESTBED_COMPILED", raising=False)
    monkeypatch.setattr(compiled, "_tools", lambda: {"mypyc": "1", "gcc": "2", "python": "3"})
    monkeypatch.setattr(compiled, "_lacking", lambda: "")
    made = []

    def run(scratch, *words):
        made.append(words)
        if "mypyc" in words:
            (scratch / LIBRARY).write_text("library")
            # mypyc 1.15 refuses imports of what is not there
            assert not any(path.read_bytes() for path in scratch.rglob("__init__.py"))
            for name in compiled.MODULES:
                assert (scratch / name).read_bytes() == bundle.source(name)
                (scratch / name).with_suffix(compiled._SUFFIX).write_text(name)
    monkeypatch.setattr(compiled, "_run", run)
    return made


def test_it_is_made_once_and_lies_beside_its_sources(calls, tmp_path):
    said = []
    assert compiled.find() is None and compiled.provenance() is None
    made = compiled.ensure(said.append)
    assert made == compiled.find() and len(calls) == 2 and said == ["compiling the Tmix replay (once, some 15 s)"]
    assert compiled.ensure(said.append) == made and len(calls) == 2 and len(said) == 1
    assert compiled.provenance() == {"key": made.name, "mypyc": "1", "gcc": "2", "python": "3"}
    plain, digest = bundle.ensure(), bundle.digest()
    both = bundle.ensure(made)
    assert both.name == f"{plain.name}-{made.name}" and bundle.digest() == digest
    files = [{path.relative_to(folder) for path in folder.rglob("*") if path.is_file()} for folder in (plain, both)]
    assert {str(path) for path in files[1] - files[0]} == {
        LIBRARY, *(str(pathlib.Path(name).with_suffix(compiled._SUFFIX)) for name in compiled.MODULES)}
    # what stands in for a compiled module cannot be imported: its program has no image
    assert {path for path in files[0] if path.parts[0] != bundle.IMAGES} < files[1] and kept.whole(both)


@pytest.mark.parametrize("changed", [compiled.MODULES[0], "traffic/payload.py"])
def test_another_source_is_compiled_again(calls, monkeypatch, changed):
    made, source = compiled.ensure(print), bundle.source
    monkeypatch.setattr(bundle, "source", lambda name: source(name) + b"# more\n" * (name == changed))
    assert compiled.find() is None and compiled.ensure(print) not in (None, made) and len(calls) == 4


def test_another_compiler_compiles_again(calls, monkeypatch):
    made = compiled.ensure(print)
    monkeypatch.setattr(compiled, "_tools", lambda: {"mypyc": "1", "gcc": "3", "python": "3"})
    assert compiled.ensure(print) not in (None, made)


def test_a_damaged_one_is_made_again(calls):
    made = compiled.ensure(print)
    (made / LIBRARY).write_text("another")
    assert compiled.find() is None and compiled.ensure(print) == made and (made / LIBRARY).read_text() == "library"


def test_it_can_be_gone_without(calls, monkeypatch):
    compiled.ensure(print)
    monkeypatch.setenv("TESTBED_COMPILED", "no")
    said = []
    assert compiled.ensure(said.append) is None and compiled.find() is None and not said


def test_what_the_compiler_refuses_is_said_in_a_line_and_not_tried_again(calls, monkeypatch, tmp_path):
    tried, said = [], []

    def refuse(*_):
        tried.append(1)
        raise compiled._Refused("traffic/clock.py:1: error: no")
    monkeypatch.setattr(compiled, "_run", refuse)
    assert compiled.ensure(said.append) is None and compiled.ensure(said.append) is None
    note, = (tmp_path / "cache" / "compiled").glob("*.failed")
    assert len(tried) == 1 and said[1:] == 2 * [
        "Tmix replays go without compiled code, which makes them slower and changes nothing else: "
        f"traffic/clock.py:1: error: no (tried again after a day, or without {note})"]


def test_a_kernel_that_is_being_built_is_not_waited_for(calls):
    said = []
    with build.lock(said.append):
        assert compiled.ensure(said.append) and len(said) == 1


@pytest.mark.parametrize("trouble", ["a day", "full disk"])
def test_what_was_refused_is_tried_again(calls, monkeypatch, tmp_path, trouble):
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "_run", refuse)
        assert compiled.ensure(print) is None
    note, = (tmp_path / "cache" / "compiled").glob("*.failed")
    if trouble == "full disk":
        note.write_text("")                     # there was no room for the reason, either
    else:
        os.utime(note, (0, time.time() - 90_000))
    assert compiled.ensure(print)


def refuse(*_):
    raise compiled._Refused("No space left on device")


def test_a_cache_that_cannot_be_written(calls, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "file"))
    said = []
    assert compiled.ensure(said.append) is None and "file" in said[0] and len(said) == 1


def test_missing_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TESTBED_COMPILED", raising=False)
    monkeypatch.setattr(compiled, "_PACKAGES", tmp_path)
    said = []
    assert compiled.ensure(said.append) is None
    assert said == ["Tmix replays go without compiled code, which makes them slower and changes nothing else: "
                    "missing: python3-mypy, python3-setuptools (make setup)"]


def test_the_first_error_is_the_reason(tmp_path):
    """Neither a compiler's complaint nor a module that stayed Python goes unnoticed."""
    with pytest.raises(compiled._Refused, match="^SystemError: of two lines$"):
        compiled._run(tmp_path, "-S", "-c", "import sys; print('nothing'); sys.exit('SystemError: of two lines')")
    (tmp_path / "plain.py").write_text("")
    with pytest.raises(compiled._Refused, match="plain.py is used$"):
        compiled._run(tmp_path, "-S", "-c", compiled._IMPORT, "plain")
