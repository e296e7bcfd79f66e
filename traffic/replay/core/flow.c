/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One end of one connection: its program of ops.
 *
 * A wait and the write behind it are one chain in the ring, and a read is under way as long as something is to come. So
 * a flow hears of what happens only where it has to note an instant or to decide.
 */
#include "core.h"

#include <netinet/tcp.h>

static void submit_write(struct flow *flow, int64_t size);
static void program_over(struct flow *flow, int64_t now);

static int64_t smaller(int64_t one, int64_t other)
{
	return one < other ? one : other;
}

/* whether the peer's FIN can come only after it has read all that this side writes */
static bool eof_is_last(const struct flow *flow)
{
	const struct shared_end *end = flow->end;
	int64_t last = flow->peer_last - 1, sum = 0, op;

	for (op = end->own_first[flow->index]; op < flow->last_op; op++)
		sum += end->own_bytes[op];
	return last >= end->peer_first[flow->index] && !end->peer_bytes[last] && end->peer_need[last] >= sum;
}

void flow_begin(struct flow *flow, struct loop *loop, struct shared_end *end, int64_t index, int64_t number, int fd,
		int64_t block)
{
	int64_t phase = end->phase + index * STEP, op;

	*flow = (struct flow) {
		.loop = loop, .end = end, .index = index, .number = number << KIND_BITS, .fd = fd, .block = block,
		.op = end->own_first[index], .last_op = end->own_first[index + 1],
		.peer_op = end->peer_first[index], .peer_last = end->peer_first[index + 1], .state = CONNECTING,
	};
	for (op = flow->peer_op; op < flow->peer_last; op++)
		flow->expected += end->peer_bytes[op];
	flow->mark = flow->expected ? end->peer_bytes[flow->peer_op] : NOWHERE;
	flow->closes = flow->op < flow->last_op && !end->own_bytes[flow->last_op - 1];
	flow->out_place = place_in_period(phase);
	flow->in_place = place_in_period(phase + end->backwards);
	flow->eof_is_last = eof_is_last(flow);
	if (end->windows) {
		flow->window[0] = smaller(BUFFER_WINDOWS * end->windows[index], MOST_BUFFER_BYTES);
		flow->window[1] = smaller(end->windows[index], MOST_BUFFER_BYTES);
	}
}

void flow_note(struct flow *flow, int64_t status, int64_t now)
{
	struct shared_end *end = flow->end;

	end->status[flow->index] = status;
	end->end_us[flow->index] = us_of(now);
	end->read_bytes[flow->index] = flow->read;
}

static void over(struct flow *flow, int64_t status, int64_t now)
{
	flow->state = CLOSED;
	flow_note(flow, status, now);
	forget(flow->loop, flow->number >> KIND_BITS);
}

/* Close after an error, but not before what waits in the ring for its time has found the socket broken: the number of
 * the descriptor may be another socket's next. An error that comes of the peer's stop at the end does not count. */
void flow_fail(struct flow *flow, int error, int64_t now)
{
	struct loop *loop = flow->loop;

	if (at_end(loop))
		return;
	if (!flow->is_closed) {
		ring_make_room(&loop->ring, LONGEST_CHAIN);
		if (flow->due >= now)
			ring_at(&loop->ring, loop->shared->t0_ns + flow->due + 1, LINK | QUIET, IGNORED);
		ring_close_socket(&loop->ring, flow->fd, QUIET, IGNORED);
	}
	over(flow, -error, now);
}

static void close_now(struct flow *flow, int64_t now)
{
	ring_make_room(&flow->loop->ring, LONGEST_CHAIN);
	ring_close_socket(&flow->loop->ring, flow->fd, QUIET, IGNORED);
	over(flow, FINISHED, now);
}

/* Close at the end of a chain, at `due`: the FIN op that ends the program. Nobody is told unless the chain fails, so
 * the outcome is recorded now; flow_fail() or flow_cut() correct it. The FIN is later than `due` if the write before it
 * has to wait for room. */
static void submit_close(struct flow *flow)
{
	ring_close_socket(&flow->loop->ring, flow->fd, QUIET, flow->number | SEND);
	flow->state = CLOSED;
	flow->end->sent_us[flow->op] = us_of(flow->due);
	flow_note(flow, FINISHED, flow->due);
	closes_at(flow->loop, flow->due, flow->number >> KIND_BITS);
}

