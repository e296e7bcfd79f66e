# SPDX-License-Identifier: GPL-2.0-only
"""The kernel module of queues forgets what nobody has read when its devices are closed."""
import kernel
from tests.kernel import guest_script, queue_devices_guest


def test_nothing_is_left_of_who_did_not_read(engine, tmp_path):
    module, = engine.probe_modules(["sojourn"])
    found = guest_script.result_of(kernel.ensure().program, queue_devices_guest.__file__, tmp_path, module)
    # an entry has 16 bytes, and each packet two; a row has 56, and the last interval is not over
    assert found == {"queue_log": [96, None, 0], "queue_sojourn": [112, None, 0]}
