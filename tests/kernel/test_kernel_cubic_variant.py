# SPDX-License-Identifier: GPL-2.0-only
"""The module tcp_cubic_variant: the kernel's CUBIC, segment by segment, and what its choices change."""
import pytest

from tests.kernel.module_builds import MODULES
from tests.kernel.small_runs import small_scenario

RATE = {"rate": "20 Mbit/s", "delay": "5 ms", "queue": {"kind": "pfifo", "limit": 300}}


@pytest.fixture(scope="module", params=["its own losses", "random losses, timeouts, pauses"])
def windows(request, run_scenario):
    """windows(CCA): (time in us, cwnd, ssthresh) of the sender, every 10 ms; the same network, seed and losses."""
    traffic, link = {"kind": "greedy", "tool": "sockets"}, RATE
    if request.param != "its own losses":
        traffic = {"kind": "phases", "phases": [{"at": "0 s"}, {"at": "9 s", "rate": "0 bit/s"}, {"at": "12 s"}]}
        link = {**RATE, "loss": "2 %"}
    found = {}

    def of(cca):
        if cca not in found:
            run = run_scenario(small_scenario(**{
                "topology.central": link, "topology.left_delays": ["15 ms"], "topology.right_delays": ["10 ms"],
                "traffic": {**traffic, "paths": ["n2->n1"]}, "timing.test": "29 s",
                "probes": {"queue": {}, "tcp_info": {"interval": "10 ms"}}}), cca=cca)
            table = run.table("tcp_info")
            sender = table[table["dport"] == run.json("raw/workload.json")["flows"][0]["dport"]]
            found[cca] = [tuple(row) for row in sender[["t_us", "cwnd", "ssthresh"]].itertuples(index=False)]
        return found[cca]
    return of


def test_without_choices_it_is_the_kernels_cubic(windows, tmp_path):
    """HyStart ends slow start, losses and timeouts reduce, pauses shift the epoch. Windows differ by three segments at
    most: the kernel's cube root is an approximation, and ours is not."""
    (tmp_path / "plain.yaml").write_text(
        f"title: no choice\nkernel_cca: cubic_variant\nmodule: {MODULES}/tcp_cubic_variant\n")
    kernels, ours = windows("cubic"), windows(str(tmp_path / "plain.yaml"))
    assert [row[0] for row in kernels] == [row[0] for row in ours]
    apart = [abs(one - other) for both in zip(kernels, ours) for one, other in zip(*both)]
    assert max(apart) <= 3


@pytest.mark.parametrize("windows", ["its own losses"], indirect=True)
@pytest.mark.parametrize("variant, ends_at", [("cubic", 131), ("cubic-late-rounds", 136), ("cubic-floor", 560)])
def test_a_choice_changes_where_slow_start_ends(windows, variant, ends_at):
    """Late rounds make HyStart end it later, and without HyStart a loss does."""
    threshold = next(ssthresh for _, _, ssthresh in windows(variant) if ssthresh < 2**31 - 1)
    assert threshold == ends_at
