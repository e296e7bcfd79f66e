# SPDX-License-Identifier: GPL-2.0-only
"""The suite's wireless LAN at 60 % load, in its quick version: valid, and what is offered and carried in the cell.

Skipped where the guest kernel with radios is not built; `make test-wireless` builds it.
"""
import pytest

CCAS = ("sack", "cubic", "vegas", "bbr")
LINKS = ("right_to_left", "left_to_right")


@pytest.mark.parametrize("cca", CCAS)
def test_a_quick_run_is_valid_and_offers_its_load(air_runs, cca):
    """Both directions share 6 Mbit/s: 60 % are 3.6 Mbit/s. Headers, acknowledgements and contention make it more of the
    channel's time."""
    one, = air_runs("wireless-lan", cca, {"load": "60"})
    assert sum(one.values["offered_load", link] for link in LINKS) == pytest.approx(3.6, rel=0.05)
    assert 60 < one.values["air_busy", "air"] < 100
