/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The core of the replay over an imitated kernel. imitated_core.py compiles it with all system calls that a replay makes
 * renamed to the functions below, which ask the test.
 */
#include "chained.c"		/* for steps_from() */

#include <stdarg.h>
#include <stdlib.h>

/* descriptors from here on are the imitated kernel's */
#define FIRST_FD (1 << 20)

/* functions of the test; of a failed one the result is negative */
int (*on_enter)(int ring, int waiting, int least);
int (*on_socket)(void);

long imitated_syscall(long number, ...)
{
	va_list more;
	int ring, result;
	unsigned int waiting, least;

	va_start(more, number);
	ring = va_arg(more, int);
	waiting = va_arg(more, unsigned int);
	least = va_arg(more, unsigned int);
	va_end(more);
	result = number == SYS_ENTER ? on_enter(ring, waiting, least) : -1;
	if (result < 0)
		errno = EIO;
	return result;
}

int imitated_socket(int family, int kind, int protocol)
{
	(void)family, (void)kind, (void)protocol;
	return on_socket();
}

int imitated_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	(void)fd, (void)level, (void)name;
	*size = sizeof("cubic");
	memcpy(value, "cubic", *size);
	return 0;
}

#undef close
int close(int fd);
int imitated_close(int fd)
{
	return fd < FIRST_FD ? close(fd) : 0;
}

static int compare(const void *one, const void *other)
{
	int64_t first = *(const int64_t *)one, second = *(const int64_t *)other;

	return (first > second) - (first < second);
}

static bool is_twice_in(struct pool *pool)
{
	int64_t i;

	qsort(pool->free, pool->n, sizeof(*pool->free), compare);
	for (i = 1; i < pool->n; i++)
		if (pool->free[i] == pool->free[i - 1])
			return true;
	return false;
}

/* what was taken and not given back, or given back twice, when a replay is over; NULL for nothing */
const char *what_is_lost(struct loop *loop)
{
	if (is_twice_in(&loop->blocks))
		return "a block was given back twice";
	if (is_twice_in(&loop->buffers))
		return "a buffer was given back twice";
	return loop->blocks.n == loop->fresh_blocks ? NULL : "blocks were not given back";
}

/* place: all of struct place as numbers; steps: (what, answers, closes) of each */
int chain_of(const struct shared_end *end, int64_t *place, int begins, int64_t *steps)
{
	struct place at = { .op = place[0], .last_op = place[1], .read = place[2], .mark = place[3], .sent = place[4],
			    .peer_op = place[5], .peer_last = place[6], .expected = place[7], .closes = place[8],
			    .eof_is_last = place[9] };
	struct step found[MOST_STEPS + 1];
	int n = steps_from(found, &at, end, begins), i;

	for (i = 0; i < n; i++) {
		steps[3 * i] = found[i].what;
		steps[3 * i + 1] = found[i].answers;
		steps[3 * i + 2] = found[i].closes;
	}
	memcpy(place, (int64_t[]){ at.op, at.last_op, at.read, at.mark, at.sent, at.peer_op }, 6 * sizeof(*place));
	return n;
}
