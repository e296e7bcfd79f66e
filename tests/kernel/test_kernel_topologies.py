# SPDX-License-Identifier: GPL-2.0-only
"""The examples of docs/howto/topologies.md, run as they stand there."""
import pathlib
import re

import pytest
import yaml

_PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/howto/topologies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name, base_rtts_us, bottleneck, rate_bps", [
    ("star", [4000] * 4 + [6000] * 4, "left_to_right", 10**8),
    ("hybrid", [60_000] * 2, "r2_to_n3", 1_500_000), ("two-hosts", [40_000], "n1_to_s1", 10**7),
    ("chain", [26_000], "r2_to_r3", 5 * 10**6)])
def test_an_example(run_scenario, name, base_rtts_us, bottleneck, rate_bps):
    """Valid, with the round trips of its links, and its bottleneck is full."""
    block = re.search(rf"`examples/{name}\.yaml`.*?```yaml\n(.*?)```", _PAGE, re.DOTALL)
    run = run_scenario(yaml.safe_load(block.group(1)))
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert [path["base_rtt_us"] for path in run.json("raw/network.json")["paths"]] == base_rtts_us
    queue = run.table("queue")
    sent = queue[(queue["link"] == bottleneck) & (queue["t_us"] >= 900_000)]
    span_us = sent["t_us"].iloc[-1] - sent["t_us"].iloc[0]
    assert (sent["sent_bytes"].iloc[-1] - sent["sent_bytes"].iloc[0]) * 8e6 / span_us > 0.9 * rate_bps
