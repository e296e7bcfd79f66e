# SPDX-License-Identifier: GPL-2.0-only
"""`testbed watch`: what runs, read from what is there, without a change to it; the page for a browser."""
import http.client
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import threading

import pytest

from testbed import PROJECT_DIR, cli
from testbed.core import ending
from testbed.core.errors import EnvironmentProblem
from testbed.runs import live, live_server, store

ID, OTHER, DEAD = "a" * 16, "b" * 16, "c" * 16
LINKS = [{"name": "right_to_left", "bottleneck": True, "rate_bps": 10_000_000},
         {"name": "edge", "bottleneck": False, "rate_bps": 10**9},
         {"name": "left_to_right", "bottleneck": True, "rate_bps": 10_000_000}]


def plan(run_id):
    return json.dumps({"id": run_id, "engine": "uml", "subject": "cubic", "seed": 1, "labels": {"name": "demo"},
                       "scenario": {"timing": {"prefill_us": 0, "warmup_us": 0, "duration_us": 20_000_000},
                                    "network": {"links": LINKS}}})


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Of an experiment of three runs one has ended and one is under way; the claim of another is nobody's."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    runs = tmp_path / "runs"
    partial = runs / f".partial-{ID}-{store._me()}"
    (partial / "work").mkdir(parents=True)
    (partial / "plan.json").write_text(plan(ID))
    (partial / "work/progress.json").write_text('{"phase": "traffic", "t_us": 5000000}')
    # 10 Mbit/s and 1 Mbit/s, 100 ms apart; the last sample is not whole
    samples = [(t_us, link, t_us * rate // 8, 0, 3, 15_000, 10) for t_us in range(0, 5_000_001, 100_000)
               for link, rate in ((0, 10), (1, 1))]
    (partial / "work/queue.bin").write_bytes(b"".join(struct.pack("<7q", *one) for one in samples) + b"half")
    (partial / "work/checks.json").touch()
    began = (partial / "plan.json").stat().st_mtime
    os.utime(partial / "work/checks.json", (began - 10, began - 10))
    (runs / f".claim-{ID}").write_text(store._me())
    (runs / f".claim-{DEAD}").write_text(f"{store._host()}-{store._boot_id()}-1-1")
    (runs / OTHER).mkdir()
    (runs / OTHER / "run.json").write_text(json.dumps({"schema": store.SCHEMA, "wall_s": 30.0}))
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/experiment.json").write_text(json.dumps({"runs": [
        {"id": one, "name": name} for one, name in ((ID, "cubic-seed1"), (OTHER, "cubic-seed2"),
                                                    (DEAD, "cubic-seed3"))]}))
    return tmp_path


def contents(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in folder.rglob("*")}


def test_a_look(results):
    before = contents(results)
    look = live.Watcher(results).look()
    one, = look.running
    assert (one.name, one.scenario, one.engine, one.phase) == ("cubic-seed1", "demo", "uml", "traffic")
    assert (one.virtual_s, one.duration_s) == (5, 20) and 0 < one.speed <= 0.5 and one.left_s >= 30
    curves = [tuple((t_us / 1e6, rate, 10) for t_us in range(100_000, 5_000_001, 100_000)) for rate in (10, 1)]
    assert one.links == (live.Link("right_to_left", 10, 10, 10, 10, 12, 3, curves[0]),
                         live.Link("left_to_right", 1, 1, 10, 10, 12, 3, curves[1]))
    assert look.experiments == (live.Sweep("demo", 1, 3, 1, 60.0),)
    assert contents(results) == before


