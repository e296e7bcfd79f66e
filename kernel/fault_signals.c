// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into the process of a User-Mode-Linux kernel: a division by zero, or a NULL pointer, is explained.
 *
 * UML takes registers from the host's signal frame for SIGSEGV only. For SIGFPE and SIGILL it panics on the signal
 * stack without registers, and so without the function and without a call trace. Here the kernel's own handler is
 * called as if it were SIGSEGV, with the same frame: it shows registers and trace, and panics all the same. A line
 * before that says which signal it was (kernel/crash.py reads it). Of SIGSEGV, a line tells of NULL pointers, and of a
 * stack that is full: it has overwritten what the kernel would need to say so itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>
#include <unistd.h>

typedef void handler(int, siginfo_t *, void *);

static handler *of_kernel[NSIG];

static void say(const char *words)
{
	if (write(STDERR_FILENO, words, strlen(words)) < 0) {
		/* the kernel's own words follow */
	}
}

/* of a full stack: how far from the stack pointer a frame's first access may be */
#define FRAME 65536

static void say_where(greg_t at)
{
	char words[] = "\nthe host stopped the kernel at the end of its stack, at 0x0000000000000000\n";
	int digit;

	for (digit = 0; digit < 16; digit++)
		words[sizeof(words) - 3 - digit] = "0123456789abcdef"[at >> 4 * digit & 15];
	say(words);
}

static void fault(int number, siginfo_t *info, void *frame)
{
	if (info->si_code <= 0) {			/* somebody sent it: no fault of the instruction */
		of_kernel[number](number, info, frame);
		return;
	}
	if (number == SIGSEGV) {
		greg_t *registers = ((ucontext_t *)frame)->uc_mcontext.gregs;
		size_t below = registers[REG_RSP] - (size_t)info->si_addr + FRAME;

		/* below the least address of vm.mmap_min_addr; elsewhere faults are everyday life of a UML kernel */
		if (info->si_code == SEGV_MAPERR && (size_t)info->si_addr < 4096)
			say("\nthe host stopped the kernel at a NULL pointer\n");
		else if (below < 2 * FRAME)
			say_where(registers[REG_RIP]);
	} else {
		say(number == SIGFPE ? "\nthe host stopped the kernel by signal 8\n"
				     : "\nthe host stopped the kernel by signal 4\n");
		/* not a page fault, and no address that anybody accessed */
		((ucontext_t *)frame)->uc_mcontext.gregs[REG_CR2] = 0;
	}
	of_kernel[number](SIGSEGV, info, frame);
}

/*
 * Whether this is a handler of the kernel, and not that of the stub behind which a process of the guest runs: a page that
 * is all that such a process has of the kernel's program, and nothing of this library.
 */
static int is_of_kernel(handler *called)
{
	Dl_info of_called, of_program;

	return dladdr((void *)called, &of_called) && dladdr((void *)getauxval(AT_ENTRY), &of_program) &&
		of_called.dli_fbase == of_program.dli_fbase;
}

int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
	int (*next)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "sigaction");
	struct sigaction changed;

	if ((number != SIGFPE && number != SIGILL && number != SIGSEGV) || !new || !(new->sa_flags & SA_SIGINFO) ||
	    !is_of_kernel(new->sa_sigaction))
		return next(number, new, old);
	of_kernel[number] = new->sa_sigaction;
	changed = *new;
	changed.sa_sigaction = fault;
	return next(number, &changed, old);
}
