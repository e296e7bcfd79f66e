# SPDX-License-Identifier: GPL-2.0-only
"""What engine host says to those who cannot use it."""
import os
import subprocess

import pytest

from testbed import PROJECT_DIR, engines
from testbed.engines.host import needs, timers

#: nobody, who may read all files: a checkout may be in root's home
_READS = "+dac_read_search"
_NOBODY = ["setpriv", "--reuid", "65534", "--clear-groups", "--bounding-set", f"-all,{_READS}", "--inh-caps", _READS,
           "--ambient-caps", _READS] if os.geteuid() == 0 else []


@pytest.mark.parametrize("words", [["run", "access-link", "--quick"], ["doctor"]])
def test_without_root_it_says_what_is_needed_and_what_is_not(tmp_path, words):
    done = subprocess.run([*_NOBODY, PROJECT_DIR / "bin" / "testbed", *words, "--engine", "host"], cwd="/tmp",
                          env={"PATH": os.environ["PATH"], "TESTBED_RESULTS": "/tmp", "TESTBED_CACHE": "/tmp"},
                          capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    said = done.stdout + done.stderr
    assert "engine host needs root" in said and "CAP_NET_ADMIN" in said and "sudo" in said
    assert f"--engine {engines.DEFAULT}, which needs none of it" in said


@pytest.fixture
def trials(monkeypatch, tmp_path):
    """trials(ip's errors, tc's errors) -> messages of what the kernel lacks."""
    def carry_out(ip="", tc=""):
        monkeypatch.setattr(needs, "_namespace", lambda: open(os.devnull))
        monkeypatch.setattr(needs, "_TRACING", tmp_path)
        monkeypatch.setattr(needs.subprocess, "run", lambda words, **_: subprocess.CompletedProcess(
            words, 1, "", {"ip": ip, "tc": tc}[words[0]]))
        return [problem.message for problem in needs.kernel_lacks()]
    (tmp_path / "instances").mkdir()
    for event in ("qdisc/qdisc_enqueue", "tcp/tcp_probe"):
        (tmp_path / "events" / event).mkdir(parents=True)
    return carry_out


def test_a_kernel_that_lacks_something_is_one_line(trials, monkeypatch):
    monkeypatch.setattr(needs.modules, "possible", lambda: False)
    said, *_ = trials("Error: Unknown device type.\nCommand failed -:2\n",
                      "Error: Specified qdisc kind is unknown.\nCommand failed -:3\nCommand failed -:5\n")
    assert said.startswith("this kernel has no CONFIG_IFB, CONFIG_NET_SCH_NETEM, CONFIG_NET_CLS_MATCHALL, "
                           "CONFIG_NET_ACT_MIRRED")
    assert said.endswith(" and loads no modules that could have it") and "\n" not in said


def test_the_depth_of_buckets_is_how_late_99_of_100_timers_are():
    assert timers.period_us(list(range(1, 301))) == 297
    assert timers.period_us([7]) == 7


def test_timers_are_measured():
    late = timers.lateness_us()
    assert late == sorted(late) and len(late) == 300 and late[0] >= 0 and late[-1] > 0


def test_the_kernels_key_tells_kernels_apart():
    engine = engines.load("host")
    assert engine.kernel_key().startswith(os.uname().release + "-") and engine.kernel_release() == os.uname().release
    assert not engine.capabilities.parallel and engine.capabilities.clock == "real"
    assert "reno" in engine.congestion_controls()
