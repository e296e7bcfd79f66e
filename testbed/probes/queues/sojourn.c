// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/queue_sojourn: how long packets spend in the root qdiscs of some devices, summed up as they leave.
 *
 * The same instants as the tracepoints qdisc:qdisc_enqueue and qdisc:qdisc_dequeue tell, without a record of
 * each (docs/explanation/speed.md). A packet is known by the address of its skb. What those waited that are dropped from inside a
 * queue (skb:kfree_skb) is summed up by itself. Histograms may be kept apart by the ECN codepoint with which a packet
 * entered.
 *
 * Write a struct order, then the least time of each bin of the histogram (u64, ns, ascending, the first 0), then
 * the ifindex of each device (u32), to begin (once per open). Read() gives a struct row for each interval of a
 * device in which packets left, once it is over; QUEUE_SOJOURN_END ends the last ones. From then on rows of the
 * histograms follow. A reading of 0 bytes means that there is no more (yet). Parameter `sojourn_lost`: packets that
 * found no room in a table.
 */
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/hash.h>
#include <linux/ioctl.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <trace/events/net.h>
#include <trace/events/qdisc.h>
#include <trace/events/skb.h>
#include "queues.h"

#define MOST_DEVICES	0x7fff
#define MOST_BINS	0xffff
#define MOST_ROWS	(1 << 24)
#define HEAD_BITS	16
#define CODEPOINTS	4

/* times are ns */
struct order {
	u64 zero;		/* of CLOCK_MONOTONIC: what the times below count from */
	u64 interval;		/* what packets are summed up over, by when they left */
	u64 measure_from;	/* the histogram is of those that left then or later */
	u64 until;		/* and all is of those that left before */
	u32 devices;
	u32 bins;
	u32 rows;		/* to keep until they are read */
	u32 may_deny;		/* a queue may take a packet and say that it did not: net_dev_queue counts as enqueue */
	u32 codepoints;		/* histograms of a device: 1, or CODEPOINTS */
	u32 unused;
};

struct row {
	u64 place;		/* number of the interval, or of the bin */
	u64 packets;
	u64 sum;		/* of their times, and the least and the most; 0 in rows of a histogram */
	u64 least;
	u64 most;
	u64 dropped;		/* sum of the times of packets that were dropped after they had entered */
	u32 number;		/* of the device, in the order in which they were written */
	u32 of_histogram;	/* 0, or the codepoint + 1; 1 where codepoints are not kept apart */
};

#define QUEUE_SOJOURN_END	_IO('q', 3)

struct waiting {
	struct waiting *next;
	unsigned long packet;
	u64 since;
	u16 number;		/* of the device */
	u16 codepoint;		/* 0 where codepoints are not kept apart */
};

/* memory for packets that wait, taken as it is needed */
struct page_of_waiting {
	struct page_of_waiting *next;
	struct waiting of[(PAGE_SIZE - sizeof(void *)) / sizeof(struct waiting)];
};

struct counted {
	struct row row;		/* of the interval that ends at `end`; nothing in it yet without packets */
	u64 end;
	u64 *histogram;
};

static struct order order;
static struct waiting **heads, *unused;
static struct page_of_waiting *pages;
static struct counted *counts;
static u64 *least_of_bins;
static u16 *first_bins;			/* by the highest bits of a time: the bin in which the first of these times is */
static struct row *rows;
static size_t noted, taken, shown;	/* rows; of the histograms, bins that were looked at */
static unsigned long lost;
static DEFINE_SPINLOCK(lock);		/* all of these while packets are counted */
module_param_named(sojourn_lost, lost, ulong, 0444);

static struct queues_device queue_sojourn_device;
static u16 *numbers;			/* by ifindex: number of the device + 1, or 0 */
static unsigned int largest;		/* ifindex */
static bool counting, begun;

static u16 number_of(const struct net_device *dev)
{
	unsigned int index = dev ? dev->ifindex : 0;

	return index <= largest ? numbers[index] : 0;
}

/* where the packet is in its list, or the end of that */
static struct waiting **find(unsigned long packet)
{
	struct waiting **at = &heads[hash_long(packet, HEAD_BITS)];

	while (*at && (*at)->packet != packet)
		at = &(*at)->next;
	return at;
}

static struct waiting *take_unused(void)
{
	struct page_of_waiting *page;
	struct waiting *one;
	unsigned int i;

