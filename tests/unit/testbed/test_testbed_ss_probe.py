# SPDX-License-Identifier: GPL-2.0-only
"""The ss probe: runs in every host, keeps the text, and gives the same bytes for the same text."""
import gzip

import pytest

from testbed.probes import ss
from tests.unit.testbed.no_network import NoNetwork
from tests.unit.testbed.probe_contexts import context
from topologies.links.records import Network

DESCRIPTION = {"nodes": [{"name": "n1", "role": "host"}, {"name": "r1", "role": "router"},
                         {"name": "n2", "role": "host"}]}


@pytest.fixture
def fake_ss(tmp_path, monkeypatch):
    """fake_ss(script): what stands behind the name ss."""
    def install(script):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "ss").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "ss").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return install


def record(folder, times_us, settings=None):
    sampler = ss.Sampler(ss.Options(**settings or {}), NoNetwork(), Network(DESCRIPTION), folder)
    sampler.open()
    for t_us in times_us:
        sampler.sample(t_us)
    assert sampler.close() == {}
    return sampler


def test_text_of_every_host_at_every_time(tmp_path, fake_ss):
    fake_ss('printf "ESTAB %s\\n\\t cubic cwnd:10\\n" "$*"')
    sampler = record(tmp_path, [3, 1_000_004])
    assert sampler.interval_us == 1_000_000 and sampler._network.entered == ["n1", "n2", "n1", "n2"]
    ss.collect(tmp_path, tmp_path, context(ss))
    text = "ESTAB -tinH\n\t cubic cwnd:10\n"
    assert gzip.decompress((tmp_path / "ss.txt.gz").read_bytes()).decode() == "".join(
        f"# t_us={t_us} node={node}\n{text}" for t_us in (3, 1_000_004) for node in ("n1", "n2"))


def test_same_text_same_bytes(tmp_path, fake_ss):
    fake_ss("echo SYN-SENT")
    packed = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        record(tmp_path / name, [0])
        ss.collect(tmp_path / name, tmp_path / name, context(ss))
        packed.append((tmp_path / name / "ss.txt.gz").read_bytes())
    assert packed[0] == packed[1]


def test_interval_of_the_scenario(tmp_path):
    assert record(tmp_path, [], {"interval_us": 250_000}).interval_us == 250_000


def test_a_failure_says_which_host_and_why(tmp_path, fake_ss):
    fake_ss("echo Cannot open netlink socket >&2; exit 3")
    with pytest.raises(OSError, match=r"ss -tinH on n1 ended with status 3: Cannot open netlink socket"):
        record(tmp_path, [0])
