// SPDX-License-Identifier: GPL-2.0-only
/*
 * Radios for mac802154 on one computed channel (air.h, csma.h): O-QPSK at 2.4 GHz and 250 kbit/s,
 * channel 11.
 *
 * A radio backs off, acknowledges and repeats by itself, as chips do that Linux has drivers for.
 * Frames ask for an acknowledgment if the stack says so (iwpan dev ... set ackreq_default 1).
 */
#include <linux/ieee802154.h>
#include <linux/module.h>
#include <net/cfg802154.h>
#include <net/mac802154.h>

#include "csma.h"
#include "module.h"

#define MOST_ATTEMPTS 4		/* macMaxFrameRetries is 3 */
#define ACK_BYTES 5
#define CHANNEL 11

struct air_radio {
	struct ieee802154_hw *hw;
	struct sk_buff *waiting;
	__le16 pan, short_address;
	__le64 address;
	int station;
	bool started;
};

static struct air_radio *radios[AIR_STATIONS];

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
		return AIR_NOBODY;
	memcpy(&control, skb->data, sizeof(control));
	mode = le16_to_cpu(control) >> 10 & 3;
	memcpy(&short_address, skb->data + 5, sizeof(short_address));
	if (mode == IEEE802154_ADDR_SHORT &&
	    short_address == cpu_to_le16(IEEE802154_ADDR_BROADCAST))
		return AIR_ALL;
	if (mode == IEEE802154_ADDR_LONG && skb->len >= 13)
		memcpy(&address, skb->data + 5, sizeof(address));
	for (i = 0; i < air.stations; i++) {
		if (mode == IEEE802154_ADDR_SHORT && radios[i]->short_address == short_address)
			return i;
		if (mode == IEEE802154_ADDR_LONG && skb->len >= 13 && radios[i]->address == address)
			return i;
	}
	return AIR_NOBODY;
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

/* The stack hands over one frame at a time. */
static int air_xmit(struct ieee802154_hw *hw, struct sk_buff *skb)
{
	struct air_radio *radio = hw->priv;

	radio->waiting = skb;
	air_wake(radio->station);
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

	*level = air.station[radio->station].sensed ? 0xff : 0;
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
	if (error)
		ieee802154_free_hw(hw);
	return error;
}

/* The stack hands over the next frame when the one before is done with. */
static u64 waiting(int station)
{
	return radios[station]->waiting ? 1 : 0;
}

static void unregister_radio(int station)
{
	ieee802154_unregister_hw(radios[station]->hw);
}

static void free_radio(int station)
{
	ieee802154_free_hw(radios[station]->hw);
}

static const struct air_access *access(void)
{
	return &csma_access;
}

const struct air_module air_module = {
	.name = "air_lowpan", .range_mm = 30000, .user = &user, .access = access,
	.make_radio = make_radio, .unregister_radio = unregister_radio,
	.free_radio = free_radio, .waiting = waiting,
};

MODULE_DESCRIPTION("802.15.4 radios on a computed channel");