	if (!unused) {
		page = (void *)__get_free_page(GFP_ATOMIC | __GFP_NOWARN);
		if (!page)
			return NULL;
		page->next = pages;
		pages = page;
		for (i = 0; i < ARRAY_SIZE(page->of); i++) {
			page->of[i].next = unused;
			unused = &page->of[i];
		}
	}
	one = unused;
	unused = one->next;
	return one;
}

static u16 codepoint_of(const struct sk_buff *skb)
{
	if (order.codepoints == 1)
		return 0;
	switch (skb_protocol(skb, true)) {
	case htons(ETH_P_IP):
		return ipv4_get_dsfield(ip_hdr(skb)) & INET_ECN_MASK;
	case htons(ETH_P_IPV6):
		return ipv6_get_dsfield(ipv6_hdr(skb)) & INET_ECN_MASK;
	}
	return INET_ECN_NOT_ECT;
}

static void enters(const struct sk_buff *skb, unsigned int number)
{
	struct waiting **at, *one;
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	at = find((unsigned long)skb);
	one = *at ?: take_unused();
	if (one) {
		if (!*at) {
			one->next = NULL;
			one->packet = (unsigned long)skb;
			*at = one;
		}
		one->since = ktime_get_mono_fast_ns();
		one->number = number;
		one->codepoint = codepoint_of(skb);
	} else {
		lost++;
	}
	spin_unlock_irqrestore(&lock, flags);
}

/* the highest ten bits of a time, and how many are below them: 512 places for each power of two */
static unsigned int place_of(u64 time)
{
	unsigned int below = time < 1024 ? 0 : fls64(time) - 10;

	return below * 512 + (unsigned int)(time >> below);
}

#define PLACES	((64 - 10) * 512 + 1024)

static unsigned int bin_of(u64 time)
{
	unsigned int bin = first_bins[place_of(time)];

	while (bin + 1 < order.bins && time >= least_of_bins[bin + 1])
		bin++;
	return bin;
}

static void end_row(struct counted *device)
{
	if (device->row.packets && noted < order.rows)
		rows[noted++] = device->row;
	else
		lost += device->row.packets;
	/* where nothing left, what was dropped goes on to the next row */
	if (device->row.packets)
		device->row.dropped = 0;
	device->row.packets = device->row.sum = 0;
}

static void count(const struct waiting *one, u64 now, bool dropped)
{
	struct counted *device = &counts[one->number];
	struct row *row = &device->row;
	u64 time = now - one->since, left = now - order.zero;

	if ((s64)left < 0 || left >= order.until)
		return;
	if (left >= device->end) {
		end_row(device);
		row->place = div64_u64(left, order.interval);
		device->end = (row->place + 1) * order.interval;
	}
	if (dropped) {
		row->dropped += time;
		return;
	}
	row->least = row->packets ? min(row->least, time) : time;
	row->most = row->packets ? max(row->most, time) : time;
	row->sum += time;
	row->packets++;
	if (left >= order.measure_from)
		device->histogram[one->codepoint * order.bins + bin_of(time)]++;
}

static void leaves(const struct sk_buff *skb, bool dropped)
{
	struct waiting **at, *one;
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	at = find((unsigned long)skb);
	one = *at;
	if (one) {
		count(one, ktime_get_mono_fast_ns(), dropped);
		*at = one->next;
		one->next = unused;
		unused = one;
	}
	spin_unlock_irqrestore(&lock, flags);
}

static void on_queue(void *data, struct sk_buff *skb)
{
	unsigned int number = number_of(skb->dev);

	if (number)
		enters(skb, number - 1);
}

static void on_enqueue(void *data, struct Qdisc *qdisc, const struct netdev_queue *txq, struct sk_buff *skb)
{
	unsigned int number = number_of(txq->dev);

	if (number)
		enters(skb, number - 1);
}

static void on_dequeue(void *data, struct Qdisc *qdisc, const struct netdev_queue *txq, int packets,
		       struct sk_buff *skb)
{
	if (skb && number_of(txq->dev))
		leaves(skb, false);
}

