/* SPDX-License-Identifier: GPL-2.0-only */
/* The clock of traffic/io/clock.py. */
#include "core.h"

#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <time.h>

int64_t now_ns(const struct loop *loop)
{
	struct timespec now;

	if (loop->clock)
		return (int64_t)*loop->clock + loop->shared->offset_ns;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

const volatile uint64_t *mapped_clock(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *page;

	if (fd < 0)
		return NULL;
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return page == MAP_FAILED ? NULL : page;
}

/* what the wake-up of a process costs: time.sleep(ns / 1e9) of Python, down to how that rounds */
void pay_for_wakeup(int64_t ns)
{
	volatile double seconds = ns / 1e9;
	int64_t rounded = ceil(seconds * 1e9);
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	rounded += until.tv_nsec;
	until.tv_sec += rounded / 1000000000;
	until.tv_nsec = rounded % 1000000000;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}
