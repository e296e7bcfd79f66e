# SPDX-License-Identifier: GPL-2.0-only
"""What scripts in the guest have in common: commands, and how to see whether a machine is as it was."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

TESTBED = "/run/checkout/bin/testbed"
RESULTS = pathlib.Path("/tmp/results")
#: settings that show what goes on, or change by themselves
_RESTLESS = re.compile(r"kernel\.(random\.|ns_last_pid|pty\.nr)|fs\.(dentry-state|inode-|file-nr|aio-nr)|vm\.stat")
_LOOKS = {
    "ip netns": ["ip", "netns"],
    "ip link": ["ip", "-o", "link"],
    "tc qdisc": ["tc", "qdisc"],
    "sysctl": ["sysctl", "-a"],
    "ps": ["ps", "-e", "-o", "ppid=,args="],
    "lsmod": ["cat", "/proc/modules"],
    "mount": ["cat", "/proc/mounts"],
    "tracing": ["ls", "/sys/kernel/tracing/instances"],
    "tracing options": ["cat", "/sys/kernel/tracing/trace_options"],
    "run": ["ls", "/run"],
}


def look():
    """{what: lines} of all that a run may leave behind."""
    found = {}
    for what, words in _LOOKS.items():
        lines = subprocess.run(words, capture_output=True, text=True).stdout.splitlines()
        if what == "ps":                        # 2: the kernel's own threads, which come and go
            lines = [line for line in lines if line.split()[0] not in ("0", "2") and "ps -e" not in line]
        found[what] = sorted(line for line in lines if not _RESTLESS.match(line))
    # the lock of all runs, and that of mount(8)
    found["run"] = [name for name in found["run"] if name not in ("tcp-testbed", "mount")]
    return found


def difference(before, after):
    """{what: {"gone": lines, "new": lines}} of what is not the same."""
    return {what: {"gone": sorted(set(before[what]) - set(after[what])),
                   "new": sorted(set(after[what]) - set(before[what]))}
            for what in before if before[what] != after[what]}


def command(*words, **options):
    """Run a command to its end: {"words", "code", "said"}."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    print(f"$ {' '.join(map(str, words))}\n{done.stdout}[{done.returncode}]", flush=True)
    return {"words": list(map(str, words)), "code": done.returncode, "said": done.stdout}


def start_run(*words):
    """Start a run in a session of its own and return when its traffic flows."""
    before = set(RESULTS.glob("runs/.partial-*"))           # of runs that were killed
    process = subprocess.Popen([TESTBED, "run", *words], start_new_session=True)
    until = time.monotonic() + 600
    while not any(_has_traffic(run) for run in set(RESULTS.glob("runs/.partial-*")) - before):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"no traffic, status {process.poll()}")
        time.sleep(0.2)
    return process


def _has_traffic(run):
    progress = run.joinpath("work", "progress.json")
    return progress.exists() and '"traffic"' in progress.read_text()


def session_of(process):
    """Ids of all processes of the session that a process leads."""
    lines = subprocess.run(["ps", "-e", "-o", "pid=,sess="], capture_output=True, text=True).stdout.split("\n")
    return [int(line.split()[0]) for line in lines if line.split()[1:] == [str(process.pid)]]


def processes(word):
    """Ids of all processes with this word in their command."""
    lines = subprocess.run(["ps", "-e", "-o", "pid=,args="], capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if word in line]


def wait_for(condition):
    """Return when it is so."""
    until = time.monotonic() + 120
    while not condition():
        if time.monotonic() > until:
            command("ps", "-e", "-o", "pid,ppid,sess,stat,wchan:32,args")
            raise RuntimeError("it did not come to pass")
        time.sleep(0.2)


def keep(out_dir, **findings):
    """Leave findings and results where the test finds them."""
    pathlib.Path(out_dir, "findings.json").write_text(json.dumps(findings, indent=1))
    if RESULTS.is_dir():
        shutil.copytree(RESULTS, os.path.join(out_dir, "results"), symlinks=True)
