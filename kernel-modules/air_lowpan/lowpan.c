// SPDX-License-Identifier: GPL-2.0-only
/*
 * Radios for mac802154 on one computed channel (air.h, csma.h): O-QPSK at 2.4 GHz and 250 kbit/s,
 * channel 11.
 *
 * A radio backs off, acknowledges and repeats by itself, as chips do that Linux has drivers for.
 * Frames ask for an acknowledgment if the stack says so (iwpan dev ... set ackreq_default 1).
 */
#include <linux/hrtimer.h>
#include <linux/ieee802154.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <net/cfg802154.h>
#include <net/mac802154.h>

#include "csma.h"
#include "show.h"

static int stations = 2;
module_param(stations, int, 0444);
MODULE_PARM_DESC(stations, "radios");
static int x_mm[AIR_STATIONS], y_mm[AIR_STATIONS], xs, ys;
module_param_array(x_mm, int, &xs, 0444);
module_param_array(y_mm, int, &ys, 0444);
MODULE_PARM_DESC(x_mm, "where radios are, in mm");
MODULE_PARM_DESC(y_mm, "where radios are, in mm");
static uint range_mm = 30000, sense_mm;
module_param(range_mm, uint, 0444);
module_param(sense_mm, uint, 0444);
MODULE_PARM_DESC(range_mm, "distance up to which frames are understood, in mm");
MODULE_PARM_DESC(sense_mm,
		 "distance up to which a signal makes the channel busy and garbles others (default: range)");
static ulong seed = 1;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "of back-offs and losses");
static uint loss;
module_param(loss, uint, 0444);
MODULE_PARM_DESC(loss, "frames lost within range, of 2^32");

#define MOST_ATTEMPTS 4		/* macMaxFrameRetries is 3 */
#define ACK_BYTES 5
#define CHANNEL 11
#define NOBODY AIR_STATIONS

struct air_radio {
	struct ieee802154_hw *hw;
	struct sk_buff *waiting;
	__le16 pan, short_address;
	__le64 address;
	int station;
	bool started;
};

static struct air_channel channel;
static struct air_radio *radios[AIR_STATIONS];
static DEFINE_SPINLOCK(lock);
static struct hrtimer timer;

/*
 * Frame control (2 bytes), sequence number, destination's PAN and address, by their mode (clause
 * 7.2.2).
 */
static int station_with(const struct sk_buff *skb)
{
	__le16 control, short_address;
	__le64 address;
	int i, mode;

	if (skb->len < 7)
		return NOBODY;
	memcpy(&control, skb->data, sizeof(control));
	mode = le16_to_cpu(control) >> 10 & 3;
	memcpy(&short_address, skb->data + 5, sizeof(short_address));
	if (mode == IEEE802154_ADDR_SHORT &&
	    short_address == cpu_to_le16(IEEE802154_ADDR_BROADCAST))
		return AIR_ALL;
	if (mode == IEEE802154_ADDR_LONG && skb->len >= 13)
		memcpy(&address, skb->data + 5, sizeof(address));
	for (i = 0; i < stations; i++) {
		if (mode == IEEE802154_ADDR_SHORT && radios[i]->short_address == short_address)
			return i;
		if (mode == IEEE802154_ADDR_LONG && skb->len >= 13 && radios[i]->address == address)
			return i;
	}
	return NOBODY;
}

static bool next_frame(struct air_channel *on, int station, struct air_frame *frame)
{
	struct air_radio *radio = radios[station];
	struct sk_buff *skb = radio->waiting;

	if (!skb)
		return false;
	radio->waiting = NULL;
	frame->cookie = skb;
	frame->to = station_with(skb);
	frame->airtime_ns = csma_airtime(skb->len);
	frame->ack_ns = frame->to != AIR_ALL && skb->data[0] & 1 << 5 ? csma_airtime(ACK_BYTES) : 0;
	return true;
}

static bool again(struct air_channel *on, int station, struct air_frame *frame, int attempt)
{
	return attempt <= MOST_ATTEMPTS;
}

static void received(struct air_channel *on, int from, int station, const struct air_frame *frame)
{
	struct sk_buff *copy = radios[station]->started ?
			       skb_copy(frame->cookie, GFP_ATOMIC) : NULL;

	if (copy)
		ieee802154_rx_irqsafe(radios[station]->hw, copy, 255);
}

static void done(struct air_channel *on, int station, const struct air_frame *frame,
		 enum air_result result, int attempts)
{
	struct ieee802154_hw *hw = radios[station]->hw;

	if (result == AIR_SENT)
		ieee802154_xmit_complete(hw, frame->cookie, false);
	else
		ieee802154_xmit_error(hw, frame->cookie, result == AIR_NO_ACK ? IEEE802154_NO_ACK :
				      IEEE802154_CHANNEL_ACCESS_FAILURE);
}

static const struct air_user user = { next_frame, again, received, done };

