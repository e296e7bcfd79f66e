// SPDX-License-Identifier: GPL-2.0-only
/* The functions of bbr_math.h as those of a shared library. */
#include "bbr_math.h"

u64 rate(u32 packets, u32 mss, u64 interval_us) { return bbr_rate(packets, mss, interval_us); }
u32 volume(u64 rate, u32 time_us, u32 gain, u32 mss) { return bbr_volume(rate, time_us, gain, mss); }
u32 whole_packets(u64 rate, u64 time_us, u32 mss) { return bbr_whole_packets(rate, time_us, mss); }
u64 share(u64 whole, u32 percent) { return bbr_share(whole, percent); }
u64 pacing_rate(u64 bw, u32 gain) { return bbr_pacing_rate(bw, gain); }
u32 send_quantum(u64 rate, u32 mss) { return bbr_send_quantum(rate, mss); }
u32 offload_budget(u64 rate, u32 mss) { return bbr_offload_budget(rate, mss); }
bool too_high(u32 lost, u32 tx_in_flight) { return bbr_too_high(lost, tx_in_flight); }
u32 inflight_at_loss(u32 tx_in_flight, u32 lost) { return bbr_inflight_at_loss(tx_in_flight, lost); }
u32 first_too_many(u32 tx_in_flight) { return bbr_first_too_many(tx_in_flight); }
u32 with_headroom(u32 longterm) { return bbr_with_headroom(longterm); }
u32 acked_per_increase(u32 cwnd, u32 rounds) { return bbr_acked_per_increase(cwnd, rounds); }

struct bbr_loss_history history;

void losses_init(u32 lost) { history = (struct bbr_loss_history){ .lost_before = lost }; }
void losses_note(u64 now, u32 delivered, u32 lost, u32 spacing) { bbr_losses_note(&history, now, delivered, lost, spacing); }
u32 losses_at(u32 delivered, u64 sent) { return bbr_losses_at(&history, delivered, sent); }
