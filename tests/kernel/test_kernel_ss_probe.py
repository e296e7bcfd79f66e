# SPDX-License-Identifier: GPL-2.0-only
"""The ss probe in a run: the text agrees with tcp_info, and shows what a module's get_info() exports."""
import gzip
import re

import pytest
import yaml

from testbed.scenario.scenario import SCENARIO_DIR


@pytest.fixture(scope="module")
def tahoe_run(run_scenario):
    """Tahoe with two lost segments, and ss four times a second."""
    tree = yaml.safe_load((SCENARIO_DIR / "loss-recovery.yaml").read_text())
    tree["probes"]["ss"] = {"interval": "250 ms"}
    return run_scenario(tree, cca="tahoe")


@pytest.fixture(scope="module")
def texts(tahoe_run):
    """{(t in units of 250 ms, node): text}."""
    text = gzip.decompress((tahoe_run.folder / "raw" / "ss.txt.gz").read_bytes()).decode()
    _, *parts = re.split(r"^# (t_us=\d+ node=\w+)\n", text, flags=re.M)
    found = {}
    for head, body in zip(parts[::2], parts[1::2]):
        t_us, node = re.fullmatch(r"t_us=(\d+) node=(\w+)", head).groups()
        # virtual time: running a program takes next to none
        assert int(t_us) % 250_000 < 100
        found[int(t_us) // 250_000, node] = body
    return found


def test_every_host_at_every_time(texts):
    assert list(texts) == [(number, node) for number in range(13) for node in ("n1", "n2")]


def test_it_says_what_tcp_info_says(tahoe_run, texts):
    samples = tahoe_run.table("tcp_info")
    samples = samples[samples["dport"] == 6000].set_index("t_us")
    for number in range(1, 12):
        text = texts[number, "n2"]
        assert text.startswith("ESTAB") and len(re.findall(r"^ESTAB", text, re.M)) == 1
        # sampled at the same time, in either order
        near = samples.loc[number * 250_000 - 1500:number * 250_000 + 1500]
        assert int(re.search(r"\bcwnd:(\d+)", text).group(1)) in set(near["cwnd"])
        assert re.search(r"^\s+tahoe .*\bmss:1448\b", text, re.M)


def test_it_shows_what_the_module_exports(texts):
    """tcp_tahoe borrows DCTCP's names: alpha is its number of fast retransmits, ab_ecn of timeouts."""
    assert "dctcp:(ce_state:0,alpha:0,ab_ecn:0" in texts[1, "n2"]
    assert "dctcp:(ce_state:0,alpha:1,ab_ecn:0" in texts[11, "n2"]


def test_the_verdict_stays_valid(tahoe_run):
    verdict = tahoe_run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
