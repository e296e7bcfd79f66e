# SPDX-License-Identifier: GPL-2.0-only
"""Results that cannot be written are told before a kernel is built for them."""
import errno
import tempfile

import pytest

from analysis.pages import overview
from testbed import cli
from testbed.cli import _runs
from tests.unit.analysis import fixture

pytestmark = pytest.mark.usefixtures("quic_programs")


@pytest.mark.parametrize("words", [
    ["run", "access-link", "--quick"], ["run", "access-link", "--quick", "--engine", "uml,ns2"],
    ["suite", "run", "all", "--smoke"], ["suite", "run", "studies"], ["suite", "run", "iccrg", "--quick"],
    ["sensitivity", "access-link", "--cca", "reno,cubic"],
    ["bisect", "access-link", "--tree", "/nonexistent", "--good", "a", "--bad", "b", "--metric", "throughput"]])
def test_nothing_is_built(tmp_path, monkeypatch, capsys, words):
    def build(*_):
        raise AssertionError("a kernel would be built")
    monkeypatch.setattr(_runs, "make_engine_ready", build)
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "file/results"))
    (tmp_path / "file").write_text("")
    assert cli.main(words) == 3
    assert capsys.readouterr().err == (f"testbed: results cannot be written: {tmp_path}/file is not a folder; "
                                       "--results FOLDER names another folder\n")


@pytest.mark.parametrize("words", [
    ["report", "demo"], ["report"], ["report", "--output", "/proc/1"], ["compare", "demo", "other"],
    ["export", "demo", "--format", "flent", "--output", "/proc/1"]])
def test_a_page_that_cannot_be_written_is_no_fault_of_the_results(tmp_path, monkeypatch, capsys, words):
    """Exit code 3, as of a run: a permission is missing."""
    for name in ("demo", "other"):
        fixture.write_experiment(tmp_path / name, ccas=["reno", "cubic"], seeds=[1])
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))

    def refused(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))
    if "/proc/1" not in words:
        monkeypatch.setattr(tempfile, "mkdtemp", refused)
        monkeypatch.setattr(overview, "write_text", refused)
    assert cli.main(words) == 3
    said = capsys.readouterr().err
    assert "annot " in said and said.count("\n") == 1
