# SPDX-License-Identifier: GPL-2.0-only
"""The library that hands divisions by zero on as faults with registers: preloaded into a program that is no kernel."""
import os
import shutil
import subprocess
import sys

import pytest

from kernel import fault_signals, launch

#: it installs a handler for all three signals, as a kernel does; then does what its argument says
PROGRAM = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int zero;

static void handler(int number, siginfo_t *info, void *frame)
{
	mcontext_t *context = &((ucontext_t *)frame)->uc_mcontext;

	printf("signal %d, cr2 %llx\n", number, (unsigned long long)context->gregs[REG_CR2]);
	exit(context->gregs[REG_RIP] ? 0 : 1);
}

int main(int count, char **words)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	int which[] = {SIGFPE, SIGILL, SIGSEGV}, i;

	for (i = 0; i < 3; i++)
		sigaction(which[i], &action, NULL);
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(words[1], "divide"))
		printf("%d\n", 1000 / zero);
	else if (!strcmp(words[1], "illegal"))
		__builtin_trap();
	else if (!strcmp(words[1], "null"))
		printf("%d\n", *(volatile int *)(unsigned long)(zero + 16));
	else if (!strcmp(words[1], "stub")) {
		/* a page of its own, as processes of a guest have: no part of the program */
		void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		action.sa_sigaction = (void (*)(int, siginfo_t *, void *))page;
		sigaction(SIGSEGV, &action, NULL);
		sigaction(SIGSEGV, NULL, &action);
		printf("stub %d\n", (void *)action.sa_sigaction == page);
		return 0;
	} else if (!strcmp(words[1], "wild"))
		printf("%d\n", *(volatile int *)(unsigned long)(zero + 0x12345000));
	else
		kill(getpid(), SIGFPE);
	return 2;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Function: what to do -> (what the program said, what the library said)."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-o", folder / "program", folder / "program.c"], check=True)

    def run(what):
        done = subprocess.run([sys.executable, launch.__file__, "--preload", str(fault_signals.library()), "--",
                               str(folder / "program"), what], capture_output=True, text=True, check=True)
        return done.stdout.strip(), done.stderr.strip()
    return run


@pytest.mark.parametrize("what, said, words", [
    ("divide", "signal 11, cr2 0", "the host stopped the kernel by signal 8"),
    ("illegal", "signal 11, cr2 0", "the host stopped the kernel by signal 4"),
    ("null", "signal 11, cr2 10", "the host stopped the kernel at a NULL pointer"),
    ("wild", "signal 11, cr2 12345000", "")])
def test_faults_of_an_instruction_are_faults_with_registers(program, what, said, words):
    assert program(what) == (said, words)


def test_handlers_that_are_not_the_kernels_stay_as_they_are(program):
    assert program("stub") == ("stub 1", "")


def test_a_signal_that_somebody_sent_stays_what_it_is(program):
    said, words = program("sent")
    assert said.startswith("signal 8, ") and words == ""


def test_it_is_made_once_and_only_where_it_can_be(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert fault_signals.library() is None and not (tmp_path / "cache").exists()
    monkeypatch.undo()
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    path = fault_signals.library()
    before = os.stat(path).st_mtime_ns
    assert fault_signals.library() == path and os.stat(path).st_mtime_ns == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    monkeypatch.setattr(fault_signals, "_COMPILE", ("gcc", "--no-such-option"))
    assert fault_signals.library() is None