/* the replay ends at `now`, before the connection does */
void flow_cut(struct flow *flow, int64_t now)
{
	struct shared_end *end = flow->end;
	int64_t op;

	if (flow->state == CLOSED && flow->due <= now)
		return;
	end->status[flow->index] = UNFINISHED;
	end->end_us[flow->index] = NEVER;
	end->read_bytes[flow->index] = flow->read;
	for (op = end->own_first[flow->index]; op < flow->last_op; op++)
		if (end->sent_us[op] > us_of(now))
			end->sent_us[op] = NEVER;
}

/* --- reading ----------------------------------------------------------------------------------- */

uint8_t *flow_submit_read(struct flow *flow, int64_t asked, int flags)
{
	uint8_t *buffer = take_buffer(flow->loop);
	struct ring *ring = &flow->loop->ring;

	if (asked <= KEPT_BYTES)
		ring_receive(ring, flow->fd, buffer, asked, flags, flow->number | RECEIVE);
	else
		ring_receive_last(ring, flow->fd, buffer, KEPT_BYTES, asked, flags, flow->number | RECEIVE);
	return buffer;
}

void flow_wait_unchained(struct flow *flow)
{
	struct ring *ring = &flow->loop->ring;

	if (flow->state == CLOSED || flow->asked)
		return;
	if (flow->read < flow->expected) {
		flow->asked = smaller(flow->mark - flow->read, SEND_BUFFER_BYTES);
		if (flow->end->windows && flow->mark - flow->read == flow->end->peer_bytes[flow->peer_op])
			flow->asked = 1;		/* to set the window again */
		ring_make_room(ring, LONGEST_CHAIN);
		flow->buffer = flow_submit_read(flow, flow->asked, 0);
	} else if (!flow->closes) {
		ring_make_room(ring, LONGEST_CHAIN);
		ring_receive(ring, flow->fd, NULL, 1, 0, flow->number | RECEIVE);
	}
}

static void wait_for_more(struct flow *flow)
{
	if (flow->block >= 0)
		chained_wait(flow);
	else
		flow_wait_unchained(flow);
}

static void note_wrong(struct flow *flow, int64_t position)
{
	struct shared_end *end = flow->end;

	if (!end->wrong_pieces++ || flow->index < end->wrong_connection ||
	    (flow->index == end->wrong_connection && position < end->wrong_position)) {
		end->wrong_connection = flow->index;
		end->wrong_position = position;
	}
}

/* a read is over: look at the last of its `n` bytes, and count them */
void flow_take(struct flow *flow, int64_t n)
{
	struct loop *loop = flow->loop;
	struct shared_end *end = flow->end;
	int64_t before = flow->asked > KEPT_BYTES ? flow->asked - KEPT_BYTES : 0;

	if (n > before) {
		if (memcmp(flow->buffer, loop->shared->pattern + place_in_period(flow->in_place + before), n - before))
			note_wrong(flow, flow->read + before);
		end->checked_bytes += n - before;
		end->unchecked_bytes += before;
	} else {
		end->unchecked_bytes += n;
	}
	push(&loop->buffers, (intptr_t)flow->buffer);
	flow->asked = 0;
	flow->in_place = place_in_period(flow->in_place + n);
	flow->read += n;
}

void flow_read_failed(struct flow *flow)
{
	if (flow->asked) {
		push(&flow->loop->buffers, (intptr_t)flow->buffer);
		flow->asked = 0;
	}
}

void flow_delivered(struct flow *flow, int64_t now)
{
	struct shared_end *end = flow->end;
	int64_t more;

	end->delivered_us[flow->peer_op++] = us_of(now);
	more = flow->peer_op < flow->peer_last ? end->peer_bytes[flow->peer_op] : 0;	/* 0: only FIN is left */
	flow->mark = more ? flow->mark + more : NOWHERE;
}

