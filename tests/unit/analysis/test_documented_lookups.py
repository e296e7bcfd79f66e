# SPDX-License-Identifier: GPL-2.0-only
"""What the pages say of looking up, comparing, listing and removing works as it stands there, line by line."""
import csv
import io
import json
import os
import shlex
import signal
import subprocess
import urllib.request

import pytest

from testbed import PROJECT_DIR, cli
from testbed.core.files import write_json
from tests.unit.analysis import fixture

LIMIT = "topology.central.queue.limit"


def documented(page, *commands):
    """The words behind bin/testbed of each indented line of a page that has one of these commands."""
    lines = (PROJECT_DIR / "docs" / page).read_text().splitlines()
    found = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("    bin/testbed ")]
    return [words for words in found if words[0] in commands or " ".join(words[:2]) in commands]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The experiments that the pages speak of; the sweep is one at 85 %."""
    folder = tmp_path_factory.mktemp("documented")
    small = {"tmix": False, "shapes": {name: fixture.Shape(test_s=2) for name in ("reno", "cubic")}}
    for name in ("access-link-load60", "access-link-load60-kernel6.1"):
        fixture.write_experiment(folder / "results" / name, seeds=(1, 2), **small)
    fixture.write_experiment(folder / "results/access-link-load60-quick", ccas=("reno",), seeds=(1,), **small,
                             points=[{LIMIT: "85"}, {LIMIT: "170"}])
    for run in json.loads((folder / "results/access-link-load60-quick/experiment.json").read_text())["runs"]:
        path = folder / "results/runs" / run["id"] / "plan.json"
        plan = json.loads(path.read_text())
        plan["labels"]["parameters"] = {"load": "85"}
        write_json(path, plan)
    return folder


@pytest.fixture
def testbed(folder, monkeypatch, capsys):
    """testbed(words) -> what the command says; it must not fail."""
    monkeypatch.setenv("TESTBED_RESULTS", str(folder / "results"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(folder)

    def call(words):
        code, said = cli.main(words), capsys.readouterr()
        assert code == 0 and said.err == "", (words, said)
        return said.out
    return call


def test_queries(testbed):
    table, as_csv, as_json, counters = [testbed(words) for words in documented("howto/queries.md", "runs query")]
    assert "TcpRetransSegs" in counters
    assert table.startswith("4 runs: ") and "throughput" in table and "_p95" in table
    rows = list(csv.DictReader(io.StringIO(as_csv)))
    assert [row["load"] for row in rows] == ["85", "85"] and all(float(row["throughput_mean:left_to_right"]) > 0
                                                                 for row in rows)
    found = json.loads(as_json)
    assert [run[LIMIT] for run in found["runs"]] == ["170"] and found["units"]["drops"] == "packets"


def test_the_comparison(testbed, folder):
    line, = documented("explanation/statistics.md", "compare")
    assert "compare-access-link-load60" in testbed(line) and list(folder.glob("results/compare-*/**/index.html"))


def test_sites(testbed, folder):
    for words in [words for words in documented("reference/reports.md", "report") if words[1:2] in ([], ["--output"])]:
        page = folder / testbed(words).strip()
        assert "access-link-load60-kernel6.1" in page.read_text()
    assert (folder / "results/index.html").is_file() and (folder / "public/index.html").is_file()


def test_the_live_view_in_a_browser(folder):
    first, usual, free = documented("howto/watch.md", "watch")
    assert (first, usual, free) == (["watch"], ["watch", "--serve"], ["watch", "--serve", "0"])
    with subprocess.Popen([PROJECT_DIR / "bin/testbed", *free], stdout=subprocess.PIPE, text=True, env={
            **os.environ, "TESTBED_RESULTS": str(folder / "results")}) as watching:
        try:
            address = watching.stdout.readline().split()[0]
            with urllib.request.urlopen(address, timeout=60) as page:
                assert page.status == 200 and "<title>" in page.read().decode()
        finally:
            watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0           # as the page says: Ctrl-C ends it


def test_what_is_kept_and_removed(testbed, folder):
    """Last: it removes."""
    commands = documented("howto/queries.md", "runs list", "runs pin", "runs rm")
    said = [testbed(words) for words in commands]
    assert [words[1] for words in commands] == ["list", "pin", "rm", "rm", "rm"]
    assert said[0].startswith("10 runs in ") and said[1].count("figure 3 of the paper") == 4
    assert not (folder / "results/access-link-load60-quick").exists()
    assert "2 runs" in said[3] and "2 runs" in said[4]
    assert len(list((folder / "results/runs").glob("[!.]*"))) == 8
