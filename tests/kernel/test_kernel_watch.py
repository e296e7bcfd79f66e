# SPDX-License-Identifier: GPL-2.0-only
"""`testbed watch` sees the samples of a run that is under way."""
import os
import subprocess
import time

from testbed import PROJECT_DIR
from testbed.runs import live


def test_a_run_is_seen_while_it_is_under_way(tmp_path):
    results = tmp_path / "results"
    run = subprocess.Popen(
        [PROJECT_DIR / "bin/testbed", "run", PROJECT_DIR / "docs/examples/two-hosts.yaml", "--cca", "reno",
         "--set", "timing.test=600 s", "--no-report", "--yes"],
        env=os.environ | {"TESTBED_RESULTS": str(results)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = None
    while run.poll() is None and seen is None:
        time.sleep(0.02)
        for one in live.Watcher(results).look().running:
            seen = next((link for link in one.links if link.name == "n1_to_s1" and link.mean_mbps > 1), seen)
    run.terminate()
    run.wait()
    assert seen is not None, "nothing was seen before the run ended"
    assert 0 < seen.now_mbps <= 10.1 and seen.rate_mbps == 10 and seen.backlog_packets <= 50
    times = [at_s for at_s, _, _ in seen.curve]
    assert times == sorted(set(times)) and all(0 <= rate <= 12 for _, rate, _ in seen.curve)
