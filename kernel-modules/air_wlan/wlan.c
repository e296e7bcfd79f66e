// SPDX-License-Identifier: GPL-2.0-only
/*
 * Radios for mac80211 on one computed channel (air.h, dcf.h): what mac80211_hwsim is, with airtime.
 *
 * Stations of one IBSS with a BSSID that all know. One access category (no EDCA), no aggregation,
 * no power save, one rate for frames to a station. A radio takes the next frame from mac80211 when
 * it is through with the one before, so that queues build up where they do with hardware: in
 * mac80211's own (fq, CoDel).
 *
 * Beacons are handed over without being on the air: mac80211 forgets stations that it has not heard
 * of for a minute.
 */
#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <net/mac80211.h>

#include "dcf.h"
#include "module.h"

static bool dsss;
module_param(dsss, bool, 0444);
MODULE_PARM_DESC(dsss, "802.11b with long preambles instead of 802.11g");
static uint rate = 60;
module_param(rate, uint, 0444);
MODULE_PARM_DESC(rate, "of frames to a station, in 100 kbit/s; those to all go at the lowest");

/* aRetryLimit of short frames; without RTS all frames count as short (dot11ShortRetryLimit) */
#define MOST_ATTEMPTS 7
#define SIGNAL_DBM (-50)
#define ANNOUNCE_NS (20 * NSEC_PER_SEC)

struct air_radio {
	struct ieee80211_hw *hw;
	struct ieee80211_vif *vif;
	struct sk_buff_head management;
	struct hrtimer announcement;
	int station;
	bool started;
	bool joined;
};

static struct air_radio *radios[AIR_STATIONS];

static const struct ieee80211_channel channel_6 = {
	.band = NL80211_BAND_2GHZ, .center_freq = 2437, .hw_value = 6, .max_power = 20,
};

/* All that a band of 2.4 GHz has to have, in the order of 802.11b and 802.11g. */
static struct ieee80211_rate rates[] = {
	{ .bitrate = 10 }, { .bitrate = 20 }, { .bitrate = 55 }, { .bitrate = 110 },
	{ .bitrate = 60 }, { .bitrate = 90 }, { .bitrate = 120 }, { .bitrate = 180 },
	{ .bitrate = 240 }, { .bitrate = 360 }, { .bitrate = 480 }, { .bitrate = 540 },
};

#define FIRST_OFDM 4
static struct ieee80211_channel channels[AIR_STATIONS];
static struct ieee80211_supported_band bands[AIR_STATIONS];

static u32 airtime(u32 bytes, u32 rate)
{
	return dsss ? dcf_airtime_dsss(bytes, rate) : dcf_airtime_ofdm(bytes, rate);
}

static struct ieee80211_supported_band band_of(int station)
{
	return (struct ieee80211_supported_band){
		.band = NL80211_BAND_2GHZ, .channels = &channels[station], .n_channels = 1,
		.bitrates = rates, .n_bitrates = ARRAY_SIZE(rates),
	};
}

/* Where a rate of the standard is among all; -1 if it has none such. */
static int place_of(u32 wanted)
{
	int i;

	for (i = dsss ? 0 : FIRST_OFDM; i < (dsss ? FIRST_OFDM : ARRAY_SIZE(rates)); i++)
		if (rates[i].bitrate == wanted)
			return i;
	return -1;
}

static int rate_place(const struct air_frame *frame)
{
	return frame->to != AIR_ALL ? place_of(rate) : dsss ? 0 : FIRST_OFDM;
}

static int station_with(const u8 *address)
{
	int i;

	if (is_multicast_ether_addr(address))
		return AIR_ALL;
	for (i = 0; i < air.stations; i++)
		if (radios[i]->vif && ether_addr_equal(radios[i]->vif->addr, address))
			return i;
	return AIR_NOBODY;
}

static struct sk_buff *dequeue(struct air_radio *radio)
{
	struct sk_buff *skb = skb_dequeue(&radio->management);
	struct ieee80211_txq *txq;
	int ac;

	for (ac = 0; !skb && ac < IEEE80211_NUM_ACS; ac++) {
		ieee80211_txq_schedule_start(radio->hw, ac);
		while (!skb && (txq = ieee80211_next_txq(radio->hw, ac))) {
			skb = ieee80211_tx_dequeue(radio->hw, txq);
			ieee80211_return_txq(radio->hw, txq, false);
		}
		ieee80211_txq_schedule_end(radio->hw, ac);
	}
	return skb;
}