/* any packet, also one that never was in a queue of ours */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
static void on_drop(void *data, struct sk_buff *skb, void *location, enum skb_drop_reason reason,
		    const struct sock *sk)
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
static void on_drop(void *data, struct sk_buff *skb, void *location, enum skb_drop_reason reason, struct sock *sk)
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(5, 17, 0)
static void on_drop(void *data, struct sk_buff *skb, void *location, enum skb_drop_reason reason)
#else
static void on_drop(void *data, struct sk_buff *skb, void *location)
#endif
{
	leaves(skb, true);
}

static struct probe {
	struct tracepoint **point;
	void *called;
} probes[] = {
	{ &queue_points.enqueue, on_enqueue },
	{ &queue_points.dequeue, on_dequeue },
	{ &queue_points.drop, on_drop },
	{ &queue_points.queue, on_queue },	/* the last: looked at where a queue may deny */
};

static void unregister(unsigned int registered)
{
	while (registered--)
		tracepoint_probe_unregister(*probes[registered].point, probes[registered].called, NULL);
	tracepoint_synchronize_unregister();
}

static unsigned int wanted(void)
{
	return ARRAY_SIZE(probes) - !order.may_deny;
}

static int register_all(void)
{
	unsigned int i;
	int error;

	for (i = 0; i < wanted(); i++) {
		error = tracepoint_probe_register(*probes[i].point, probes[i].called, NULL);
		if (error) {
			unregister(i);
			return error;
		}
	}
	return 0;
}

static void end(void)
{
	unsigned int i;

	if (!counting)
		return;
	unregister(wanted());
	counting = false;
	for (i = 0; i < order.devices; i++)
		end_row(&counts[i]);
}

static void forget(void)
{
	struct page_of_waiting *page;
	unsigned int i;

	end();
	for (i = 0; counts && i < order.devices; i++)
		kvfree(counts[i].histogram);
	while ((page = pages)) {
		pages = page->next;
		free_page((unsigned long)page);
	}
	kvfree(counts);
	kvfree(heads);
	kvfree(least_of_bins);
	kvfree(first_bins);
	kvfree(rows);
	kvfree(numbers);
	counts = NULL;
	heads = NULL;
	unused = NULL;
	least_of_bins = NULL;
	first_bins = NULL;
	rows = NULL;
	numbers = NULL;
	noted = taken = shown = 0;
	begun = false;
}

static int allocate(void)
{
	unsigned int i;

	BUILD_BUG_ON(sizeof(struct page_of_waiting) > PAGE_SIZE);
	heads = kvcalloc(1 << HEAD_BITS, sizeof(*heads), GFP_KERNEL);
	counts = kvcalloc(order.devices, sizeof(*counts), GFP_KERNEL);
	least_of_bins = kvcalloc(order.bins, sizeof(*least_of_bins), GFP_KERNEL);
	first_bins = kvcalloc(PLACES, sizeof(*first_bins), GFP_KERNEL);
	rows = kvcalloc(order.rows, sizeof(*rows), GFP_KERNEL);
	if (!heads || !counts || !least_of_bins || !first_bins || !rows)
		return -ENOMEM;
	for (i = 0; i < order.devices; i++) {
		counts[i].row.number = i;
		counts[i].histogram = kvcalloc(order.codepoints * order.bins, sizeof(u64), GFP_KERNEL);
		if (!counts[i].histogram)
			return -ENOMEM;
	}
	return 0;
}

static int begin(const char __user *from, size_t length)
{
	unsigned int i, bin;
	u32 index, *indices;
	int error;

	if (length < sizeof(order) || copy_from_user(&order, from, sizeof(order)))
		return -EINVAL;
	if (!order.interval || !order.devices || order.devices > MOST_DEVICES || !order.bins || order.bins > MOST_BINS ||
	    !order.rows || order.rows > MOST_ROWS || order.until > S64_MAX / 4 || order.interval > S64_MAX / 4 ||
	    (order.codepoints != 1 && order.codepoints != CODEPOINTS) ||
	    length != sizeof(order) + order.bins * sizeof(u64) + order.devices * sizeof(u32))
		return -EINVAL;
	from += sizeof(order);
	error = allocate();
	if (error)
		return error;
	if (copy_from_user(least_of_bins, from, order.bins * sizeof(u64)))
		return -EFAULT;
	/* a time's bin is not before that of the first time with the same highest bits */
	for (i = bin = 0; i < PLACES; i++) {
		u64 first = i < 1024 ? i : (u64)(i % 512 + 512) << (i / 512 - 1);

		while (bin + 1 < order.bins && first >= least_of_bins[bin + 1])
			bin++;
		first_bins[i] = bin;
	}
	indices = memdup_user(from + order.bins * sizeof(u64), order.devices * sizeof(u32));
	if (IS_ERR(indices))
		return PTR_ERR(indices);
	for (i = largest = 0; i < order.devices; i++)
		largest = max(largest, indices[i]);
	error = largest <= QUEUES_MOST_INDEX ? 0 : -EINVAL;
	numbers = error ? NULL : kvcalloc(largest + 1, sizeof(*numbers), GFP_KERNEL);
	for (i = 0; numbers && i < order.devices; i++) {
		index = indices[i];
		numbers[index] = i + 1;
	}
	kfree(indices);
	if (!numbers || numbers[0])
		return error ?: numbers ? -EINVAL : -ENOMEM;
	lost = 0;
	error = register_all();
	counting = begun = !error;
	return error;
}

