// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stations that always have something to send, on one channel of the model in kernel-modules/air.
 *
 *   stations METHOD RANGE_MM SENSE_MM MS SEED MOST_ATTEMPTS LOSS TRACE  TO:BYTES:X_MM:Y_MM ...
 *
 * METHOD: csma, or ofdm or dsss and a rate in Mbit/s. LOSS: of 2^32 frames. TRACE: 1, or 0 for none.
 *
 * Prints with TRACE a line for each signal, when it begins: data or ack, station, ns, ns at its end; then a line for
 * each station: frames attempts acknowledged given_up no_access received garbled chance delivered duplicates lost; then
 * the share of time in which anybody was on the air, in ppm.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csma.h"
#include "dcf.h"

static struct air_channel channel;
static int to[AIR_STATIONS], bytes[AIR_STATIONS], most, sends[AIR_STATIONS];
static const char *method;
static u32 rate;

/* What has begun to be on the air at this instant. */
static void trace(u64 now)
{
	static bool data[AIR_STATIONS], ack[AIR_STATIONS];
	int i;

	for (i = 0; i < channel.stations; i++) {
		struct air_station *its = &channel.station[i];

		if (its->data.on_air && !data[i])
			printf("data %d %llu %llu\n", i, (unsigned long long)now, (unsigned long long)its->data.end);
		if (its->ack.on_air && !ack[i])
			printf("ack %d %llu %llu\n", i, (unsigned long long)now, (unsigned long long)its->ack.end);
		data[i] = its->data.on_air;
		ack[i] = its->ack.on_air;
	}
}

static void times(struct air_frame *frame, int size)
{
	if (!strncmp(method, "ofdm", 4)) {
		frame->airtime_ns = dcf_airtime_ofdm(size, rate);
		frame->ack_ns = dcf_ack_ofdm(rate);
	} else if (!strncmp(method, "dsss", 4)) {
		frame->airtime_ns = dcf_airtime_dsss(size, rate);
		frame->ack_ns = dcf_ack_dsss(rate);
	} else {
		frame->airtime_ns = csma_airtime(size);
		frame->ack_ns = csma_airtime(5);
	}
	if (frame->to == AIR_ALL)
		frame->ack_ns = 0;
}

static bool next_frame(struct air_channel *air, int station, struct air_frame *frame)
{
	(void)air;
	if (!sends[station])
		return false;
	frame->to = to[station];
	times(frame, bytes[station]);
	return true;
}

static bool again(struct air_channel *air, int station, struct air_frame *frame, int attempt)
{
	(void)air, (void)station, (void)frame;
	return attempt <= most;
}

static void received(struct air_channel *air, int from, int station, const struct air_frame *frame)
{
	(void)air, (void)from, (void)station, (void)frame;
}

static void done(struct air_channel *air, int station, const struct air_frame *frame, enum air_result result, int n)
{
	(void)air, (void)station, (void)frame, (void)result, (void)n;
}

int main(int count, char **words)
{
	static const struct air_user user = { next_frame, again, received, done };
	const struct air_access *access = &csma_access;
	u64 end, next;
	int i;

	if (count < 10)
		return 2;
	method = words[1];
	rate = atof(method + 4) * 10;
	if (!strncmp(method, "ofdm", 4))
		access = &dcf_ofdm_access;
	else if (!strncmp(method, "dsss", 4))
		access = &dcf_dsss_access;
	air_init(&channel, &user, access, strtoull(words[5], NULL, 10));
	most = atoi(words[6]);
	channel.loss = strtoul(words[7], NULL, 10);
	for (i = 9; i < count; i++) {
		int x, y, n = i - 9;

		if (sscanf(words[i], "%d:%d:%d:%d", &to[n], &bytes[n], &x, &y) != 4 || air_join(&channel, x, y) != n)
			return 2;
		sends[n] = bytes[n] > 0;
	}
	air_ranges(&channel, atoi(words[2]), atoi(words[3]));
	end = strtoull(words[4], NULL, 10) * 1000000;
	for (i = 0; i < channel.stations; i++)
		air_offer(&channel, i, 1000000);
	while ((next = air_next(&channel)) <= end) {
		air_run(&channel, next);
		if (*words[8] == '1')
			trace(next);
	}
	for (i = 0; i < channel.stations; i++) {
		struct air_account *of = &channel.station[i].account;

		printf("%llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu\n", (unsigned long long)of->frames,
		       (unsigned long long)of->attempts, (unsigned long long)of->acknowledged,
		       (unsigned long long)of->given_up, (unsigned long long)of->no_access,
		       (unsigned long long)of->received, (unsigned long long)of->garbled,
		       (unsigned long long)of->chance, (unsigned long long)of->delivered,
		       (unsigned long long)of->duplicates, (unsigned long long)of->lost);
	}
	printf("%llu\n", (unsigned long long)(channel.busy_ns / (end / 1000000)));
	return 0;
}
