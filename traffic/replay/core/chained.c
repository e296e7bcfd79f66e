/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What of a connection's program is handed to the ring in one chain: reads, and what they are answered with.
 *
 * A chain is carried out in the kernel, one operation after the other, and nobody is woken before its end, or at all
 * if it closes the connection. An operation behind each read notes its instant in the flow's block of words;
 * chained_settle() catches up with these when something is heard of the flow, when others come, and at the end.
 *
 * That is the same as being woken after each read if
 * - nothing is to be read before what precedes it in the chain has been written: the peer's data unit needs all of it;
 * - nothing is to be written before what precedes it has been read, and a write that was handed over earlier is over
 *   then;
 * - the connection is not to be closed by the peer's FIN before what was written is out.
 *
 * Each read and each write is to be one operation. Where one of this does not hold, the chain ends before the read in
 * question: somebody is woken when that is over, and decides.
 */
#include "core.h"

#include <netinet/tcp.h>

static uint64_t *words_of(const struct flow *flow)
{
	return flow->loop->shared->notes + flow->block;
}

/* --- what is settled beforehand ------------------------------------------------------------------ */

/* whether the peer sends nothing more before it has read what we are about to write */
static bool waits(const struct place *place, const struct shared_end *end, int64_t peer_op, int64_t size)
{
	return peer_op == place->peer_last || end->peer_need[peer_op] >= place->sent + size;
}

/* put into `step` what follows when `after` bytes are read; false if that is not settled */
static bool answer(struct step *step, struct place *place, const struct shared_end *end, int64_t after, int64_t peer_op)
{
	int64_t op = place->op, following = op + 1, size;
	bool all_read = after == place->expected;

	if (op == place->last_op) {
		step->closes = all_read && place->closes;
		return true;
	}
	if (end->own_need[op] > after)
		return !all_read;
	if (step->what != STEP_CONNECTED && end->peer_need[peer_op - 1] < place->sent)
		return false;		/* what was handed over before may still wait for its time */
	size = end->own_bytes[op];
	if (size > SEND_BUFFER_BYTES)
		return false;
	if (!size) {			/* FIN */
		if (!all_read)
			return false;
		step->answers = 1;
		step->closes = true;
	} else if (following == place->last_op) {
		if (place->closes || !place->eof_is_last || !waits(place, end, peer_op, size))
			return false;
		step->answers = 1;
	} else if (!end->own_bytes[following] && all_read) {
		step->answers = 2;
		step->closes = true;
	} else if (end->own_need[following] > after && waits(place, end, peer_op, size)) {
		step->answers = 1;
	} else {
		return false;
	}
	place->op += step->answers;
	place->sent += size;
	return true;
}

/* The steps of the longest chain from here, at most MOST_STEPS; returns how many. begins: the first is the connection.
 * Changes `place` to where the program is after them. */
static int steps_from(struct step *steps, struct place *place, const struct shared_end *end, bool begins)
{
	int n = 0;

	while (n < MOST_STEPS) {
		struct step step = { .word = -1 };
		int64_t after, peer_op, more;

		if (begins && !n) {
			step.what = STEP_CONNECTED;
			after = place->read;
			peer_op = place->peer_op;
		} else {
			if (place->mark == NOWHERE || place->mark - place->read > SEND_BUFFER_BYTES)
				break;
			step.what = place->mark - place->read;
			after = place->mark;
			peer_op = place->peer_op + 1;
		}
		if (!answer(&step, place, end, after, peer_op))
			break;
		steps[n++] = step;
		place->read = after;
		place->peer_op = peer_op;
		more = peer_op < place->peer_last ? end->peer_bytes[peer_op] : 0;	/* 0: only FIN is left */
		place->mark = more ? after + more : NOWHERE;
		if (step.closes)
			break;
		if (after == place->expected && place->op == place->last_op) {
			if (n < MOST_STEPS)
				steps[n++] = (struct step) { .what = STEP_END, .closes = true, .word = -1 };
			break;
		}
	}
	return n;
}

