# SPDX-License-Identifier: GPL-2.0-only
"""What every command does about signals, standard files and errors."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import pytest

from testbed import cli
from testbed.cli import _process
from testbed.core.errors import NoWorkers, UsageError

_PROGRAM = pathlib.Path(__file__).resolve().parents[3] / "bin/testbed"


def _raises(problem: BaseException) -> Callable[[], int]:
    def command() -> int:
        raise problem
    return command


def _raise_signal(number: int) -> int:
    signal.raise_signal(number)
    time.sleep(5)
    return 0


def test_without_a_command_it_prints_its_help(capsys):
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert "First steps:" in shown
    for name in cli.command_names():
        assert f"\n  {name} " in shown


def test_help_imports_no_command():
    code = ("import sys\nfrom testbed import cli\ncli.main([])\n"
            "print([m for m in ('numpy', 'yaml', 'rich', 'kernel', 'testbed.cli.run') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=_PROGRAM.parent.parent)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize("number, code, words", [
    (signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM"),
    (signal.SIGHUP, 129, "the terminal went away")])
def test_signals(number, code, words, capsys):
    # whoever runs the tests may ignore it (nohup), and this process would, too
    before = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    inherited = signal.signal(number, before)
    assert _process.guarded(lambda: _raise_signal(number), resumes=False) == code
    assert capsys.readouterr().err == f"testbed: {words}\n"
    assert signal.getsignal(number) == before
    _process.guarded(lambda: _raise_signal(number), resumes=True)
    assert "finished runs are kept, the same command goes on from here" in capsys.readouterr().err
    signal.signal(number, inherited)


def test_a_signal_while_a_class_is_made_is_no_bug(capsys):
    """Python 3.11 raises a RuntimeError from it, later ones the interrupt itself."""
    class Field:
        def __set_name__(self, owner, name):
            signal.raise_signal(signal.SIGINT)

    assert _process.guarded(lambda: type("Made", (), {"field": Field()}) and 7, resumes=False) == 130
    assert capsys.readouterr().err == "testbed: interrupted\n"


def test_a_signal_where_python_hears_no_exceptions(capsys, monkeypatch):
    class Ended:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    class Wrong:
        def __del__(self):
            raise ValueError

    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", hook := lambda problem: said.append(problem.exc_type))
    assert _process.guarded(lambda: Ended() and 7, resumes=False) == 130
    assert capsys.readouterr().err == "testbed: interrupted\n" and said == []
    assert _process.guarded(lambda: 7, resumes=False) == 7, "it is over"
    assert _process.guarded(lambda: Wrong() and 7, resumes=False) == 7
    assert said == [ValueError] and sys.unraisablehook is hook


def test_a_signal_that_a_part_takes_for_its_own_error():
    def part() -> int:
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException:
            pass
        raise TypeError("an integer is required")
    assert _process.guarded(lambda: _process.contained(part)[0], resumes=False) == 143


def test_without_workers_no_part_is_tried(capsys):
    """The others would end alike, each after a while."""
    tried = []

    def parts() -> int:
        for number in range(3):
            tried.append(number)
            _process.contained(_raises(NoWorkers("no scheduler answers") if number else UsageError("no such thing")))
        return 0
    assert _process.guarded(parts, resumes=False) == 3 and tried == [0, 1]
    assert capsys.readouterr().err == "testbed: no such thing\ntestbed: no scheduler answers\n"


def test_a_signal_that_is_ignored_stays_ignored():
    """As with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert _process.guarded(lambda: signal.raise_signal(signal.SIGHUP) or 7, resumes=False) == 7
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("delay_s", [0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.12, 0.16, 0.25, 0.4])
def test_an_interrupt_at_any_moment_of_the_start_ends_the_command(delay_s, tmp_path):
    """Of a command that would go on for ever."""
    process = subprocess.Popen([_PROGRAM, "watch", "--serve", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True, env={**os.environ, "TESTBED_RESULTS": str(tmp_path)},
                               # a script that runs the tests by & ignores it, and the command would, too
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    time.sleep(delay_s)
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    # before Python starts nobody is there to say anything; when it serves this is how one stops it
    assert (process.returncode, said) in [(-signal.SIGINT, ""), (130, "testbed: interrupted\n"), (0, "")]


@pytest.mark.parametrize("problem, code, words", [
    (UsageError("no such thing"), 2, "no such thing"),
    (OSError(28, "No space left on device", "/x/y"), 3, "No space left on device: /x/y"),
    (PermissionError(13, "Permission denied", "/x/y"), 3, "Permission denied: /x/y"),
    (OSError(30, "Read-only file system", "/x/y"), 3, "Read-only file system: /x/y"),
    (OSError(5, "Input/output error", "/x/y"), 1, "Input/output error: /x/y"),
    (MemoryError(), 3, "not enough memory"),
    (RecursionError("maximum recursion depth"), 2, "nested too deeply"),
    ("\udcff".encode, 2, "cannot be encoded"),
])
def test_errors_are_one_line(problem, code, words, capsys):
    assert _process.guarded(problem if callable(problem) else _raises(problem), resumes=False) == code
    said = capsys.readouterr().err
    assert said.startswith("testbed: ") and words in said and said.count("\n") == 1


def test_a_package_that_is_missing_is_no_bug(capsys):
    assert _process.guarded(_raises(ModuleNotFoundError("No module named 'yaml'", name="yaml")), resumes=False) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "no module yaml" in said and "--system-site-packages" in said
    missing = ModuleNotFoundError("No module named 'analysis.none'", name="analysis.none")
    assert _process.guarded(_raises(missing), resumes=False) == _process.BUG


def test_a_bug_is_one_line_and_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert _process.guarded(_raises(IndexError("list index\nout of range")), resumes=False) == 70
    said = capsys.readouterr().err
    file, = tmp_path.iterdir()
    assert said == f"testbed: a bug in the testbed: IndexError: list index out of range; please report it with {file}\n"
    assert "Traceback (most recent call last)" in file.read_text()


def test_a_bug_without_room_for_a_file(capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    assert _process.guarded(_raises(IndexError("x")), resumes=False) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize("redirection, code, said", [
    (">&-", 0, ""), ("2>&-", 0, ""), ("<&-", 0, ""), (">&- 2>&- <&-", 0, ""), ("| head -c 1 >/dev/null", 0, ""),
    (">/dev/full", 3, "No space left on device\n"), ("2>/dev/full", 0, ""),
])
def test_standard_files_that_cannot_be_used(redirection, code, said):
    for command in ("--help", "list topologies"):
        done = subprocess.run(f"'{_PROGRAM}' {command} {redirection}", shell=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        assert done.returncode == code and done.stderr.endswith(said), command
        assert done.stderr.count("\n") == said.count("\n"), command


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_errors_that_nobody_can_read_keep_their_exit_code(redirection):
    assert os.waitstatus_to_exitcode(os.system(f"'{_PROGRAM}' report nosuch {redirection}")) == 2


@pytest.mark.parametrize("words, said", [
    (["list", "--kernel="], "--kernel: a value expected, not an empty one"),
    (["list", "--engine", ""], "--engine: a value expected, not an empty one"),
    (["run", "access-link", "--cca", " "], "--cca: a value expected, not an empty one"),
    (["run", ""], "an empty argument"),
    (["report", ""], "an empty argument"),
])
def test_empty_values_are_errors(words, said, capsys):
    assert cli.main(words) == 2
    assert capsys.readouterr().err == f"testbed: {said}\n"


def test_a_current_folder_that_was_deleted(tmp_path):
    gone = tmp_path / "gone"
    done = subprocess.run(f"mkdir '{gone}' && cd '{gone}' && rmdir '{gone}' && '{_PROGRAM}' list", shell=True,
                          capture_output=True, text=True)
    # the shell complains as well
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "testbed: the current folder does not exist any more: change to another one"


def test_the_current_folder_provides_no_modules(tmp_path):
    for name in ("yaml", "argparse", "testbed", "kernel", "random"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    done = subprocess.run([_PROGRAM, "list", "topologies"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr


def test_a_checkout_in_a_folder_with_a_strange_name(tmp_path):
    odd = tmp_path / "a:b $(c)"
    odd.symlink_to(_PROGRAM.parent.parent)
    assert subprocess.run([odd / "bin/testbed", "--version"], capture_output=True).returncode == 0
