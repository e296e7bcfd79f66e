/* SPDX-License-Identifier: GPL-2.0-only */
/* Unslotted CSMA/CA of IEEE 802.15.4 (2015, clause 6.2.5.1), as in networks without beacons. */
#ifndef AIR_CSMA_H
#define AIR_CSMA_H

#include "air.h"

extern const struct air_access csma_access;

/* Airtime in ns of `bytes` (MAC header and checksum included) at 2.4 GHz and 250 kbit/s. */
u32 csma_airtime(u32 bytes);

#endif
