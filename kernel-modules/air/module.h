/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A module of radios, of whatever standard: its parameters, one channel, the timer that runs it,
 * and the accounts of all stations as a file of /proc.
 */
#ifndef AIR_MODULE_H
#define AIR_MODULE_H

#include "air.h"

/* Where a frame goes that no station has the address of. */
#define AIR_NOBODY AIR_STATIONS

/* What differs from one standard to another. */
struct air_module {
	const char *name;	/* of the file in /proc */
	u32 range_mm;		/* unless the parameter of that name says so */
	const struct air_user *user;
	const struct air_access *(*access)(void);	/* NULL: parameters are wrong */
	int (*make_radio)(int station);		/* 0, or why there is none, as -errno */
	/* after this nothing is sent any more; both only for stations that have a radio */
	void (*unregister_radio)(int station);
	void (*free_radio)(int station);
	u64 (*waiting)(int station);	/* frames that wait above its radio */
};

/* Of the file with the radios. */
extern const struct air_module air_module;

extern struct air_channel air;

/* A frame may wait at a station. */
void air_wake(int station);

#endif
