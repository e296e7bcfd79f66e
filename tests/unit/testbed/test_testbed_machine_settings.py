# SPDX-License-Identifier: GPL-2.0-only
"""Settings of the whole kernel are as they were after a run."""
import pytest

from testbed.guest.settings import MachineSettings


def test_everything_is_put_back_in_the_opposite_order_also_after_an_error(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("1\n")
    second.write_text("a b\n")
    with pytest.raises(ZeroDivisionError), MachineSettings() as machine:
        machine.file(str(first), 2)
        machine.file(str(second), "c")
        machine.file(str(first), 3)
        assert (first.read_text(), second.read_text()) == ("3", "c")
        raise ZeroDivisionError
    assert (first.read_text(), second.read_text()) == ("1\n", "a b\n")


def test_what_cannot_be_put_back_is_said_and_keeps_nothing_else(tmp_path, capsys):
    gone, other = tmp_path / "folder" / "gone", tmp_path / "other"
    gone.parent.mkdir()
    gone.write_text("1")
    other.write_text("1")
    with MachineSettings() as machine:
        machine.file(str(other), 2)
        machine.file(str(gone), 2)
        gone.unlink()
        gone.parent.rmdir()
    assert other.read_text() == "1" and "could not be put back to '1': No such file" in capsys.readouterr().err


def test_a_setting_that_is_not_there_is_an_error(tmp_path):
    with MachineSettings() as machine, pytest.raises(OSError):
        machine.file(str(tmp_path / "no" / "such"), 1)
    with MachineSettings() as machine, pytest.raises(ValueError, match="the kernel knows no such setting"):
        machine.sysctl("net.ipv4.no_such", 1)
