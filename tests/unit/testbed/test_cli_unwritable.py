# SPDX-License-Identifier: GPL-2.0-only
"""Results that cannot be written are told before a kernel is built for them."""
import pytest

from testbed import cli
from testbed.cli import _runs


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
                                       "TESTBED_RESULTS names another folder\n")
