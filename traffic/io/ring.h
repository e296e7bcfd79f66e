/* SPDX-License-Identifier: GPL-2.0-only */
/* The operations of uring.py beside this file, which sets the ring up and says what they do. */
#ifndef TRAFFIC_RING_H
#define TRAFFIC_RING_H

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* <linux/io_uring.h>, whose older versions lack some */
enum {
	OP_RECVMSG = 10, OP_TIMEOUT = 11, OP_ACCEPT = 13, OP_ASYNC_CANCEL = 14, OP_CONNECT = 16, OP_CLOSE = 19,
	OP_READ = 22, OP_SEND = 26, OP_RECV = 27, OP_SHUTDOWN = 34, OP_SOCKET = 45, OP_URING_CMD = 46, OP_BIND = 56,
	LINK = 4, QUIET = 64,			/* QUIET: no completion after success */
	ENTER_WAIT = 1 << 0 | 1 << 3,		/* GETEVENTS EXT_ARG */
	TIMEOUT_ABS = 1, TIMEOUT_SUCCEEDS = 1 << 5, CANCEL_EVERYTHING = 1 << 0 | 1 << 2, POLL_FIRST = 1,
	GET_OPTION = 2, SET_OPTION = 3,
	SYS_ENTER = 426,
	ARGUMENT_BYTES = 96, LONGEST_CHAIN = 48, SEND_BUFFER_BYTES = 1 << 18,
};

struct sqe {
	uint8_t opcode, flags;
	uint16_t priority;
	int32_t fd;
	uint64_t off, address;
	uint32_t length, op_flags;
	uint64_t number;
	uint32_t personality, index;
	uint64_t last, pad;
};

struct cqe {
	uint64_t number;
	int32_t result;
	uint32_t flags;
};

/* what uring.py knows of the ring (../replay/core_loop.py); words: of the mapped ring, whose places are in words */
struct shared_ring {
	int64_t fd, entries, completions;
	uint32_t *words;
	int64_t sq_head, sq_tail, cq_head, cq_tail;
	const struct cqe *cqes;
	struct sqe *sqes;
	uint8_t *arguments, *sink, *end;
	const void *wait;
	int64_t wait_size, clock_fd, tail;
};

struct ring {
	struct shared_ring *shared;
	uint32_t tail, waiting;
	int error;				/* errno of a submission that the kernel refused: the end of all */
	struct cqe *found;			/* place for `completions`, of ring_submit_and_wait() */
};

/* with struct iovec for what nobody looks at, and for the rest */
struct message {
	uint64_t name;
	uint32_t name_size, pad;
	uint64_t vectors, n_vectors, control, control_size, flags;
	uint64_t sink, sink_size, address, size;
};

static inline struct sqe *ring_put(struct ring *ring, int opcode, int flags, int fd, uint64_t off, uint64_t address,
				   uint32_t length, uint32_t op_flags, uint64_t number)
{
	struct sqe *sqe = &ring->shared->sqes[ring->tail & (ring->shared->entries - 1)];

	*sqe = (struct sqe) { .opcode = opcode, .flags = flags, .fd = fd, .off = off, .address = address,
			      .length = length, .op_flags = op_flags, .number = number };
	ring->tail++;
	ring->waiting++;
	return sqe;
}

/* beside the entry that comes next */
static inline void *ring_argument(struct ring *ring)
{
	return ring->shared->arguments + (ring->tail & (ring->shared->entries - 1)) * ARGUMENT_BYTES;
}

/* -1 after a signal, or with `error` */
static inline int ring_enter(struct ring *ring, unsigned int least)
{
	struct shared_ring *shared = ring->shared;
	long result;

	__atomic_store_n(&shared->words[shared->sq_tail], ring->tail, __ATOMIC_RELEASE);
	result = syscall(SYS_ENTER, (int)shared->fd, ring->waiting, least, ENTER_WAIT, shared->wait,
			 (size_t)shared->wait_size);
	if (result < 0 && errno != EINTR)
		ring->error = errno;
	ring->waiting = ring->tail - __atomic_load_n(&shared->words[shared->sq_head], __ATOMIC_ACQUIRE);
	return result < 0 ? -1 : 0;
}

static inline void ring_make_room(struct ring *ring, uint32_t operations)
{
	if (ring->waiting + operations > ring->shared->entries)
		ring_enter(ring, 0);
}

/* how many have completed; they are in `found` */
static inline int ring_submit_and_wait(struct ring *ring)
{
	struct shared_ring *shared = ring->shared;
	uint32_t mask = shared->completions - 1, head, tail;
	int n = 0;

	ring_enter(ring, 1);
	head = shared->words[shared->cq_head];
	tail = __atomic_load_n(&shared->words[shared->cq_tail], __ATOMIC_ACQUIRE);
	while (head != tail)
		ring->found[n++] = shared->cqes[head++ & mask];
	__atomic_store_n(&shared->words[shared->cq_head], head, __ATOMIC_RELEASE);
	return n;
}

