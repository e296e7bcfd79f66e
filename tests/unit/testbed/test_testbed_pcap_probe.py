# SPDX-License-Identifier: GPL-2.0-only
"""The probe pcap with `tool: tcpdump`: what is started, and what is said where it cannot be. No network."""
import pytest

from testbed.probes import pcap


def test_without_tcpdump_the_run_ends_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match=r"tool: tcpdump: tcpdump is not installed \(apt-get install tcpdump\)"):
        pcap._tcpdump("n1-eth0", 96, str(tmp_path))


def test_the_command_that_is_started(tmp_path, monkeypatch):
    """It captures on the device that it is given, and what it says is waited for."""
    (tmp_path / "tcpdump").write_text('#!/bin/sh\necho "$@" > words\necho "listening on $8" >&2\n')
    (tmp_path / "tcpdump").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    assert pcap._tcpdump("n1-eth0", 96, "/run").wait() == 0
    assert (tmp_path / "words").read_text().split() == [
        "-Z", "root", "-n", "--time-stamp-precision=nano", "-s", "96", "-i", "n1-eth0", "-w",
        "/run/tcpdump-n1-eth0.pcap"]


def test_one_that_does_not_start_says_why(tmp_path, monkeypatch):
    (tmp_path / "tcpdump").write_text('#!/bin/sh\necho "n1-eth0: no such device" >&2\nexit 1\n')
    (tmp_path / "tcpdump").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(OSError, match="probe pcap: tcpdump on n1-eth0 does not start: n1-eth0: no such device"):
        pcap._tcpdump("n1-eth0", 96, str(tmp_path))
