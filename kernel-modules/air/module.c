// SPDX-License-Identifier: GPL-2.0-only
/* What modules of radios share: see module.h. */
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "module.h"

static int stations = 2;
module_param(stations, int, 0444);
MODULE_PARM_DESC(stations, "radios");
static int x_mm[AIR_STATIONS], y_mm[AIR_STATIONS], xs, ys;
module_param_array(x_mm, int, &xs, 0444);
module_param_array(y_mm, int, &ys, 0444);
MODULE_PARM_DESC(x_mm, "where radios are, in mm");
MODULE_PARM_DESC(y_mm, "where radios are, in mm");
static uint range_mm, sense_mm;
module_param(range_mm, uint, 0444);
module_param(sense_mm, uint, 0444);
MODULE_PARM_DESC(range_mm,
		 "distance up to which frames are understood, in mm (default: 100 m, 802.15.4 30 m)");
MODULE_PARM_DESC(sense_mm,
		 "distance up to which a signal makes the channel busy and garbles others (default: range)");
static ulong seed = 1;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "of back-offs and losses");
static uint loss;
module_param(loss, uint, 0444);
MODULE_PARM_DESC(loss, "frames lost within range, of 2^32");

struct air_channel air;

static bool has_radio[AIR_STATIONS];
static DEFINE_SPINLOCK(lock);
static struct hrtimer timer;

static void arm(void)
{
	u64 next = air_next(&air);

	if (next != AIR_NEVER)
		hrtimer_start(&timer, ns_to_ktime(next), HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart expired(struct hrtimer *unused)
{
	spin_lock(&lock);
	air_run(&air, ktime_get_ns());
	arm();
	spin_unlock(&lock);
	return HRTIMER_NORESTART;
}

/* What is due at this instant comes first. */
void air_wake(int station)
{
	spin_lock_bh(&lock);
	air_run(&air, ktime_get_ns());
	air_offer(&air, station, ktime_get_ns());
	arm();
	spin_unlock_bh(&lock);
}

/* Names of columns, a line for each station, how long anybody was on the air. */
static int show(struct seq_file *file, void *unused)
{
	int i;

	spin_lock_bh(&lock);
	seq_puts(file,
		 "station frames attempts retries acknowledged given_up no_access received garbled chance delivered duplicates lost airtime_ns queued\n");
	for (i = 0; i < air.stations; i++) {
		const struct air_account *its = &air.station[i].account;

		seq_printf(file,
			   "%d %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu\n",
			   i, its->frames, its->attempts, its->retries, its->acknowledged,
			   its->given_up, its->no_access, its->received, its->garbled, its->chance,
			   its->delivered, its->duplicates, its->lost, its->airtime_ns,
			   air_module.waiting(i));
	}
	seq_printf(file, "busy_ns %llu\n", air.busy_ns);
	spin_unlock_bh(&lock);
	return 0;
}

static void remove_radios(void)
{
	int i;

	for (i = 0; i < air.stations; i++)
		if (has_radio[i])
			air_module.unregister_radio(i);
	hrtimer_cancel(&timer);
	for (i = 0; i < air.stations; i++)
		if (has_radio[i])
			air_module.free_radio(i);
}

static int __init air_init_module(void)
{
	const struct air_access *access = air_module.access();
	int i, error = 0;

	if (!access || stations < 1 || stations > AIR_STATIONS || xs > stations || ys > stations)
		return -EINVAL;
	if (!range_mm)
		range_mm = air_module.range_mm;
	air_init(&air, air_module.user, access, seed);
	air.loss = loss;
	for (i = 0; i < stations; i++)
		air_join(&air, x_mm[i], y_mm[i]);
	air_ranges(&air, range_mm, max(sense_mm, range_mm));
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer.function = expired;
	for (i = 0; i < stations && !error; i++) {
		error = air_module.make_radio(i);
		has_radio[i] = !error;
	}
	if (!error && !proc_create_single(air_module.name, 0444, NULL, show))
		error = -ENOMEM;
	if (error)
		remove_radios();
	return error;
}

static void __exit air_exit_module(void)
{
	remove_proc_entry(air_module.name, NULL);
	remove_radios();
}

module_init(air_init_module);
module_exit(air_exit_module);
MODULE_LICENSE("GPL");