static struct place place_of(const struct flow *flow)
{
	return (struct place) { .op = flow->op, .last_op = flow->last_op, .read = flow->read, .mark = flow->mark,
				.sent = flow->sent, .peer_op = flow->peer_op, .peer_last = flow->peer_last,
				.expected = flow->expected, .closes = flow->closes, .eof_is_last = flow->eof_is_last };
}

/* --- the chain ----------------------------------------------------------------------------------- */

/* have the ring ask the socket for its congestion control */
static void ask(struct flow *flow, int flags, int64_t number)
{
	ring_option(&flow->loop->ring, GET_OPTION, flow->fd, IPPROTO_TCP, TCP_CONGESTION, words_of(flow) + CCA_WORD,
		    CCA_BYTES, flags, number);
}

void chained_note_cca(struct flow *flow)
{
	if (flow->block >= 0 && flow->loop->shared->asks) {
		flow->asks = true;
		ring_make_room(&flow->loop->ring, LONGEST_CHAIN);
		ask(flow, QUIET, IGNORED);
	} else {
		char name[CCA_BYTES] = "";
		socklen_t size = sizeof(name);

		note_name(flow->end, getsockopt(flow->fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) ? "" : name);
	}
}

/* which read the ring is at */
static void under_way(struct flow *flow)
{
	flow->asked = flow->n_steps && flow->steps[0].what > 0 ? flow->steps[0].what : 0;
	flow->buffer = flow->n_steps ? flow->steps[0].buffer : NULL;
}

/* Hand over the steps of a flow as a chain, whose beginning may be there already; there has to be room. place: where
 * the program is after them. */
static void submit(struct flow *flow, const struct place *place)
{
	struct shared_end *end = flow->end;
	struct loop *loop = flow->loop;
	struct ring *ring = &loop->ring;
	int64_t number = flow->number | SEND, op = flow->op, i, answers;
	struct step *last;

	loop->shared->chains++;
	for (i = 0; i < flow->n_steps; i++) {
		struct step *step = &flow->steps[i];

		step->word = i;
		words_of(flow)[i] = 0;
		if (step->what == STEP_END)
			ring_receive_end(ring, flow->fd, LINK | QUIET, flow->number | RECEIVE);
		else if (step->what != STEP_CONNECTED)
			step->buffer = flow_submit_read(flow, step->what, LINK | QUIET);
		ring_note_time(ring, words_of(flow) + i, LINK | QUIET, number);
		if (step->what == STEP_CONNECTED)
			ask(flow, LINK | QUIET, number);
		for (answers = step->answers; answers; answers--, op++) {
			int64_t size = end->own_bytes[op];

			if (end->own_wait_us[op])
				ring_after(ring, 1000 * end->own_wait_us[op], LINK | QUIET, number);
			if (size) {
				ring_send(ring, flow->fd, loop->shared->pattern + flow->out_place, size, LINK | QUIET, number);
				flow->out_place = place_in_period(flow->out_place + size);
			}
		}
	}
	last = &flow->steps[flow->n_steps];
	*last = (struct step) { .what = STEP_END, .word = -1 };
	if (last[-1].closes) {
		ring_close_socket(ring, flow->fd, QUIET, number);
		push(&loop->silent, flow->number >> KIND_BITS);
	} else if (place->mark == NOWHERE) {
		flow->n_steps++;
		ring_receive(ring, flow->fd, NULL, 1, 0, flow->number | RECEIVE);
	} else {
		flow->n_steps++;
		last->what = place->mark - place->read;
		if (last->what > SEND_BUFFER_BYTES)
			last->what = SEND_BUFFER_BYTES;
		last->buffer = flow_submit_read(flow, last->what, 0);
	}
	under_way(flow);
}

