# SPDX-License-Identifier: GPL-2.0-only
"""Anybody's programs as traffic: sections, jobs, and the runner with programs of all sorts."""
import json
import socket
import subprocess
import sys
import tarfile
import time

import pytest

import traffic
from testbed import PROJECT_DIR
from testbed.core.fields import FieldError
from tests.unit.traffic.traffic_setup import TIMING, variant

SLEEP = {"command": ["sleep", "1"]}


def section(**sender):
    return {"kind": "program", "sender": {**SLEEP, **sender}}


@pytest.mark.parametrize("field, given, words", [
    ("sender", {"kind": "program"}, "a sender or a receiver expected"),
    ("sender.command", section(command=[]), "at least 1"), ("sender.command", section(command=["a", {"port": None}]),
                                                            "text expected (in quotes, if it is no plain word)"),
    ("sender.command", section(command=["a", 1.5]), "text expected"),
    ("sender.command", section(command=[True]), "text expected"),
    ("sender.command", section(command=["a", "{prot}"]), "no placeholder {prot}; there are: {address}, {peer_address}"),
    ("sender.setup", section(setup=[["a", "{x}"]]), "no placeholder {x}"),
    ("sender.optional", section(optional=["word"]), "a value such as '--no-gso' expected"),
    ("sender.environment", section(environment={"A": "{x}"}), "no placeholder {x}"),
    ("sender.environment.A B", section(environment={"A B": "x"}), "names such as 'NAME' expected"),
    ("sender.files.../x", section(files={"../x": {"text": ""}}), "names such as 'x.conf' expected"),
    ("sender.files.x", section(files={"x": {}}), "one of text, bytes and copy_of expected"),
    ("sender.files.x.bytes", section(files={"x": {"bytes_bytes": 1 << 30}}), "at most"),
    ("sender.keep", section(keep=["/etc/passwd"]), "a value such as 'x.log' expected"),
    ("sender.keep", section(keep=["a/../b"]), "a value such as 'x.log' expected"),
    ("sender.keep", section(keep=["a/b", "a-b"]), "two would be kept under one name"),
    ("sender.files.a/../b", section(files={"a/../b": {"text": ""}}), "names such as 'x.conf' expected"),
    ("sender.files./x", section(files={"/x": {"text": ""}}), "names such as 'x.conf' expected"),
    ("sender.ready", section(ready="udp:x"), "a value such as 'tcp' expected"),
    ("sender.ready", section(ready="file:../x"), "a value such as 'tcp' expected"),
    ("sender.exit", section(exit=[256]), "at most 255"), ("sender.ends", section(ends="never"), "one of by-itself"),
    ("path", {**section(), "path": "n1->n2"}, "no path")])
def test_refused_sections(network, field, given, words):
    with pytest.raises(FieldError) as problem:
        traffic.validate([given], network, TIMING)
    assert problem.value.field == field and words in str(problem.value)


def test_what_is_missing_is_named_before_the_run(context, tmp_path):
    for given, field, words in (
            (section(command=["no-such-program"]), "sender.command", "there is no program 'no-such-program'"),
            (section(setup=[["no-such-program"]]), "sender.setup", "there is no program 'no-such-program'")):
        with pytest.raises(FieldError, match=words) as problem:
            traffic.prepare([given], [variant("cubic")], context)
        assert problem.value.field == field
    with pytest.raises(FieldError, match="No such file") as problem:
        traffic.inputs([section(files={"x": {"copy_of": str(tmp_path / "none")}})])
    assert problem.value.field == "sender.files.x.copy_of"
    with pytest.raises(FieldError, match="No such file") as problem:
        traffic.inputs([section(root=str(tmp_path / "none.tar"))])
    assert problem.value.field == "sender.root"