static void arm(void)
{
	u64 next = air_next(&channel);

	if (next != AIR_NEVER)
		hrtimer_start(&timer, ns_to_ktime(next), HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart expired(struct hrtimer *of)
{
	spin_lock(&lock);
	air_run(&channel, ktime_get_ns());
	arm();
	spin_unlock(&lock);
	return HRTIMER_NORESTART;
}

/* The stack hands over one frame at a time. */
static int air_xmit(struct ieee802154_hw *hw, struct sk_buff *skb)
{
	struct air_radio *radio = hw->priv;

	spin_lock_bh(&lock);
	air_run(&channel, ktime_get_ns());
	radio->waiting = skb;
	air_offer(&channel, radio->station, ktime_get_ns());
	arm();
	spin_unlock_bh(&lock);
	return 0;
}

static int air_start(struct ieee802154_hw *hw)
{
	((struct air_radio *)hw->priv)->started = true;
	return 0;
}

static void air_stop(struct ieee802154_hw *hw)
{
	((struct air_radio *)hw->priv)->started = false;
}

static int air_ed(struct ieee802154_hw *hw, u8 *level)
{
	struct air_radio *radio = hw->priv;

	*level = channel.station[radio->station].sensed ? 0xff : 0;
	return 0;
}

static int air_set_channel(struct ieee802154_hw *hw, u8 page, u8 number)
{
	return page || number != CHANNEL ? -EINVAL : 0;
}

static int air_addresses(struct ieee802154_hw *hw, struct ieee802154_hw_addr_filt *filter,
			 unsigned long changed)
{
	struct air_radio *radio = hw->priv;

	if (changed & IEEE802154_AFILT_SADDR_CHANGED)
		radio->short_address = filter->short_addr;
	if (changed & IEEE802154_AFILT_IEEEADDR_CHANGED)
		radio->address = filter->ieee_addr;
	if (changed & IEEE802154_AFILT_PANID_CHANGED)
		radio->pan = filter->pan_id;
	return 0;
}

static int air_promiscuous(struct ieee802154_hw *hw, const bool on)
{
	return on ? -EOPNOTSUPP : 0;
}

static const struct ieee802154_ops ops = {
	.owner = THIS_MODULE,
	.start = air_start,
	.stop = air_stop,
	.xmit_async = air_xmit,
	.ed = air_ed,
	.set_channel = air_set_channel,
	.set_hw_addr_filt = air_addresses,
	.set_promiscuous_mode = air_promiscuous,
};

static int make_radio(int station)
{
	struct ieee802154_hw *hw = ieee802154_alloc_hw(sizeof(struct air_radio), &ops);
	struct air_radio *radio;
	int error;

	if (!hw)
		return -ENOMEM;
	radio = hw->priv;
	radio->hw = hw;
	radio->station = station;
	radio->short_address = cpu_to_le16(IEEE802154_ADDR_BROADCAST);
	hw->flags = IEEE802154_HW_PROMISCUOUS | IEEE802154_HW_AFILT;
	hw->phy->supported.channels[0] = BIT(CHANNEL);
	hw->phy->current_channel = CHANNEL;
	hw->phy->current_page = 0;
	hw->phy->perm_extended_addr = cpu_to_le64(0x02000000a1540000ULL + station);
	radios[station] = radio;
	error = ieee802154_register_hw(hw);
	if (error) {
		radios[station] = NULL;
		ieee802154_free_hw(hw);
	}
	return error;
}

/* The stack hands over the next frame when the one before is done with. */
static u64 waiting(int station)
{
	return radios[station]->waiting ? 1 : 0;
}

static int show(struct seq_file *file, void *unused)
{
	spin_lock_bh(&lock);
	air_show(file, &channel, waiting);
	spin_unlock_bh(&lock);
	return 0;
}

static void remove_radios(void)
{
	int i;

	hrtimer_cancel(&timer);
	for (i = 0; i < stations; i++) {
		if (!radios[i])
			continue;
		ieee802154_unregister_hw(radios[i]->hw);
		ieee802154_free_hw(radios[i]->hw);
	}
}

static int __init air_init_module(void)
{
	int i, error = 0;

	if (stations < 1 || stations > AIR_STATIONS || xs > stations || ys > stations)
		return -EINVAL;
	air_init(&channel, &user, &csma_access, seed);
	channel.loss = loss;
	for (i = 0; i < stations; i++)
		air_join(&channel, x_mm[i], y_mm[i]);
	air_ranges(&channel, range_mm, max(sense_mm, range_mm));
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer.function = expired;
	for (i = 0; i < stations && !error; i++)
		error = make_radio(i);
	if (!error && !proc_create_single("air_lowpan", 0444, NULL, show))
		error = -ENOMEM;
	if (error)
		remove_radios();
	return error;
}

static void __exit air_exit_module(void)
{
	remove_proc_entry("air_lowpan", NULL);
	remove_radios();
}

module_init(air_init_module);
module_exit(air_exit_module);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("802.15.4 radios on a computed channel");
