/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The accounts of all stations as a file of /proc: names of columns, a line for each, how long
 * anybody was on the air.
 */
#ifndef AIR_SHOW_H
#define AIR_SHOW_H

#include <linux/seq_file.h>

#include "air.h"

/* waiting(station): frames that wait above its radio */
static inline void air_show(struct seq_file *file, const struct air_channel *channel,
			    u64 (*waiting)(int station))
{
	int i;

	seq_puts(file,
		 "station frames attempts retries acknowledged given_up no_access received garbled chance delivered duplicates lost airtime_ns queued\n");
	for (i = 0; i < channel->stations; i++) {
		const struct air_account *of = &channel->station[i].account;

		seq_printf(file,
			   "%d %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu\n",
			   i, of->frames, of->attempts, of->retries, of->acknowledged, of->given_up,
			   of->no_access, of->received, of->garbled, of->chance, of->delivered,
			   of->duplicates, of->lost, of->airtime_ns, waiting(i));
	}
	seq_printf(file, "busy_ns %llu\n", channel->busy_ns);
}

#endif