def test_the_root_of_an_end_is_an_input_that_the_guest_has_memory_for(context, jobs, tmp_path):
    (tmp_path / "image.tar").write_bytes(bytes(3 << 20))
    given = section(root=str(tmp_path / "image.tar"), command=["/no/program/of/ours"], keep=["logs/"], ready="udp:443")
    assert list(traffic.inputs([given])) == [str(tmp_path / "image.tar")]
    workload = traffic.prepare([given], [variant("cubic")], context)
    (_, _, job), = jobs(workload)
    assert (job["root"], job["ready"]) == ("/run/guest/program-program-sender-root.tar", "udp:443")
    assert [one["buffers_mb"] for one in workload["programs"]] == [3]
    assert (context.work_dir / "program-program-sender-root.tar").stat().st_size == 3 << 20


def test_jobs(context, jobs, tmp_path):
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    files = {"mine": {"copy_of": str(tmp_path / "mine")}, "data": {"bytes_bytes": 5},
             "conf": {"text": "{endpoint} {what} {{"}}
    given = {"kind": "program", "start_us": 1_000_000, "stop_us": 3_500_000, "patience_us": 2_000_000,
             "sender": {"command": ["mine", "{peer_endpoint}", "{duration_s}", "%{{x} {folder}"], "files": files,
                        "environment": {"WHO": "{node} {peer_node} {seed}"}, "keep": ["a", "b"]},
             "receiver": {"command": ["sleep", 5], "ready": "udp"}}
    workload = traffic.prepare([given, {"kind": "cbr", "rate_bps": 10**6}], [variant("cubic")], context)
    assert list(traffic.inputs([given])) == [str(tmp_path / "mine")]
    flow = workload["flows"][0]
    assert (flow["transport"], flow["dport"], flow["cca"], flow["both_ways"]) == ("program", 7000, "cubic", True)
    assert workload["flows"][1]["dport"] == 7001
    (at, _, receiver), (to, module, sender) = jobs(workload)[:2]
    assert (at, to, module) == ("n1", "n3", "traffic.program.runner")
    assert sender["command"] == ["mine", "10.0.2.1:7000", "2.5", "%{x} {folder}"]
    assert sender["environment"] == {"WHO": "n3 n1 3"}
    assert sender["files"] == {"mine": {"copy_of": "/run/guest/program-program-sender-given-mine"},
                               "data": {"bytes": 5}, "conf": {"text": "10.0.4.1:7000 {what} {{"}}
    assert (sender["at_stop"], sender["start_us"], sender["stop_us"]) == (False, 1_000_000, 3_500_000)
    # who waits for others is there until they must have ended
    assert (receiver["at_stop"], receiver["stop_us"], receiver["command"]) == (True, 5_500_000, ["sleep", "5"])