def test_readings_of_the_module(results):
    """What runs with the module queues/ write: first a reading of each queue as it was, counters that went on from
    then, the bottlenecks before the others; the last reading is not whole."""
    partial, = results.glob("runs/.partial-*")
    begin_ns, begin_bytes = 10**18, 777
    readings = [(begin_ns - 5, begin_bytes, 0, 0, 0, 0, 0, 0, 0, 0, number) for number in range(3)]
    readings += [(begin_ns + t_us * 1000, begin_bytes + t_us * rate // 8, 0, 0, 0, 3, 15_000, 10, 0, 0, number)
                 for t_us in range(0, 5_000_001, 100_000) for number, rate in ((0, 10), (1, 1), (2, 5))]
    (partial / "work/queue.bin").unlink()
    (partial / "work/queue_meter.bin").write_bytes(
        b"".join(struct.pack("<5Q6I", *one) for one in readings) + b"half")
    first, second = live.Watcher(results).look().running[0].links
    assert (first.now_mbps, first.mean_mbps, first.backlog_packets, first.drops) == (10, 10, 10, 3)
    assert (second.now_mbps, second.mean_mbps) == (1, 1) and second.curve[-1] == (5.0, 1.0, 10)
    (partial / "work/queue_meter.bin").write_bytes(struct.pack("<5Q6I", *readings[0]))
    assert live.Watcher(results).look().running[0].links == ()


@pytest.mark.parametrize("name, content", [
    ("progress.json", "{"), ("progress.json", '{"phase": "traffic", "t_us": "soon"}'), ("queue.bin", ""),
    ("../plan.json", "{}"), ("../plan.json", '{"scenario": 1}'), ("../plan.json", "\0")])
def test_files_that_are_being_written_or_were_edited(results, name, content):
    partial, = results.glob("runs/.partial-*")
    (partial / "work" / name).write_text(content)
    live.Watcher(results).look()


@pytest.mark.parametrize("path, content, experiments", [
    ("demo/experiment.json", '{"runs": 5, "idle": "x"}', 0), ("demo/experiment.json", '{"runs": [3, {"id": 4}]}', 0),
    (f"runs/{OTHER}/run.json", json.dumps({"schema": store.SCHEMA, "wall_s": "long"}), 1)])
def test_what_was_edited_beside_it(results, path, content, experiments):
    (results / path).write_text(content)
    assert len(live.Watcher(results).look().experiments) == experiments


def test_nothing_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "none"))
    assert cli.main(["watch", "--once"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/none: 0 runs under way\n" and not (tmp_path / "none").exists()


def test_the_example_of_the_docs(results, capsys):
    """Each line has the form of docs/howto/watch.md."""
    assert cli.main(["watch", "--once"]) == 0
    said = capsys.readouterr().out.splitlines()
    page = (PROJECT_DIR / "docs/howto/watch.md").read_text()
    documented = re.search(r"watch --once\n((?:    .*\n)+)", page)[1].splitlines()

    def form(line):
        names = r"\S*seed\S*|\S*load\S*?(?=:)|\(\S+\)|/\S+|right_to_left|left_to_right|demo"
        return re.sub(rf"[\d.:]+( s)?|{names}|runs?\b", "_", line)
    assert len(said) == 5 and {form(line) for line in said} == {form(line[4:]) for line in documented}


def test_as_json(results, capsys):
    assert cli.main(["watch", "--once", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["running"][0]["id"] == ID


def test_a_table_for_a_terminal(results, capsys):
    from rich.console import Console

    from testbed.cli import watch
    Console(width=120).print(watch._tables(live.Watcher(results).look()))
    said = capsys.readouterr().out
    for words in ("1 run under way", "cubic-seed1", "5 of 20 s", "right_to_left", "10.00", "1 of 3"):
        assert words in said, words


@pytest.mark.parametrize("words, said", [
    (["--every", "0"], "--every 0"), (["--json"], "--json goes with --once"), (["--serve", "70000"], "a port from 0"),
    (["--serve", "0", "--once"], "does not go with --once")])
def test_what_is_refused(results, capsys, words, said):
    assert cli.main(["watch", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def served(results):
    with live_server.server(live.Watcher(results), 0, 1.0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(server, path="/", host=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    try:
        connection.request(method, path, headers={"Host": host or f"localhost:{server.server_port}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_the_page_needs_nothing_from_elsewhere(served):
    status, page, headers = asked(served)
    assert status == 200 and not re.search(r"(?:src|href)=|https?://|url\(|@import", page)
    assert "default-src 'none'" in headers["Content-Security-Policy"] and "Access-Control-Allow-Origin" not in headers
    status, text, _ = asked(served, "/look.json")
    assert status == 200 and json.loads(text)["running"][0]["name"] == "cubic-seed1"


def test_other_names_and_paths_are_refused(served):
    port = served.server_port
    assert served.server_address[0] == "127.0.0.1"
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1.x:{port}"):
        assert asked(served, "/look.json", host)[0] == 403, host
    assert asked(served, host=f"127.0.0.1:{port}")[0] == 200
    assert asked(served, "/../runs")[0] == 404 and asked(served, method="POST")[0] == 501
    with pytest.raises(EnvironmentProblem, match="in use"):
        live_server.server(live.Watcher(pathlib.Path("/")), port, 1.0)


def test_what_goes_wrong_with_a_request_is_a_line_or_nothing(served, monkeypatch, capsys):
    def look(self):
        raise PermissionError(13, "Permission denied", "/results/runs")
    monkeypatch.setattr(live.Watcher, "look", look)
    assert asked(served, "/look.json")[:2] == (500, "/results/runs: Permission denied\n")
    for problem, said in ((BrokenPipeError(32, "Broken pipe"), ""), (ValueError("odd"), (
            "testbed: a request failed: ValueError: odd\n"))):
        try:
            raise problem
        except (OSError, ValueError):
            served.handle_error(None, None)
        assert capsys.readouterr().err == said


@pytest.mark.parametrize("words", [["--serve", "0"], ["--every", "0.1"]])
def test_a_signal_that_nobody_heard_ends_it(results, words):
    """Its handler ran where Python lets nothing through, and has only noted it."""
    def too_late(_number, _frame):
        raise TimeoutError
    before = signal.signal(signal.SIGALRM, too_late)
    ending.noted(KeyboardInterrupt())
    signal.alarm(20)
    try:
        assert cli.main(["watch", *words]) == 0
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        ending.forget()


@pytest.mark.parametrize("words, first", [(["--serve", "0"], "http://127.0.0.1:"), ([], "1 run under way")])
def test_ctrl_c_ends_it(results, words, first):
    process = subprocess.Popen([PROJECT_DIR / "bin/testbed", "watch", *words], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        assert first in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "")
    finally:
        process.kill()
        process.wait()
