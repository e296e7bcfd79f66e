# SPDX-License-Identifier: GPL-2.0-only
"""Files of users are read with a limit; what is written is whole or not there."""
import os

import pytest

from testbed.core import files


@pytest.mark.parametrize("make, kind, words", [
    (os.mkfifo, OSError, "not a regular file"), (os.mkdir, IsADirectoryError, "Is a directory"),
    (lambda path: os.symlink("/dev/zero", path), OSError, "not a regular file"),
    (lambda path: os.symlink(path, path), OSError, "Too many levels of symbolic links"),
    (lambda path: None, FileNotFoundError, "No such file or directory")])
def test_what_is_no_regular_file_is_not_read(tmp_path, make, kind, words):
    make(tmp_path / "file")
    with pytest.raises(kind) as caught:
        files.read_regular(tmp_path / "file", 10)
    assert caught.value.strerror == words


def test_no_more_is_read_than_tells_that_it_is_too_much(tmp_path):
    (tmp_path / "file").write_bytes(bytes(100))
    before = os.listdir("/proc/self/fd")
    assert [len(files.read_regular(tmp_path / "file", most)) for most in (10, 99, 100, 1000)] == [11, 100, 100, 100]
    assert os.listdir("/proc/self/fd") == before


def test_what_cannot_be_put_in_its_place_leaves_nothing(tmp_path):
    """As `testbed report` where index.html is a folder."""
    (tmp_path / "index.html").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        files.write_text(tmp_path / "index.html", "text")
    assert caught.value.filename == str(tmp_path / "index.html") and os.listdir(tmp_path) == ["index.html"]
