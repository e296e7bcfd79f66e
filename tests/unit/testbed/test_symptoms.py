# SPDX-License-Identifier: GPL-2.0-only
"""What runs show besides metrics, for `testbed bisect --by`."""
import pytest

from testbed.core.files import write_json
from testbed.runs import symptoms
from tests.unit.analysis import fixture

CRASH = """[    1.0] Oops: 0000
[    1.0] RIP: 0033:tcp_mine_cong_avoid+0x10/0x20
[    1.1] Kernel panic - not syncing: Segfault
"""
WARNING = "[    2.0] ------------[ cut here ]------------\n[    2.0] WARNING: CPU: 0 PID: 1 at mine.c:7 mine+0x1/0x2\n"


@pytest.fixture
def finished(tmp_path):
    """finished(verdict, log, late) -> the folder of a run"""
    def run(verdict="valid", log="", late=None):
        folder = fixture.write_run(tmp_path / "runs/0123456789abcdef", subject="reno", tmix=False, verdict=verdict)
        write_json(folder / "raw/late.json", {"read": {}, "tainted": 0, **(late or {})})
        (folder / "log.txt").write_text(log)
        fixture.seal(folder)
        return folder
    return run


@pytest.fixture
def failed(tmp_path):
    def run(error, log=""):
        folder = fixture.write_failed_run(tmp_path / "runs/0123456789abcdef", error)
        (folder / "log.txt").write_text(log)
        return folder
    return run


def test_a_good_run_shows_nothing(finished):
    folder = finished()
    assert [find(folder) for find in symptoms.OF_RUNS.values()] == ["", "", ""]


def test_a_crash(failed):
    folder = failed("the guest kernel crashed: Oops", CRASH)
    assert symptoms.OF_RUNS["crash"](folder) == "Oops: 0000 in tcp_mine_cong_avoid+0x10/0x20"


def test_a_kernel_that_hangs_has_crashed(failed):
    assert symptoms.OF_RUNS["crash"](failed("the guest kernel was killed by SIGSEGV")).endswith("SIGSEGV")


@pytest.mark.parametrize("symptom", symptoms.OF_RUNS)
def test_a_run_that_failed_for_another_reason_cannot_say(failed, symptom):
    with pytest.raises(symptoms.Unknown, match="No space left"):
        symptoms.OF_RUNS[symptom](failed("No space left on device: /x"))


def test_a_warning_in_the_log(finished):
    assert symptoms.OF_RUNS["warning"](finished(log=WARNING)) == "WARNING: CPU: 0 PID: 1 at mine.c:7 mine+0x1/0x2"


def test_a_warning_before_a_crash(failed):
    assert symptoms.OF_RUNS["warning"](failed("the guest kernel crashed", WARNING + CRASH)).startswith("WARNING: ")


def test_a_kernel_that_is_tainted_by_a_warning(finished):
    late = {"tainted": 1 << 9 | 1 << 12, "trouble": ["BUG: scheduling while atomic"]}
    assert symptoms.OF_RUNS["warning"](finished(late=late)) == "BUG: scheduling while atomic"


def test_a_module_of_ones_own_is_no_warning(finished):
    assert symptoms.OF_RUNS["warning"](finished(late={"tainted": 1 << 12 | 1 << 13})) == ""


def test_a_taint_that_nobody_knows(finished):
    with pytest.raises(symptoms.Unknown, match="is not known"):
        symptoms.OF_RUNS["warning"](finished(late={"tainted": None}))


def test_a_suspect_run_is_not_invalid(finished):
    assert symptoms.OF_RUNS["verdict"](finished(verdict="suspect")) == ""


def test_an_invalid_run(finished):
    assert symptoms.OF_RUNS["verdict"](finished(verdict="invalid")).startswith("offered load is 57.1 %")
