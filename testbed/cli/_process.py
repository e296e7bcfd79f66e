# SPDX-License-Identifier: GPL-2.0-only
"""What every command owes its surroundings: signals, standard files, one line for every error."""
import contextlib
import errno
import io
import os
import signal
import sys
import tempfile
import termios
import traceback
import types
from collections.abc import Callable, Iterator

from testbed import PROJECT_DIR
from testbed.core import ending
from testbed.core.errors import EnvironmentProblem, NoWorkers, TestbedError, UsageError, what_failed
from testbed.core.progress import print_error

#: a bug in the testbed (EX_SOFTWARE of sysexits.h)
BUG = 70
_ENDED_BY: dict[int, str] = {
    signal.SIGHUP: "the terminal went away", signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM"}
_GOES_ON = "finished runs are kept, the same command goes on from here"
#: errors of packages that must not know the testbed: (module, class, exit code)
_FOREIGN = (("kernel", "NoSuchKernel", 2), ("kernel.selftests", "NoSuchTest", 2), ("kernel", "KernelError", 3),
            ("traffic", "ParameterError", 2), ("testbed.core.fields", "FieldError", 2))
#: a permission or space is missing
_LACKING = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
_KINDS: dict[int, type[TestbedError]] = {kind.exit_code: kind for kind in (TestbedError, UsageError,
                                                                           EnvironmentProblem)}


class Signalled(KeyboardInterrupt):
    """Raised by a signal that ends a command, so that everything is cleaned up on the way."""

    def __init__(self, number: int) -> None:
        super().__init__(f"{_ENDED_BY[number]}; {_GOES_ON}")
        self.number = number

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it."""
        return [str(self)]


def guarded(command: Callable[[], int], resumes: bool) -> int:
    """The exit code of a command, whatever it raises. resumes: the same command goes on where it was."""
    open_standard_files()
    with signals():
        try:
            try:
                # bin/testbed blocks it while Python starts: what came in the meantime raises here
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
                code = command()
                ending.if_asked()
            finally:
                _flush()
        except KeyboardInterrupt as interrupt:
            code = _interrupted(interrupt, resumes)
        except BrokenPipeError:                 # whoever read our output has enough of it
            _give_up_output()
            code = 1
        except Exception as problem:
            try:
                ending.if_asked()               # Python makes other errors of what comes while it reads a module
            except KeyboardInterrupt as interrupt:
                code = _interrupted(interrupt, resumes)
            else:
                code, message = _explain(problem)
                print_error(message)
    # an error of writing may be faster than the signal that says why
    return 128 + signal.SIGHUP if code == 1 and _terminal_is_gone() else code


def _terminal_is_gone() -> bool:
    """True if the input is a terminal of which nobody has the other end any more."""
    try:
        termios.tcgetattr(0)
    except termios.error as problem:
        return bool(problem.args[0] == errno.EIO)
    return False


def _interrupted(interrupt: KeyboardInterrupt, resumes: bool) -> int:
    number: int = getattr(interrupt, "number", signal.SIGINT)
    print_error(_ENDED_BY[number]
                + (f"; {_GOES_ON}" if resumes else ""))
    return 128 + number


def contained(command: Callable[[], int]) -> tuple[int, str]:
    """(exit code, '' or the error) of one of several commands, which the others survive; the error is printed.
    NoWorkers passes."""
    code, message = explained(command)
    if message:
        print_error(message)
    return code, message


def explained(command: Callable[[], int]) -> tuple[int, str]:
    """The same, and nothing is printed."""
    try:
        return command(), ""
    except (BrokenPipeError, NoWorkers):
        raise
    except Exception as problem:
        ending.if_asked()
        return _explain(problem)


def testbed_error(problem: Exception) -> TestbedError | None:
    """An error of whatever package as one of the testbed's, None if it is a bug."""
    if isinstance(problem, TestbedError):
        return problem
    code, message = _understood(problem) or (BUG, "")
    return _KINDS[code](message) if code in _KINDS else None


def _explain(problem: Exception) -> tuple[int, str]:
    """The exit code, and one line that says what is wrong."""
    return _understood(problem) or (BUG, _bug(problem))


def _understood(problem: Exception) -> tuple[int, str] | None:
    """The same of an error that a user can do something about; None of any other."""
    if isinstance(problem, TestbedError):
        return problem.exit_code, str(problem)
    for module, name, code in _FOREIGN:
        kind = getattr(sys.modules.get(module), name, None)
        if kind and isinstance(problem, kind):
            return code, str(problem)
    if isinstance(problem, OSError):            # a full disk, a folder without permission
        from testbed.core import cache_dirs
        if unusable := cache_dirs.unusable(problem):
            return EnvironmentProblem.exit_code, unusable
        code = EnvironmentProblem.exit_code if problem.errno in _LACKING else 1
        return code, what_failed(problem)
    if isinstance(problem, ModuleNotFoundError) and not _is_ours(problem.name or ""):
        return EnvironmentProblem.exit_code, (f"Python has no module {problem.name}: make setup installs it; a virtual "
                                              "environment needs --system-site-packages (docs/howto/install.md)")
    if isinstance(problem, MemoryError):
        return 3, "not enough memory"
    if isinstance(problem, RecursionError):
        return 2, "the input is nested too deeply"
    if isinstance(problem, UnicodeError):
        return 2, f"a name or text that cannot be encoded: {problem}"
    return None


def _is_ours(module: str) -> bool:
    """Whether a module is of the testbed itself, and not of a package that is missing."""
    return (PROJECT_DIR / module.partition(".")[0] / "__init__.py").is_file()


def _bug(problem: Exception) -> str:
    what = traceback.format_exception_only(type(problem), problem)[-1].strip().replace("\n", " ")
    text = "".join(traceback.format_exception(problem))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="testbed-bug-", suffix=".txt", delete=False, encoding="utf-8",
                                         errors="backslashreplace") as file:
            file.write(text)
        return f"a bug in the testbed: {what}; please report it with {file.name}"
    except OSError:
        return f"a bug in the testbed: {what}; please report it with all of this:\n{text}"


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """Signals that end a command raise; as before afterwards. One that is ignored stays so (nohup)."""
    def end(number: int, _frame: types.FrameType | None) -> None:
        raise ending.noted(Signalled(number))

    def say(unraisable: "sys.UnraisableHookArgs") -> None:
        # where Python itself called back it goes on; what the signal asked for is not forgotten (core/ending.py)
        if not isinstance(unraisable.exc_value, Signalled):
            hook(unraisable)

    before, hook = {}, sys.unraisablehook
    sys.unraisablehook = say
    for number in _ENDED_BY:
        # a shell has SIGINT ignored by what a script starts with &; Ctrl-C means that, too
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook
        ending.forget()


def open_standard_files() -> None:
    """Standard files that were closed (`2>&-`) lead nowhere instead of to the next file that is opened;
    characters that their encoding lacks are shown escaped."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)      # takes the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def check_current_folder() -> None:
    """TestbedError if the current folder was deleted: no relative path means anything then."""
    try:
        os.getcwd()
    except OSError:
        raise TestbedError("the current folder does not exist any more: change to another one") from None


def _flush() -> None:
    """Write what is buffered; an error of that is an error of the command."""
    try:
        sys.stderr.flush()
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as problem:
        _give_up_output()
        raise EnvironmentProblem(f"cannot write the output: {problem.strerror}") from None


def _give_up_output() -> None:
    """What is still buffered goes nowhere, so that Python's own last flush has nothing to say."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
