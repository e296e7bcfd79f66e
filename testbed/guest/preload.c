// SPDX-License-Identifier: GPL-2.0-only
/* Preloaded into Python: memory comes whole while it starts, and the clock is read from memory.
 *
 * A page fault of a guest's process costs the host 45 us, and the start of a Python program has 1,700 of them. Memory that
 * is locked is there at once, for a tenth of that. traffic/io/process_memory.py ends it before traffic begins.
 *
 * Python 3.11 asks for the time whenever it takes a lock, which the start of a program does 500 times: a third of all
 * system calls of a short run. Virtual time stands still until the program sleeps, so that /dev/virtual_clock
 * (kernel/patches/speed/0002) says the same without one. Elsewhere there is no such device.
 *
 * The kernel moves the time by a step once it was asked for it often enough (kernel/patches/0006). Who waits by asking
 * again and again depends on that, as Python does that waits with a time limit, wakes up at just that instant, and
 * goes on until it is past. So whoever has heard the same instant for long asks the kernel from then on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL
#define MOST_EQUAL 1000
#ifndef VIRTUAL_CLOCK			/* a test has another */
#define VIRTUAL_CLOCK "/dev/virtual_clock"
#endif

static const volatile unsigned long long *virtual_clock;
static long long ahead_ns;		/* CLOCK_MONOTONIC against the device */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static __thread long long last_ns;
	static __thread int equal;
	long long ns;

	if (clock != CLOCK_MONOTONIC || !virtual_clock)
		return syscall(SYS_clock_gettime, clock, now);
	ns = (long long)*virtual_clock + ahead_ns;
	equal = ns == last_ns ? equal + (equal < MOST_EQUAL) : 0;
	last_ns = ns;
	if (equal >= MOST_EQUAL)
		return syscall(SYS_clock_gettime, clock, now);
	now->tv_sec = ns / SECOND_NS;
	now->tv_nsec = ns % SECOND_NS;
	return 0;
}

/* Process 1 calls it once there is a /dev. */
void use_virtual_clock(void)
{
	struct timespec now;
	void *page = MAP_FAILED;
	int fd = open(VIRTUAL_CLOCK, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED || clock_gettime(CLOCK_MONOTONIC, &now))
		return;
	ahead_ns = now.tv_sec * SECOND_NS + now.tv_nsec - (long long)*(const volatile unsigned long long *)page;
	virtual_clock = page;
}

__attribute__((constructor)) static void prepare(void)
{
	unsetenv("LD_PRELOAD");		/* programs that this one starts are short, and do not gain by it */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	use_virtual_clock();
}
