// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes iperf3 3.12 sleep where it would spin, for a clock that only advances
 * while nobody computes (docs/howto/greedy.md). Preloaded by traffic/greedy/iperf3.py.
 *
 * - Between connecting and starting, and again at the end, iperf3 waits for a
 *   byte on its control connection, but its select() also asks whether the data
 *   socket is writable, which it is. Virtual time does not pass meanwhile, until a
 *   guest takes the calls for a loop (docs/explanation/reproducibility.md). Whoever is told "writable" and does not
 *   write is no longer asked to, until something can be read.
 * - If that takes longer than its first report, because the byte was lost, the report is due and
 *   made only once the test runs: until then select() is told to wait for 0 s, again and
 *   again. The third time it waits for a millisecond.
 * - Its server reads packet by packet. It goes on to read inside the kernel, where each packet is read as
 *   soon as it comes, too, until a block is full or 10 ms have passed.
 * - It dies with the program that started it.
 * - Its sockets have the congestion control of the environment variable TESTBED_CCA from the first, those that
 *   listen, too, whose connections inherit it. What another one leaves behind would stay: pacing, ECN.
 * - No more bytes than the environment variable TESTBED_WINDOW says are in flight to a server: as for plain sockets
 *   (traffic/greedy/ends.py).
 * - With the environment variable TESTBED_NAGLE its control connection keeps Nagle's algorithm, as that of iperf3 up to
 *   3.9 did (https://github.com/esnet/iperf/pull/1063). The server then sends "begins", and "runs" a round trip later,
 *   when the first is acknowledged; the client counts time from the first and sends from the second.
 *
 * What the data connection carries depends on its position, and is compared where it arrives. At the
 * end "bytes compared, pieces that were wrong, position of the first, congestion control that the data connection was born
 * with" go to the file that the environment variable TESTBED_PAYLOAD names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 128 << 10, MOST_UNUSED = 2, PERIOD = 65521 };
enum { BUFFER_WINDOWS = 4 }; /* a buffer of so many holds a window with what the kernel needs besides */
enum { PAUSE_US = 1000, READ_US = 10000, MOST_FDS = 64, CCA_BYTES = 16 };

static int unused;  /* times that a socket was writable and nothing was written */
static int in_vain; /* times in a row that select() was not to wait, and found nothing */
static int data_fd = -1;
static int window_bytes; /* 0: no limit */
static int nagle;
static int goes_on; /* whether reads of data go on until a block is full */
static unsigned long long compared, wrong, first_wrong;
static size_t place;			     /* of the next byte of data in the pattern */
static char pattern[PERIOD + BLOCK_BYTES]; /* repeats itself after PERIOD, which is a prime */
static int (*next_select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
static ssize_t (*next_read)(int, void *, size_t);
static ssize_t (*next_write)(int, const void *, size_t);
static int (*next_getsockopt)(int, int, int, void *, socklen_t *);
static int (*next_setsockopt)(int, int, int, const void *, socklen_t);
static int (*next_socket)(int, int, int);
static int (*next_connect)(int, const struct sockaddr *, socklen_t);
static int (*next_accept)(int, struct sockaddr *, socklen_t *);
static char born[MOST_FDS][CCA_BYTES];	/* congestion controls of connections before their SYN, or when they were accepted */

/* Bytes of which no eight come twice within a period (the high ones of an LCG, Knuth's MMIX). */
static void make_pattern(void)
{
	uint64_t state = 1;
	size_t i;

	for (i = 0; i < PERIOD; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		pattern[i] = state >> 56;
	}
	for (; i < sizeof(pattern); i++)
		pattern[i] = pattern[i - PERIOD];
}

__attribute__((constructor)) static void start(void)
{
	const char *window = getenv("TESTBED_WINDOW");

	window_bytes = window ? atoi(window) : 0;
	nagle = getenv("TESTBED_NAGLE") != NULL;
	make_pattern();
	next_select = dlsym(RTLD_NEXT, "select");
	next_read = dlsym(RTLD_NEXT, "read");
	next_write = dlsym(RTLD_NEXT, "write");
	next_getsockopt = dlsym(RTLD_NEXT, "getsockopt");
	next_socket = dlsym(RTLD_NEXT, "socket");
	next_connect = dlsym(RTLD_NEXT, "connect");
	next_setsockopt = dlsym(RTLD_NEXT, "setsockopt");
	next_accept = dlsym(RTLD_NEXT, "accept");
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
	struct timeval pause = { 0, PAUSE_US };
	int now = timeout && !timeout->tv_sec && !timeout->tv_usec;
	int ready;

	if (unused >= MOST_UNUSED && writable)
		FD_ZERO(writable);
	if (now && in_vain >= MOST_UNUSED)
		timeout = &pause;
	ready = next_select(count, readable, writable, except, timeout);
	in_vain = now && !ready ? in_vain + 1 : 0;
	if (ready > 0 && any(count, readable))
		unused = 0;
	else if (ready > 0 && any(count, writable))
		unused++;
	return ready;
}

__attribute__((destructor)) static void finish(void)
{
	const char *name = getenv("TESTBED_PAYLOAD");
	FILE *file = name ? fopen(name, "w") : NULL;

	if (!file)
		return;
	fprintf(file, "%llu %llu %llu %s\n", compared, wrong, first_wrong,
		data_fd >= 0 && data_fd < MOST_FDS ? born[data_fd] : "");
	fclose(file);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	ssize_t done;

	unused = 0;
	if (fd != data_fd)
		return next_write(fd, data, bytes);
	done = next_write(fd, pattern + place, bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES);
	if (done > 0)
		place = (place + done) % PERIOD;
	return done;
}

/* The other connection of iperf3, and its timers, must not wait longer than this for what comes by the data's. */
static void go_on(int fd)
{
	struct timeval limit = { 0, READ_US };

	goes_on = !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) &&
		  !fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

static void die(const char *what)
{
	fprintf(stderr, "%s: %m\n", what);
	_exit(1);
}

static void clamp_window(int fd)
{
	if (window_bytes && setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &window_bytes, sizeof(window_bytes)))
		die("window");
}

/* A buffer that was set keeps the kernel from tuning it, and the window with it. */
static void limit_window(int fd)
{
	int buffer_bytes = BUFFER_WINDOWS * window_bytes;

	if (window_bytes && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes)))
		die("receive buffer");
	clamp_window(fd);
}

