# SPDX-License-Identifier: GPL-2.0-only
"""Runs in gdb: they stop where they should, to the nanosecond, and leave the same bytes."""
import re
import shutil
import subprocess

import pandas as pd
import pytest
import yaml

from testbed import PROJECT_DIR, cli
from testbed.runs.store import read_record
from tests.kernel import documented

pytestmark = pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")


@pytest.fixture(scope="module")
def results(tmp_path_factory, engine):
    """A results folder with the run of docs/howto/captures.md, without its captures, and a function that makes the
    same run in gdb: (options) -> (exit code, what was said)."""
    folder = tmp_path_factory.mktemp("debugged")
    tree = yaml.safe_load(documented.exact("howto/captures.md"))
    tree |= {"name": "debugged", "probes": {"queue": {}, "tcp_info": {"interval": "10 ms"}, "tcp_probe": {}}}
    (folder / "debugged.yaml").write_text(yaml.safe_dump(tree))

    def run(*options, commands=None):
        words = [PROJECT_DIR / "bin/testbed", "run", folder / "debugged.yaml", "--cca", "cubic", "--seed", "1",
                 "--no-report", *options]
        if commands is not None:
            (folder / "commands.gdb").write_text(commands)
            words += ["--gdb-commands", folder / "commands.gdb"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr
    status, said = run()
    assert status == 0, said
    return folder / "results", run


def _hashes(folder):
    record, = (read_record(path) for path in sorted(folder.glob("runs/[0-9a-f]*")))
    return record.raw_files_sha256


def _same(results):
    """Whether both folders have the same raw files, of one run each."""
    one, other = _hashes(results), _hashes(results / "debug")
    return one == other and len(one) > 10


def test_stops_at_a_virtual_time_to_the_nanosecond(results):
    folder, run = results
    status, said = run("--gdb", "1.25s", commands="vtime\nuntil-time 2.234567891\nvtime\nprint $now()\ntcp-socks\n")
    assert status == 0, said
    assert re.findall(r"^\d+\.\d{9} s$", said, re.M) == ["1.250000000 s", "2.234567891 s"]
    assert "= 2234567891\n" in said
    assert "the data of" in said and _same(folder)
    # what gdb prints is what the table of the same instant says
    rows = pd.read_csv(next(folder.glob("runs/[0-9a-f]*/raw/tcp_info.csv.gz")))
    sender = re.search(r"^0x\w+ \S+ > \S+:6000 ESTABLISHED cubic (\w+) cwnd (\d+) ssthresh \S+ in flight (\d+) "
                       r"srtt (\S+) us$", said, re.M)
    before = rows[(rows["t_us"] <= 2_234_567) & (rows["bytes_acked"] > 0)].iloc[-1]
    assert 0 < int(sender[2]) and abs(int(sender[2]) - before["cwnd"]) <= 2 and sender[1] == "Open"


def test_stops_in_a_function_and_prints_its_socket(results):
    folder, run = results
    status, said = run("--gdb", "0.1s tcp_enter_recovery", commands="vtime\ntcp-sock\nprint $tcp()->snd_cwnd\n"
                       "print *(int *)&$tcp()->packets_out\n")
    assert status == 0, said
    assert _same(folder)
    stopped_ns = int(re.search(r"stopped at (\d+\.\d{9}) s", said)[1].replace(".", ""))
    # it is entered by a segment that arrives then, and sends at once
    again = pd.read_csv(next(folder.glob("runs/[0-9a-f]*/raw/retransmissions.csv.gz")))
    assert again["t_us"].min() == stopped_ns // 1000
    events = pd.read_csv(next(folder.glob("runs/[0-9a-f]*/raw/tcp_probe.csv.gz")))
    event, = events[(events["t_us"] == stopped_ns // 1000) & events["dst"].str.endswith(":6000")].to_dict("records")
    assert f"cwnd {event['snd_cwnd']}," in said and f"$1 = {event['snd_cwnd']}\n" in said
    assert f"snd_una {event['snd_una']}, snd_nxt {event['snd_nxt']}," in said
    assert "congestion control cubic" in said


def test_calls_of_a_function(results):
    folder, run = results
    status, said = run("--function-trace", "tcp_retransmit_skb", "--function-trace", "tcp_enter_recovery")
    assert status == 0, said
    assert _same(folder)
    calls = pd.read_csv(next(folder.glob("debug/runs/*/functions.csv.gz")))
    again = pd.read_csv(next(folder.glob("runs/[0-9a-f]*/raw/retransmissions.csv.gz")))
    sent = calls[calls["function"] == "tcp_retransmit_skb"]
    assert (sent["t_ns"] // 1000).tolist() == again["t_us"].tolist() and len(sent) > 1
    assert sent["src"].tolist() == again["src"].tolist()
    entered = calls[calls["function"] == "tcp_enter_recovery"]
    assert entered["caller"].unique().tolist() == ["tcp_fastretrans_alert"]
    assert entered["t_ns"].iloc[0] == sent["t_ns"].iloc[0]


@pytest.mark.parametrize("where, commands, message", [
    ("1s tcp_no_such_function", "", 'Function "tcp_no_such_function" not defined'),
    ("tcp_no_such_function", None, 'Function "tcp_no_such_function" not defined'),      # nobody is there to be asked
    ("4.9s tcp_enter_recovery", "", "the run ended and did not come there"),
    ("1s", "print no_such_word\n", "No symbol"),
    ("1s", "until-time 0.5\n", "it is 1.000000000 s already"),
])
def test_what_goes_wrong_in_gdb_fails_the_command(results, where, commands, message):
    _, run = results
    status, said = run("--gdb", where, commands=commands)
    assert status == 4 and message in said


def test_a_changed_window_changes_the_data(results):
    folder, run = results
    status, said = run("--gdb", "0.3s tcp_ack", commands="set var $tcp()->snd_cwnd = 2\n")
    assert status == 0 and not _same(folder)
    assert "not the data of" in said and "tcp_info.csv.gz" in said


@pytest.mark.parametrize("options, message", [
    (["--gdb", "1s", "--seeds", "2"], "one run at a time"),
    (["--gdb", "1s", "--cca", "cubic,reno", "--seed", "1"], "asks for 2"),
    (["--gdb", "5s", "--cca", "cubic", "--seed", "1"], "the run lasts 5 s"),
    (["--gdb", "5", "--cca", "cubic", "--seed", "1"], "a time with a unit expected"),
    (["--gdb", "5 kB", "--cca", "cubic", "--seed", "1"], "a time expected first"),
    (["--gdb", " ", "--cca", "cubic", "--seed", "1"], "a value expected"),
    (["--gdb", "1s\nshell id", "--cca", "cubic", "--seed", "1"], "a virtual time such as"),
    (["--gdb", "1s", "--gdb-commands", "/nonexistent"], "no such file"),
    (["--gdb-commands", "/nonexistent"], "only with --gdb"),
    (["--function-trace", "tcp_ack if 1", "--cca", "cubic", "--seed", "1"], "the name of a function expected"),
    (["--gdb", "1s", "--engine", "host", "--cca", "cubic", "--seed", "1"], "engine host has no kernel in a process"),
])
def test_refused(results, options, message, capsys, monkeypatch):
    folder, _ = results
    monkeypatch.chdir(folder.parent)
    assert cli.main(["run", str(folder.parent / "debugged.yaml"), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_module_of_ones_own_with_its_lines(results):
    _, run = results
    mine = PROJECT_DIR / "docs/examples/tcp_mine.c"
    status, said = run("--cca", str(mine), "--gdb", "0s mine_ssthresh",
                       commands="list\ntcp-sock sk\ninfo args\nprint ((struct tcp_sock *)sk)->snd_cwnd * 7 / 10\n")
    assert status == 0, said
    line = mine.read_text().splitlines()[7]
    assert "return max" in line and re.search(rf"^8\t{re.escape(line)}$", said, re.M)
    window = int(re.search(r"congestion control mine\n +window +cwnd (\d+),", said)[1])
    assert f"$1 = {window * 7 // 10}\n" in said
