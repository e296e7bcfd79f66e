# SPDX-License-Identifier: GPL-2.0-only
"""First process of a run on the running kernel: do the job in namespaces of processes and mounts of its own.

    enter.py WORK_DIR CODE_DIR

It is process 1 of its namespace of processes: when it ends, or is killed, the kernel ends everything that the run
has started, and with that go the nodes' network namespaces, interfaces, and queues. SIGTERM, which it also gets when
whoever started it is gone, ends it in order: programs first, so that their connections are closed while there is a
network. What takes too long then is cut off. Standard input is the terminal of a session, or else a pipe out of which
nothing comes but its end.
"""
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import traceback

#: how long ending in order may take
_PATIENCE_S = 30


def _end(*_signal: object) -> None:
    """In order, which a second SIGTERM (of the parent's end, after the parent's own) must not disturb."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    # The exception is lost if it is raised in a destructor, and a program may hang. When this process is gone, the
    # kernel ends the others.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
    signal.alarm(_PATIENCE_S)
    sys.exit("ended by SIGTERM")


def main(work_dir: str, code_dir: str) -> None:
    signal.signal(signal.SIGTERM, _end)
    if not os.isatty(0) and select.select([0], [], [], 0)[0]:       # before anybody could hear the signal
        sys.exit("whoever started this is gone")
    # this /proc is still the outer one's: its `self` says what we are called there
    pathlib.Path(work_dir, "process.pid").write_text(os.readlink("/proc/self"), encoding="ascii")
    subprocess.run(["/usr/bin/mount", "-t", "proc", "proc", "/proc"], check=True)
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/tmp", LANG="C.UTF-8", PYTHONHASHSEED="0",
                      PYTHONDONTWRITEBYTECODE="1")
    # Mininet's node shells must not stop us when they go
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.path[:0] = [code_dir, "/usr/lib/python3/dist-packages"]
    from testbed.guest.job import Job
    from testbed.guest.main import Output, run
    output = Output(work_dir)
    try:
        job = json.loads(pathlib.Path(work_dir, "job.json").read_text(encoding="utf-8"))
        status: dict[str, object] = {"ok": True}
        if "session" in job:
            from testbed.guest import session
            status["failed"] = session.serve(Job(job, "job.json"), work_dir, os.ttyname(0))
        else:
            run(Job({**job, "project_dir": code_dir}, "job.json"), work_dir)
    except Exception as problem:
        traceback.print_exc()
        status = {"ok": False, "error": f"{type(problem).__name__}: {problem}"}
    output.json("status.json", status)


if __name__ == "__main__":
    main(*sys.argv[1:])