void chained_wait(struct flow *flow)
{
	if (flow->n_steps || flow->asked)
		return;
	if (flow->state == DATA || flow->state == LAST_DATA || flow->state == AT_EOF) {
		struct place place = place_of(flow);

		flow->n_steps = steps_from(flow->steps, &place, flow->end, false);
		if (flow->state == AT_EOF && flow->read == flow->expected && !flow->closes) {
			flow->steps[0] = (struct step) { .what = STEP_END, .closes = true, .word = -1 };
			flow->n_steps = 1;
		}
		if (flow->n_steps) {
			ring_make_room(&flow->loop->ring, LONGEST_CHAIN);
			submit(flow, &place);
			return;
		}
	}
	flow_wait_unchained(flow);
}

/* the end of a chain that connects; there has to be room */
void chained_connect(struct flow *flow)
{
	struct shared_end *end = flow->end;
	struct place place = place_of(flow);

	if (flow->block >= 0 && flow->loop->shared->asks)
		flow->n_steps = steps_from(flow->steps, &place, end, true);
	ring_endpoint(&flow->loop->ring, OP_CONNECT, flow->fd, end->peer_ip, end->ip_size, end->port,
		      flow->n_steps ? LINK | QUIET : 0, flow->number | CONNECT);
	if (flow->n_steps)
		submit(flow, &place);
}

/* the chain is over, or broken at its first step */
void chained_drop_steps(struct flow *flow)
{
	int i;

	for (i = 1; i < flow->n_steps; i++)
		if (flow->steps[i].buffer)
			push(&flow->loop->buffers, (intptr_t)flow->steps[i].buffer);
	flow->n_steps = 0;
}

/* a step is over; its instant was `now` */
static void happened(struct flow *flow, const struct step *step, int64_t now)
{
	struct shared_end *end = flow->end;
	bool is_over = now + flow->loop->shared->t0_ns >= flow->loop->shared->end_ns;	/* what is read then still counts */
	int64_t due = now, op;

	if (step->what > 0) {
		flow_take(flow, step->what);
		if (is_over)
			flow->mark = NOWHERE;
		else
			flow_delivered(flow, now);
	} else if (is_over) {
		return;
	} else if (step->what == STEP_END) {
		flow->closes = true;
	} else {
		end->connected_us[flow->index] = us_of(now);
		flow->state = DATA;
		flow->asks = true;
	}
	if (is_over)
		return;
	for (op = flow->op; op < flow->op + step->answers; op++) {
		due += 1000 * end->own_wait_us[op];
		end->sent_us[op] = us_of(due);
		flow->sent += end->own_bytes[op];
	}
	if (step->answers) {
		flow->op += step->answers;
		flow->due = due;
	}
	if (flow->state == DATA && flow->op == flow->last_op)
		flow->state = flow->closes ? LAST_DATA : AT_EOF;
	if (step->closes) {
		flow->is_closed = !step->answers;	/* a write before it may break the chain */
		flow->state = CLOSED;
		flow->due = due;
		flow_note(flow, FINISHED, due);
	}
}

void chained_settle(struct flow *flow)
{
	const struct shared_loop *shared = flow->loop->shared;

	while (flow->n_steps && flow->steps[0].word >= 0) {
		uint64_t noted = __atomic_load_n(words_of(flow) + flow->steps[0].word, __ATOMIC_ACQUIRE);
		struct step step = flow->steps[0];
		int64_t now;

		if (!noted)
			return;
		now = (int64_t)noted + shared->offset_ns - shared->t0_ns;
		memmove(flow->steps, flow->steps + 1, --flow->n_steps * sizeof(step));
		happened(flow, &step, now > 0 ? now : 0);
		under_way(flow);
	}
}

void chained_leave(struct flow *flow)
{
	char name[CCA_BYTES + 1] = "";

	if (flow->block < 0)
		return;
	chained_drop_steps(flow);
	if (flow->asks) {
		memcpy(name, words_of(flow) + CCA_WORD, CCA_BYTES);
		note_name(flow->end, name);
	}
	memset(words_of(flow), 0, NOTE_WORDS * sizeof(uint64_t));
	push(&flow->loop->blocks, flow->block);
}