static ssize_t queue_sojourn_write(struct file *file, const char __user *from, size_t length, loff_t *offset)
{
	int error = -EBUSY;

	mutex_lock(&queue_sojourn_device.control);
	if (!begun) {
		error = begin(from, length);
		if (error)
			forget();
	}
	mutex_unlock(&queue_sojourn_device.control);
	return error ?: length;
}

/* the next row of a histogram; false after the last */
static bool next_of_histogram(struct row *row)
{
	size_t of_device = order.codepoints * order.bins;

	for (; shown < order.devices * of_device; shown++) {
		u64 packets = counts[shown / of_device].histogram[shown % of_device];

		if (packets) {
			*row = (struct row) {
				.place = shown % order.bins,
				.packets = packets,
				.number = shown / of_device,
				.of_histogram = 1 + shown % of_device / order.bins,
			};
			shown++;
			return true;
		}
	}
	return false;
}

static ssize_t queue_sojourn_read(struct file *file, char __user *to, size_t length, loff_t *offset)
{
	size_t asked = length / sizeof(struct row), count, at;
	ssize_t result = -EFAULT;
	struct row row;

	if (!asked)
		return -EINVAL;
	mutex_lock(&queue_sojourn_device.control);
	spin_lock_irq(&lock);
	at = taken;
	count = min(asked, noted - at);
	spin_unlock_irq(&lock);
	if (count && copy_to_user(to, rows + at, count * sizeof(row)))
		goto out;
	spin_lock_irq(&lock);
	taken += count;
	if (taken == noted)		/* begin again with memory that was touched already */
		noted = taken = 0;
	spin_unlock_irq(&lock);
	for (; begun && !counting && count < asked && next_of_histogram(&row); count++)
		if (copy_to_user(to + count * sizeof(row), &row, sizeof(row)))
			goto out;
	result = count * sizeof(row);
out:
	mutex_unlock(&queue_sojourn_device.control);
	return result;
}

static long queue_sojourn_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	if (command != QUEUE_SOJOURN_END)
		return -ENOTTY;
	mutex_lock(&queue_sojourn_device.control);
	end();
	mutex_unlock(&queue_sojourn_device.control);
	return 0;
}

static const struct file_operations queue_sojourn_fops = {
	.owner		= THIS_MODULE,
	.open		= queues_open,
	.write		= queue_sojourn_write,
	.read		= queue_sojourn_read,
	.unlocked_ioctl	= queue_sojourn_ioctl,
	.release	= queues_release,
};

static struct queues_device queue_sojourn_device = {
	.misc = {
		.minor	= MISC_DYNAMIC_MINOR,
		.name	= "queue_sojourn",
		.fops	= &queue_sojourn_fops,
		.mode	= 0600,
	},
	.control = __MUTEX_INITIALIZER(queue_sojourn_device.control),
	.forget	 = forget,
};

int queue_sojourn_register(void)
{
	/* the tracepoints are found by their names: here the compiler sees that these are their types */
	check_trace_callback_type_qdisc_enqueue(on_enqueue);
	check_trace_callback_type_qdisc_dequeue(on_dequeue);
	check_trace_callback_type_net_dev_queue(on_queue);
	check_trace_callback_type_kfree_skb(on_drop);
	return misc_register(&queue_sojourn_device.misc);
}

void queue_sojourn_unregister(void)
{
	misc_deregister(&queue_sojourn_device.misc);
}
