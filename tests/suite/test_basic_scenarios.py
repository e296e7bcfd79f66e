# SPDX-License-Identifier: GPL-2.0-only
"""The basic scenarios of the Common TCP Evaluation Suite at 60 % load: quick versions are valid, and offer their load.

Minutes; not part of `make test`.
"""
import pytest

SCENARIOS = ("access-link", "data-center", "trans-oceanic", "geo-satellite", "dial-up")
#: the baseline of the suite first: NewReno with SACK
CCAS = ("sack", "cubic", "vegas", "bbr")


@pytest.mark.parametrize("cca", CCAS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_quick_run_is_valid_and_offers_its_load(quick_runs, name, cca):
    one, = quick_runs(name, cca, {"load": "60"})
    assert one.values["offered_load_share", "right_to_left"] == pytest.approx(60, rel=0.05)