def run(folder, **changes):
    """(exit status, account or complaint) of the runner of a program."""
    job = {"what": "c: it (sender, on n1)", "optional": [], "environment": {}, "setup": [], "files": {}, "keep": [],
           "ready": None, "port": 1, "at_stop": False, "exit": [0], "start_us": 0, "stop_us": 100_000,
           "patience_us": 100_000, "output": str(folder / "kept"), **changes}
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.Popen([sys.executable, "-S", "-m", "traffic.program.runner", str(folder / "job.json")], text=True,
                            cwd=PROJECT_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ready = done.stdout.readline()
    output, words = done.communicate(f"start {time.monotonic_ns()}\n" if ready == "ready\n" else "", timeout=60)
    return done.returncode, words.strip() if done.returncode else json.loads(output.removeprefix("done "))


def test_a_program_has_files_environment_and_a_folder_of_its_own(tmp_path):
    script = "pwd; cat a; wc -c < b; echo $MINE $OTHER; cat set; echo x > k"
    status, account = run(tmp_path, command=["sh", "-c", script], environment={"MINE": "{folder}"},
                          files={"a": {"text": "in {folder}\n"}, "b": {"bytes": 70_000}},
                          setup=[["sh", "-c", "echo before > set"]], keep=["k"], stop_us=20_000_000)
    assert status == 0, account
    folder, text, size, environment, before = (tmp_path / "kept.out").read_text().splitlines()
    assert (text, size, environment, before) == (f"in {folder}", "70000", folder, "before")
    assert (tmp_path / "kept-k").read_text() == "x\n" and (tmp_path / "kept.err").read_text() == ""
    assert account["program"]["exit"] == 0


def test_files_may_lie_in_folders_and_folders_are_kept_as_archives(tmp_path):
    script, contents = "bin/tool; mkdir -p logs/q; echo x > logs/q/a; ln -s a logs/b", []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        status, account = run(folder, command=["sh", "-c", script], files={"bin/tool": {
            "text": "#!/bin/sh\necho it runs\n"}}, keep=["logs/"], stop_us=20_000_000)
        assert status == 0, account
        assert (folder / "kept.out").read_text() == "it runs\n"
        contents.append((folder / "kept-logs.tar").read_bytes())
        with tarfile.open(folder / "kept-logs.tar") as file:
            assert file.getnames() == ["logs", "logs/q", "logs/q/a"]
    assert contents[0] == contents[1]


def test_a_server_may_have_another_port(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        status, account = run(tmp_path, command=["sleep", "1000"], ready=f"udp:{taken.getsockname()[1]}", at_stop=True)
    assert (status, account["program"]["exit"]) == (0, -15)


def test_options_are_given_to_versions_that_name_them_in_their_help(tmp_path):
    script = ('#!/bin/sh\n[ "$1" = --help ] && echo "--max-gso-dgrams=<N>, --no-pmtud" >&2 && exit 1\n'
              'echo "$@"\n')
    status, account = run(tmp_path, command=["tool", "last"], files={"tool": {"text": script}}, stop_us=20_000_000,
                          setup=[["chmod", "+x", "tool"]],
                          optional=["--max-gso-dgrams=1", "--no-pmtu", "--max-gso", "--no-pmtud", "-g"])
    assert status == 0, account
    assert (tmp_path / "kept.out").read_text() == "--max-gso-dgrams=1 --no-pmtud last\n"
    assert (tmp_path / "kept.err").read_text() == ""


@pytest.mark.parametrize("words, changes", [
    ("ended with status 3: no luck", {"command": ["sh", "-c", "echo no luck >&2; exit 3"]}),
    ("ended with status 0", {"command": ["true"], "exit": [1, 2]}),
    ("was killed by SIGABRT", {"command": ["sh", "-c", "kill -ABRT $$"]}),
    ("did not end by 0.2 s, 0.1 s after its stop: still", {"command": ["sh", "-c", "echo still; sleep 1000"]}),
    ("did not end within 5 s of SIGTERM", {"command": ["sh", "-c", "trap '' TERM; while true; do sleep 1; done"],
                                           "at_stop": True}),
    ("ended with status 1 before it was ready", {"command": ["false"], "ready": "tcp"}),
    ("setup false ended with status 1", {"command": ["true"], "setup": [["false"]]}),
    ("left no file log", {"command": ["true"], "keep": ["log"]}),
    ("left no folder log/", {"command": ["touch", "log"], "keep": ["log/"]}),
    ("left no folder log/", {"command": ["ln", "-s", "/etc", "log"], "keep": ["log/"]}),
    ("left no file log", {"command": ["ln", "-s", "/etc/passwd", "log"], "keep": ["log"]}),
    ("/no/such: No such file or directory", {"command": ["/no/such"]})])
def test_what_goes_wrong_is_one_line(tmp_path, words, changes):
    soon = "stop" in words or "SIGTERM" in words
    status, complaint = run(tmp_path, **{"stop_us": 100_000 if soon else 20_000_000, **changes})
    assert status == 1 and complaint.startswith("c: it (sender, on n1)") and words in complaint
    assert "\n" not in complaint


def test_a_server_is_waited_for_and_ended(tmp_path):
    status, account = run(tmp_path, command=["sh", "-c", "sleep 0.1; touch there; exec sleep 1000"], ready="file:there",
                          at_stop=True)
    assert (status, account["program"]["exit"]) == (0, -15)