static bool next_frame(struct air_channel *on, int station, struct air_frame *frame)
{
	struct air_radio *radio = radios[station];
	struct sk_buff *skb = radio->started ? dequeue(radio) : NULL;
	bool asked;

	if (!skb)
		return false;
	frame->cookie = skb;
	frame->to = station_with(((struct ieee80211_hdr *)skb->data)->addr1);
	asked = frame->to != AIR_ALL && !(IEEE80211_SKB_CB(skb)->flags & IEEE80211_TX_CTL_NO_ACK);
	frame->airtime_ns = airtime(skb->len + FCS_LEN, rates[rate_place(frame)].bitrate);
	frame->ack_ns = !asked ? 0 : dsss ? dcf_ack_dsss(rate) : dcf_ack_ofdm(rate);
	return true;
}

static bool again(struct air_channel *on, int station, struct air_frame *frame, int attempt)
{
	struct sk_buff *skb = frame->cookie;

	if (attempt > MOST_ATTEMPTS)
		return false;
	((struct ieee80211_hdr *)skb->data)->frame_control |= cpu_to_le16(IEEE80211_FCTL_RETRY);
	return true;
}

static void hand_over(struct air_radio *radio, const struct sk_buff *skb, int place)
{
	struct ieee80211_rx_status status = {
		.freq = channel_6.center_freq, .band = NL80211_BAND_2GHZ, .signal = SIGNAL_DBM,
		.rate_idx = place,
	};
	struct sk_buff *copy = skb_copy(skb, GFP_ATOMIC);

	if (!copy)
		return;
	memcpy(IEEE80211_SKB_RXCB(copy), &status, sizeof(status));
	ieee80211_rx_irqsafe(radio->hw, copy);
}

static void received(struct air_channel *on, int from, int station, const struct air_frame *frame)
{
	if (radios[station]->started)
		hand_over(radios[station], frame->cookie, rate_place(frame));
}

static void done(struct air_channel *on, int station, const struct air_frame *frame,
		 enum air_result result, int attempts)
{
	struct sk_buff *skb = frame->cookie;
	struct ieee80211_tx_info *info = IEEE80211_SKB_CB(skb);

	ieee80211_tx_info_clear_status(info);
	info->status.rates[0].idx = rate_place(frame);
	info->status.rates[0].count = attempts;
	info->status.rates[1].idx = -1;
	if (frame->ack_ns && result == AIR_SENT)
		info->flags |= IEEE80211_TX_STAT_ACK;
	ieee80211_tx_status_irqsafe(radios[station]->hw, skb);
}

static const struct air_user user = { next_frame, again, received, done };

static void air_tx(struct ieee80211_hw *hw, struct ieee80211_tx_control *control,
		   struct sk_buff *skb)
{
	struct air_radio *radio = hw->priv;

	skb_queue_tail(&radio->management, skb);
	air_wake(radio->station);
}

static void air_wake_tx_queue(struct ieee80211_hw *hw, struct ieee80211_txq *txq)
{
	air_wake(((struct air_radio *)hw->priv)->station);
}

static int air_start(struct ieee80211_hw *hw)
{
	((struct air_radio *)hw->priv)->started = true;
	return 0;
}

static void air_stop(struct ieee80211_hw *hw, bool suspend)
{
	struct air_radio *radio = hw->priv;

	radio->started = false;
	hrtimer_cancel(&radio->announcement);
	ieee80211_purge_tx_queue(hw, &radio->management);
}

static int air_add_interface(struct ieee80211_hw *hw, struct ieee80211_vif *vif)
{
	struct air_radio *radio = hw->priv;

	if (radio->vif)
		return -EBUSY;
	radio->vif = vif;
	return 0;
}

static void air_remove_interface(struct ieee80211_hw *hw, struct ieee80211_vif *vif)
{
	((struct air_radio *)hw->priv)->vif = NULL;
}

static int air_config(struct ieee80211_hw *hw, u32 changed)
{
	return 0;
}

static void air_configure_filter(struct ieee80211_hw *hw, unsigned int changed, unsigned int *flags,
				 u64 multicast)
{
	*flags &= FIF_ALLMULTI | FIF_BCN_PRBRESP_PROMISC | FIF_PROBE_REQ;
}

static u64 air_get_tsf(struct ieee80211_hw *hw, struct ieee80211_vif *vif)
{
	return div_u64(ktime_get_ns(), 1000);
}

/* A beacon of one radio, as another one would have it. */
static void announce(struct air_radio *from, struct air_radio *to)
{
	struct sk_buff *skb = ieee80211_beacon_get(from->hw, from->vif, 0);

	if (!skb)
		return;
	((struct ieee80211_mgmt *)skb->data)->u.beacon.timestamp =
		cpu_to_le64(air_get_tsf(from->hw, from->vif));
	hand_over(to, skb, dsss ? 0 : FIRST_OFDM);
	dev_kfree_skb_any(skb);
}

/*
 * Who can hear each other hear of each other, soon after one has joined and again before anybody is
 * forgotten.
 */