static inline void ring_timeout(struct ring *ring, int64_t ns, uint32_t kind, int flags, uint64_t number)
{
	int64_t *at = ring_argument(ring);

	at[0] = ns / 1000000000;
	at[1] = ns % 1000000000;
	ring_put(ring, OP_TIMEOUT, flags, -1, 0, (uintptr_t)at, 1, kind, number);
}

static inline void ring_at(struct ring *ring, int64_t instant_ns, int flags, uint64_t number)
{
	ring_timeout(ring, instant_ns, TIMEOUT_ABS | TIMEOUT_SUCCEEDS, flags, number);
}

static inline void ring_after(struct ring *ring, int64_t ns, int flags, uint64_t number)
{
	ring_timeout(ring, ns, TIMEOUT_SUCCEEDS, flags, number);
}

static inline void ring_note_time(struct ring *ring, uint64_t *address, int flags, uint64_t number)
{
	ring_put(ring, OP_READ, flags, ring->shared->clock_fd, 0, (uintptr_t)address, 8, 0, number);
}

static inline void ring_socket(struct ring *ring, int family, int flags, uint64_t number)
{
	ring_put(ring, OP_SOCKET, flags, family, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0, number);
}

static inline void ring_option(struct ring *ring, int what, int fd, int level, int name, const void *value, int size,
			       int flags, uint64_t number)
{
	struct sqe *sqe = ring_put(ring, OP_URING_CMD, flags, fd, what, (uint64_t)level | (uint64_t)name << 32, 0, 0,
				   number);

	sqe->index = size;
	sqe->last = (uintptr_t)value;
}

/* bind or connect to an address */
static inline void ring_endpoint(struct ring *ring, int opcode, int fd, const uint8_t *ip, int ip_size, int port,
				 int flags, uint64_t number)
{
	uint8_t *at = ring_argument(ring);
	int size = ip_size == 4 ? 16 : 28;

	memset(at, 0, size);
	*(uint16_t *)at = ip_size == 4 ? AF_INET : AF_INET6;
	*(uint16_t *)(at + 2) = htons(port);
	memcpy(at + (ip_size == 4 ? 4 : 8), ip, ip_size);
	ring_put(ring, opcode, flags, fd, size, (uintptr_t)at, 0, 0, number);
}

static inline void ring_accept(struct ring *ring, int fd, void *address, int *size, uint64_t number)
{
	ring_put(ring, OP_ACCEPT, 0, fd, (uintptr_t)size, (uintptr_t)address, 0, SOCK_CLOEXEC, number);
}

static inline void ring_send(struct ring *ring, int fd, const uint8_t *address, int64_t size, int flags,
			     uint64_t number)
{
	ring_put(ring, OP_SEND, flags, fd, 0, (uintptr_t)address, size, MSG_WAITALL | MSG_NOSIGNAL, number);
}

static inline void ring_receive(struct ring *ring, int fd, uint8_t *address, int64_t size, int flags, uint64_t number)
{
	ring_put(ring, OP_RECV, flags, fd, 0, (uintptr_t)(address ? address : ring->shared->sink), size, MSG_WAITALL,
		 number)->priority = POLL_FIRST;
}

static inline void ring_receive_end(struct ring *ring, int fd, int flags, uint64_t number)
{
	ring_put(ring, OP_RECV, flags, fd, 0, (uintptr_t)ring->shared->end, 1, 0, number)->priority = POLL_FIRST;
}

static inline void ring_receive_last(struct ring *ring, int fd, uint8_t *address, int64_t last, int64_t size, int flags,
				     uint64_t number)
{
	struct message *message = ring_argument(ring);

	*message = (struct message) { .vectors = (uintptr_t)&message->sink, .n_vectors = 2,
				      .sink = (uintptr_t)ring->shared->sink, .sink_size = size - last,
				      .address = (uintptr_t)address, .size = last };
	ring_put(ring, OP_RECVMSG, flags, fd, 0, (uintptr_t)message, 1, MSG_WAITALL, number)->priority = POLL_FIRST;
}

static inline void ring_shutdown(struct ring *ring, int fd, int flags, uint64_t number)
{
	ring_put(ring, OP_SHUTDOWN, flags, fd, 0, 0, SHUT_WR, 0, number);
}

static inline void ring_close_socket(struct ring *ring, int fd, int flags, uint64_t number)
{
	ring_put(ring, OP_CLOSE, flags, fd, 0, 0, 0, 0, number);
}

static inline void ring_cancel_everything(struct ring *ring, uint64_t number)
{
	ring_put(ring, OP_ASYNC_CANCEL, 0, 0, 0, 0, 0, CANCEL_EVERYTHING, number);
}

#endif
