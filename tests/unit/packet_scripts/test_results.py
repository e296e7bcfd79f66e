# SPDX-License-Identifier: GPL-2.0-only
"""What became of scripts, as lines and as a file of JUnit."""
import xml.etree.ElementTree as xml

from testbed.packet_scripts import results
from testbed.packet_scripts.results import Outcome, Told

GOOD = Outcome.of("good.pkt", Told({"script": 0, "ok": True, "virtual_ns": 1_500_000_000, "trace": ["0.1 > . 1:1(0)"]}))
BAD = Outcome.of("bad.pkt", Told({"script": 1, "ok": False, "line": 7, "what": "no packet", "lines": ["expected  x"],
                                  "output": "said\x01", "trace": [f"0.{n}" for n in range(30)]}))
SKIPPED = Outcome("new.pkt", skipped="needs accecn")
BROKEN = Outcome.of("broken.pkt", Told({"script": 2, "error": "Traceback\nKeyError: 1\n"}))


def test_lines():
    assert results.lines(1, GOOD) == ["ok 1 - good.pkt"]
    assert results.lines(1, GOOD, verbose=True) == ["# 0.1 > . 1:1(0)", "ok 1 - good.pkt"]
    assert results.lines(3, SKIPPED) == ["ok 3 - new.pkt # SKIP needs accecn"]
    bad = results.lines(2, BAD)
    assert bad[-3:] == ["not ok 2 - bad.pkt", "  bad.pkt:7: no packet", "  expected  x"]
    assert bad[:2] == ["# said\x01", "# 0.20"] and len(bad) == 1 + 10 + 3
    assert not BROKEN.ok and "KeyError: 1" in BROKEN.problem[0]


def test_junit(tmp_path):
    results.write_junit(tmp_path / "results.xml", [GOOD, BAD, SKIPPED], "6.12.1-testbed")
    suite = xml.parse(tmp_path / "results.xml").getroot()
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    good, bad, skipped = suite
    assert (good.get("name"), good.get("time"), list(good)) == ("good.pkt", "1.500000", [])
    assert bad.find("failure").get("message") == "bad.pkt:7: no packet"
    assert bad.find("system-out").text == "said?" and skipped.find("skipped").get("message") == "needs accecn"
