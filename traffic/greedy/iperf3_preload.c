// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes iperf3 3.12 sleep where it would spin, for a clock that only advances
 * while nobody computes (docs/greedy.md). Preloaded by traffic/greedy/iperf3.py.
 *
 * - Between connecting and starting, and again at the end, iperf3 waits for a
 *   byte on its control connection, but its select() also asks whether the data
 *   socket is writable, which it is. A call costs 256 ns of virtual time, a round
 *   trip of 25 ms thus 100,000 calls. Whoever is told "writable" and does not
 *   write is no longer asked to, until something can be read.
 * - Its server reads packet by packet. SO_RCVLOWAT wakes it once per block, or once
 *   per 1/32 of the receive window while that is less: what lies unread takes from
 *   the window, and that must not be what limits the flow.
 * - It dies with the program that started it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK_BYTES = 128 << 10, WINDOW_SHARE = 32, READS_BETWEEN = 16, MOST_UNUSED = 2 };

static int unused; /* times that a socket was writable and nothing was written */
static int data_fd = -1;
static unsigned int reads;
static int (*next_select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
static ssize_t (*next_read)(int, void *, size_t);
static ssize_t (*next_write)(int, const void *, size_t);
static int (*next_getsockopt)(int, int, int, void *, socklen_t *);

__attribute__((constructor)) static void start(void)
{
	next_select = dlsym(RTLD_NEXT, "select");
	next_read = dlsym(RTLD_NEXT, "read");
	next_write = dlsym(RTLD_NEXT, "write");
	next_getsockopt = dlsym(RTLD_NEXT, "getsockopt");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static int any(int count, const fd_set *set)
{
	while (set && count-- > 0)
		if (FD_ISSET(count, set))
			return 1;
	return 0;
}

int select(int count, fd_set *readable, fd_set *writable, fd_set *except, struct timeval *timeout)
{
	int ready;

	if (unused >= MOST_UNUSED && writable)
		FD_ZERO(writable);
	ready = next_select(count, readable, writable, except, timeout);
	if (ready > 0 && any(count, readable))
		unused = 0;
	else if (ready > 0 && any(count, writable))
		unused++;
	return ready;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	unused = 0;
	return next_write(fd, data, bytes);
}

static void set_low_water(int fd)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);
	int bytes;

	if (next_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length))
		return;
	bytes = info.tcpi_rcv_ssthresh / WINDOW_SHARE;
	if (bytes > BLOCK_BYTES)
		bytes = BLOCK_BYTES;
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

ssize_t read(int fd, void *data, size_t bytes)
{
	/* The window grows in slow start; later this is but a small part of the calls. */
	if (fd == data_fd && reads++ % READS_BETWEEN == 0)
		set_low_water(fd);
	return next_read(fd, data, bytes);
}

/* iperf3 asks for the congestion control of its data connection only, just before the data. */
int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	if (level == IPPROTO_TCP && name == TCP_CONGESTION)
		data_fd = fd;
	return next_getsockopt(fd, level, name, value, length);
}
