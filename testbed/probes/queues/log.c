// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/queue_log: which packets entered and left the root qdiscs of some devices, and when.
 *
 * The same instants as the tracepoints qdisc:qdisc_enqueue and qdisc:qdisc_dequeue tell, at a
 * fraction of their cost: 16 bytes for each, no filter to interpret, no ring buffer (docs/explanation/speed.md).
 *
 * Write an array of u32, the ifindex of each device, to begin (once per open); read what has
 * been noted, in the order of time:
 *
 *	u64 when	ns of CLOCK_MONOTONIC << 16 | number of the device << 1 | whether it left
 *	u64 packet	address of its skb
 *
 * A reading of 0 bytes means that there is no more yet. Parameter `lost`: what found no room.
 *
 * For short times: who wants to know how long packets stay asks /dev/queue_sojourn, which keeps no log.
 */
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <trace/events/qdisc.h>
#include "queues.h"

#define MOST_DEVICES	0x7fff

struct entry {
	u64 when;
	u64 packet;
};

/* pieces of 4 MB of directly mapped memory: nothing of it is touched before it is needed */
#define PIECES		8
#define PIECE_ORDER	10
#define PIECE_ENTRIES	((PAGE_SIZE << PIECE_ORDER) / sizeof(struct entry))
#define ENTRIES		(PIECES * PIECE_ENTRIES)

static struct entry *pieces[PIECES];
static size_t noted, taken;		/* entries: of all pieces, and of these what was read */
static unsigned long lost;
static DEFINE_SPINLOCK(lock);		/* the three above */
module_param(lost, ulong, 0444);

static struct queues_device queue_log_device;
static u16 *numbers;			/* by ifindex: number of the device + 1, or 0 */
static unsigned int largest;		/* ifindex */

static void note(const struct netdev_queue *txq, struct sk_buff *skb, unsigned int left)
{
	unsigned int index = txq->dev ? txq->dev->ifindex : 0;
	struct entry *entry;
	unsigned long flags;

	if (index > largest || !numbers[index])
		return;
	spin_lock_irqsave(&lock, flags);
	if (noted < ENTRIES) {
		entry = &pieces[noted / PIECE_ENTRIES][noted % PIECE_ENTRIES];
		entry->when = ktime_get_mono_fast_ns() << 16 | (numbers[index] - 1) << 1 | left;
		entry->packet = (unsigned long)skb;
		noted++;
	} else {
		lost++;
	}
	spin_unlock_irqrestore(&lock, flags);
}

static void on_enqueue(void *data, struct Qdisc *qdisc, const struct netdev_queue *txq, struct sk_buff *skb)
{
	note(txq, skb, 0);
}

static void on_dequeue(void *data, struct Qdisc *qdisc, const struct netdev_queue *txq, int packets,
		       struct sk_buff *skb)
{
	if (skb)
		note(txq, skb, 1);
}

static void forget(void)
{
	unsigned int piece;

	for (piece = 0; piece < PIECES; piece++) {
		free_pages((unsigned long)pieces[piece], PIECE_ORDER);
		pieces[piece] = NULL;
	}
	kvfree(numbers);
	numbers = NULL;
	noted = taken = 0;
}

static void end(void)
{
	if (!numbers)
		return;
	tracepoint_probe_unregister(queue_points.enqueue, on_enqueue, NULL);
	tracepoint_probe_unregister(queue_points.dequeue, on_dequeue, NULL);
	tracepoint_synchronize_unregister();
	forget();
}

static int begin(const u32 *indices, unsigned int count)
{
	unsigned int i;
	int error;

	largest = 0;
	for (i = 0; i < count; i++) {
		if (!indices[i] || indices[i] > QUEUES_MOST_INDEX)
			return -EINVAL;
		largest = max(largest, indices[i]);
	}
	numbers = kvcalloc(largest + 1, sizeof(*numbers), GFP_KERNEL);
	if (!numbers)
		return -ENOMEM;
	for (i = 0; i < count; i++)
		numbers[indices[i]] = i + 1;
	for (i = 0; i < PIECES; i++) {
		pieces[i] = (struct entry *)__get_free_pages(GFP_KERNEL, PIECE_ORDER);
		if (!pieces[i]) {
			error = -ENOMEM;
			goto failed;
		}
	}
	lost = 0;
	error = tracepoint_probe_register(queue_points.enqueue, on_enqueue, NULL);
	if (error)
		goto failed;
	error = tracepoint_probe_register(queue_points.dequeue, on_dequeue, NULL);
	if (!error)
		return 0;
	tracepoint_probe_unregister(queue_points.enqueue, on_enqueue, NULL);
	tracepoint_synchronize_unregister();
failed:
	forget();
	return error;
}

static ssize_t queue_log_write(struct file *file, const char __user *from, size_t length, loff_t *offset)
{
	ssize_t error = -EBUSY;
	u32 *indices;

	if (!length || length % sizeof(u32) || length / sizeof(u32) > MOST_DEVICES)
		return -EINVAL;
	indices = memdup_user(from, length);
	if (IS_ERR(indices))
		return PTR_ERR(indices);
	mutex_lock(&queue_log_device.control);
	if (!numbers)
		error = begin(indices, length / sizeof(u32));
	mutex_unlock(&queue_log_device.control);
	kfree(indices);
	return error ?: length;
}

static ssize_t queue_log_read(struct file *file, char __user *to, size_t length, loff_t *offset)
{
	size_t count = length / sizeof(struct entry), there, at;

	if (!count)
		return -EINVAL;
	mutex_lock(&queue_log_device.control);
	spin_lock_irq(&lock);
	there = noted;
	at = taken;
	spin_unlock_irq(&lock);
	count = min3(count, there - at, PIECE_ENTRIES - at % PIECE_ENTRIES);
	if (count && copy_to_user(to, &pieces[at / PIECE_ENTRIES][at % PIECE_ENTRIES], count * sizeof(struct entry))) {
		mutex_unlock(&queue_log_device.control);
		return -EFAULT;
	}
	spin_lock_irq(&lock);
	taken += count;
	if (taken == noted)		/* begin again with memory that was touched already */
		noted = taken = 0;
	spin_unlock_irq(&lock);
	mutex_unlock(&queue_log_device.control);
	return count * sizeof(struct entry);
}

static const struct file_operations queue_log_fops = {
	.owner		= THIS_MODULE,
	.open		= queues_open,
	.write		= queue_log_write,
	.read		= queue_log_read,
	.release	= queues_release,
};

static struct queues_device queue_log_device = {
	.misc = {
		.minor	= MISC_DYNAMIC_MINOR,
		.name	= "queue_log",
		.fops	= &queue_log_fops,
		.mode	= 0600,
	},
	.control = __MUTEX_INITIALIZER(queue_log_device.control),
	.forget	 = end,
};

int queue_log_register(void)
{
	/* the tracepoints are found by their names: here the compiler sees that these are their types */
	check_trace_callback_type_qdisc_enqueue(on_enqueue);
	check_trace_callback_type_qdisc_dequeue(on_dequeue);
	return misc_register(&queue_log_device.misc);
}

void queue_log_unregister(void)
{
	misc_deregister(&queue_log_device.misc);
}