/* Compare what came with the pattern, block by block. */
static void compare(const char *data, size_t bytes)
{
	size_t part;

	for (; bytes; data += part, bytes -= part) {
		part = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;
		if (memcmp(data, pattern + place, part) && wrong++ == 0)
			first_wrong = compared;
		compared += part;
		place = (place + part) % PERIOD;
	}
}

ssize_t read(int fd, void *data, size_t bytes)
{
	int first = fd == data_fd && !compared;
	ssize_t done;

	if (fd == data_fd && !goes_on)
		go_on(fd);
	done = fd == data_fd ? recv(fd, data, bytes, goes_on && !(first && window_bytes) ? MSG_WAITALL : 0) :
			       next_read(fd, data, bytes);
	if (fd == data_fd && done > 0)
		compare(data, done);
	if (first) /* the kernel puts another clamp in its place when it sees how much memory segments take: at once */
		clamp_window(fd);
	return done;
}

/* iperf3 asks for the congestion control of its data connection only, just before the data. */
int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	if (level == IPPROTO_TCP && name == TCP_CONGESTION)
		data_fd = fd;
	return next_getsockopt(fd, level, name, value, length);
}

/* Nothing else asks for it: iperf3 is not started with -N. */
int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	if (nagle && level == IPPROTO_TCP && name == TCP_NODELAY)
		return 0;
	return next_setsockopt(fd, level, name, value, length);
}

int socket(int domain, int type, int protocol)
{
	const char *cca = getenv("TESTBED_CCA");
	int fd = next_socket(domain, type, protocol);

	if (fd < 0 || (domain != AF_INET && domain != AF_INET6) ||
	    (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM)
		return fd;
	if (cca && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cca, strlen(cca))) {
		fprintf(stderr, "congestion control %s: %m\n", cca);
		_exit(1);
	}
	limit_window(fd);
	return fd;
}

static void note_birth(int fd)
{
	socklen_t length = CCA_BYTES - 1;

	if (fd < 0 || fd >= MOST_FDS)
		return;
	memset(born[fd], 0, CCA_BYTES);
	if (next_getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, born[fd], &length))
		born[fd][0] = 0;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	note_birth(fd);
	return next_connect(fd, address, length);
}

int accept(int fd, struct sockaddr *address, socklen_t *length)
{
	int accepted = next_accept(fd, address, length);

	note_birth(accepted);
	return accepted;
}