static enum hrtimer_restart air_announce(struct hrtimer *of)
{
	struct air_radio *radio = container_of(of, struct air_radio, announcement);
	int i;

	for (i = 0; i < air.stations; i++) {
		if (i == radio->station || !radios[i]->joined ||
		    !air_reaches(&air, i, radio->station))
			continue;
		announce(radio, radios[i]);
		announce(radios[i], radio);
	}
	hrtimer_forward_now(of, ns_to_ktime(ANNOUNCE_NS));
	return HRTIMER_RESTART;
}

static void air_bss_info_changed(struct ieee80211_hw *hw, struct ieee80211_vif *vif,
				 struct ieee80211_bss_conf *info, u64 changed)
{
	struct air_radio *radio = hw->priv;

	if (!(changed & BSS_CHANGED_BEACON_ENABLED))
		return;
	hrtimer_cancel(&radio->announcement);
	radio->joined = info->enable_beacon;
	if (radio->joined)
		hrtimer_start(&radio->announcement, ms_to_ktime(1), HRTIMER_MODE_REL_SOFT);
}

static int air_set_rts_threshold(struct ieee80211_hw *hw, u32 value)
{
	return value == (u32)-1 ? 0 : -EOPNOTSUPP;
}

static const struct ieee80211_ops ops = {
	.tx = air_tx,
	.wake_tx_queue = air_wake_tx_queue,
	.start = air_start,
	.stop = air_stop,
	.add_interface = air_add_interface,
	.remove_interface = air_remove_interface,
	.config = air_config,
	.configure_filter = air_configure_filter,
	.bss_info_changed = air_bss_info_changed,
	.get_tsf = air_get_tsf,
	.set_rts_threshold = air_set_rts_threshold,
	.add_chanctx = ieee80211_emulate_add_chanctx,
	.remove_chanctx = ieee80211_emulate_remove_chanctx,
	.change_chanctx = ieee80211_emulate_change_chanctx,
	.switch_vif_chanctx = ieee80211_emulate_switch_vif_chanctx,
};

static int make_radio(int station)
{
	u8 address[ETH_ALEN] = { 0x02, 0x00, 0x00, 0xa1, station >> 8, station & 255 };
	struct ieee80211_hw *hw = ieee80211_alloc_hw(sizeof(struct air_radio), &ops);
	struct air_radio *radio;
	int error;

	if (!hw)
		return -ENOMEM;
	radio = hw->priv;
	radio->hw = hw;
	radio->station = station;
	skb_queue_head_init(&radio->management);
	hrtimer_init(&radio->announcement, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	radio->announcement.function = air_announce;
	channels[station] = channel_6;
	bands[station] = band_of(station);
	hw->wiphy->bands[NL80211_BAND_2GHZ] = &bands[station];
	hw->wiphy->interface_modes = BIT(NL80211_IFTYPE_ADHOC);
	hw->queues = 1;
	ieee80211_hw_set(hw, SIGNAL_DBM);
	ieee80211_hw_set(hw, REPORTS_TX_ACK_STATUS);
	ieee80211_hw_set(hw, HAS_RATE_CONTROL);
	ieee80211_hw_set(hw, NO_AUTO_VIF);
	SET_IEEE80211_PERM_ADDR(hw, address);
	radios[station] = radio;
	error = ieee80211_register_hw(hw);
	if (error)
		ieee80211_free_hw(hw);
	return error;
}

static u64 waiting_in(struct ieee80211_txq *txq)
{
	unsigned long frames = 0, bytes;

	if (txq)
		ieee80211_txq_get_depth(txq, &frames, &bytes);
	return frames;
}

static void add_waiting(void *sum, struct ieee80211_sta *sta)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(sta->txq); i++)
		*(u64 *)sum += waiting_in(sta->txq[i]);
}

/* Frames that wait above a radio. */
static u64 waiting(int station)
{
	struct air_radio *radio = radios[station];
	u64 sum = skb_queue_len(&radio->management);

	if (radio->vif)
		sum += waiting_in(radio->vif->txq);
	ieee80211_iterate_stations_atomic(radio->hw, add_waiting, &sum);
	return sum;
}

static void unregister_radio(int station)
{
	ieee80211_unregister_hw(radios[station]->hw);
}

static void free_radio(int station)
{
	ieee80211_free_hw(radios[station]->hw);
}

static const struct air_access *access(void)
{
	if (place_of(rate) < 0)
		return NULL;
	return dsss ? &dcf_dsss_access : &dcf_ofdm_access;
}

const struct air_module air_module = {
	.name = "air_wlan", .range_mm = 100000, .user = &user, .access = access,
	.make_radio = make_radio, .unregister_radio = unregister_radio,
	.free_radio = free_radio, .waiting = waiting,
};

MODULE_DESCRIPTION("802.11 radios on a computed channel");