/* submit the current op if the data it needs have come */
static void go_on(struct flow *flow, int64_t now)
{
	struct shared_end *end = flow->end;
	struct ring *ring = &flow->loop->ring;
	int64_t op = flow->op;

	if (op == flow->last_op) {
		program_over(flow, now);
		return;
	}
	if (end->own_need[op] > flow->read) {
		flow->state = DATA;
		return;
	}
	flow->due = (now > flow->due ? now : flow->due) + 1000 * end->own_wait_us[op];
	end->sent_us[op] = us_of(flow->due);
	ring_make_room(ring, LONGEST_CHAIN);
	if (flow->due > now)
		ring_at(ring, flow->loop->shared->t0_ns + flow->due, LINK | QUIET, flow->number | SEND);
	if (end->own_bytes[op]) {
		submit_write(flow, end->own_bytes[op]);
	} else if (flow->read == flow->expected) {
		submit_close(flow);
	} else {
		ring_shutdown(ring, flow->fd, 0, flow->number | SHUTDOWN);
		flow->state = WRITTEN;
	}
}

void flow_established(struct flow *flow, int64_t now)
{
	flow->state = DATA;
	chained_note_cca(flow);
	go_on(flow, now);
	wait_for_more(flow);
}

void flow_received(struct flow *flow, int64_t n, int64_t now)
{
	int64_t asked = flow->asked;

	chained_drop_steps(flow);
	if (!asked) {
		if (n) {
			flow_fail(flow, EPROTO, now);
			return;
		}
		flow->closes = true;
		if (flow->state == AT_EOF)
			close_now(flow, now);
		return;
	}
	flow_take(flow, n);
	if (flow->window[1])
		setsockopt(flow->fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &flow->window[1], sizeof(int));
	if (n < asked) {
		flow_fail(flow, EPIPE, now);
		return;
	}
	if (flow->read == flow->mark)
		flow_delivered(flow, now);
	if (flow->read == flow->expected && flow->state == LAST_DATA) {
		close_now(flow, now);
		return;
	}
	if (flow->state == DATA)
		go_on(flow, now);
	wait_for_more(flow);
}

/* --- writing ----------------------------------------------------------------------------------- */

/* write; ask to be told of the end only if the program could not go on otherwise */
static void submit_write(struct flow *flow, int64_t size)
{
	struct shared_end *end = flow->end;
	struct ring *ring = &flow->loop->ring;
	int64_t number = flow->number | SEND, after = flow->op + 1;
	const uint8_t *address = flow->loop->shared->pattern + flow->out_place;

	flow->left = size > SEND_BUFFER_BYTES ? size - SEND_BUFFER_BYTES : 0;
	size -= flow->left;
	flow->sent += size;
	flow->out_place = place_in_period(flow->out_place + size);
	if (flow->left) {
		/* the rest follows this part */
	} else if (after == flow->last_op) {
		if (!flow->closes && eof_is_last(flow)) {
			ring_send(ring, flow->fd, address, size, QUIET, number);
			flow->op = after;
			flow->state = AT_EOF;
			return;
		}
	} else if (end->own_need[after] > flow->read) {
		/* what it waits for will come later than this write's end */
		ring_send(ring, flow->fd, address, size, QUIET, number);
		flow->op = after;
		flow->state = DATA;
		return;
	} else if (!end->own_bytes[after] && flow->read == flow->expected) {
		ring_send(ring, flow->fd, address, size, LINK | QUIET, number);
		ring_after(ring, 1000 * end->own_wait_us[after], LINK | QUIET, number);
		flow->op = after;
		flow->due += 1000 * end->own_wait_us[after];
		submit_close(flow);
		return;
	}
	ring_send(ring, flow->fd, address, size, 0, number);
	flow->state = WRITTEN;
	flow->writing = size;
}

void flow_written(struct flow *flow, int64_t size, int64_t now)
{
	int64_t asked = flow->writing;

	flow->writing = 0;
	if (size < asked || !asked) {
		flow_fail(flow, EPIPE, now);
	} else if (flow->left) {
		ring_make_room(&flow->loop->ring, LONGEST_CHAIN);
		submit_write(flow, flow->left);
	} else {
		flow->op++;
		go_on(flow, now);
	}
}

void flow_fin_sent(struct flow *flow, int64_t now)
{
	flow->op++;
	program_over(flow, now);
}

/* everything is written; close when everything is read, without a FIN at EOF */
static void program_over(struct flow *flow, int64_t now)
{
	if (flow->read < flow->expected)
		flow->state = flow->closes ? LAST_DATA : AT_EOF;
	else if (flow->closes)
		close_now(flow, now);
	else
		flow->state = AT_EOF;
}
