/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The distributed coordination function of IEEE 802.11 (2016, clause 10.3), without RTS/CTS and
 * without classes of traffic (EDCA).
 */
#ifndef AIR_DCF_H
#define AIR_DCF_H

#include "air.h"

/* Constants of a physical layer; times in ns. */
struct dcf_phy {
	u32 slot, sifs, difs, eifs, ack_timeout, sense;	/* sense: until a signal is noticed */
	u32 window_min, window_max;
};

extern const struct dcf_phy dcf_ofdm, dcf_dsss;
extern const struct air_access dcf_ofdm_access, dcf_dsss_access;

/* Airtime in ns of `bytes` (MAC header and checksum included) at a rate in units of 100 kbit/s. */
u32 dcf_airtime_ofdm(u32 bytes, u32 rate);
u32 dcf_airtime_dsss(u32 bytes, u32 rate, bool short_preamble);

#endif
