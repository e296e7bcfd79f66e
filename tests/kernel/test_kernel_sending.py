# SPDX-License-Identifier: GPL-2.0-only
"""What programs hand to the guest's kernel: registered memory is sent without copies, texts are read to their end."""
import errno

import pytest

import kernel
from tests.kernel import sending_guest
from tests.kernel.guest_script import result_of


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return result_of(kernel.ensure().program, sending_guest.__file__, tmp_path_factory.mktemp("sending"))


def test_registered_memory_is_sent_and_waits_in_sockets_without_a_copy(found):
    (can, taken_kb, right), (_, copied_kb, copied_right) = found["registered"], found["copied"]
    assert can and right and copied_right
    # a hundred sockets, each with tens of kB that wait, and some kB of the kernel's own for them
    assert copied_kb > 5000 and taken_kb < copied_kb / 3


def test_texts_are_read_up_to_their_end_and_no_further(found):
    assert found["texts"] == {"inside": 0, "across": 0, "up to the end": 0, "no end": errno.EFAULT,
                              "none": errno.ENOENT, "too long": errno.ENAMETOOLONG, "longest": 0}
