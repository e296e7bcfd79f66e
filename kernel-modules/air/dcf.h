/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The distributed coordination function of IEEE 802.11 (2016, clause 10.3), without RTS/CTS and
 * without classes of traffic (EDCA).
 */
#ifndef AIR_DCF_H
#define AIR_DCF_H

#include "air.h"

extern const struct air_access dcf_ofdm_access, dcf_dsss_access;

/* Airtime in ns of `bytes` (MAC header and checksum included) at a rate in units of 100 kbit/s. */
u32 dcf_airtime_ofdm(u32 bytes, u32 rate);
u32 dcf_airtime_dsss(u32 bytes, u32 rate);
/* Airtime in ns of what acknowledges a frame of a rate. */
u32 dcf_ack_ofdm(u32 rate);
u32 dcf_ack_dsss(u32 rate);

#endif
