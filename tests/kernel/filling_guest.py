# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest: fills memory, gives it back, fills it again."""
import hashlib
import mmap
import os
import sys


def main(mb):
    """The hash of what is in the memory."""
    found = hashlib.sha256()
    for fill in (1, 2):
        with mmap.mmap(-1, int(mb) << 20) as memory:
            for at in range(0, len(memory), mmap.PAGESIZE):
                assert memory[at:at + 8] == bytes(8)
                memory[at:at + 8] = (at + fill).to_bytes(8, "little")
            found.update(memory)
    return found.hexdigest()


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    from guest_script import answer
    answer(main)
