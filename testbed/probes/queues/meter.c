// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/queue_meter: readings of root qdiscs at fixed instants, noted while who asked for them sleeps.
 *
 * The same numbers as RTM_GETQDISC gives, without two system calls for each, and in the same place: the
 * process that samples sleeps in here, and what it would do when it wakes is done before it returns
 * (docs/explanation/speed.md).
 *
 * Write a struct queue for each device of the network namespace one is in. QUEUE_METER_NOTE reads those that
 * are due, or all; QUEUE_METER_SAMPLE_UNTIL takes each reading when it is due, and sleeps in between. Read()
 * gives readings in the order of time; one of 0 bytes means that there is no more yet.
 *
 * What a queue that is watched held between its readings is told, too: its backlog as it is after each
 * qdisc:qdisc_enqueue and qdisc:qdisc_dequeue, times how long it stayed so. A backlog that lasted no time at all,
 * as that of a packet which passes an empty queue, is none.
 */
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/ioctl.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>
#include <trace/events/qdisc.h>
#include "queues.h"

#define MOST_QUEUES	4096
#define ENTRIES		32768
#define LEAST_NS	100000

/* times are ns */
struct queue {
	u32 ifindex;
	u32 watched;		/* whether to tell what it holds between its readings */
	u64 interval;		/* it is read when so long has passed since it was due; 0: with each reading */
};

struct sampling {
	u64 start;		/* of CLOCK_MONOTONIC: what the times below count from */
	u64 next;		/* when the next reading is due; updated on return */
	u64 interval;		/* from one reading to the next */
	u64 until;		/* readings that are due then or later are not taken */
	u64 late;		/* the most that a reading was late; updated on return */
};

struct reading {
	u64 when;		/* of CLOCK_MONOTONIC */
	u64 sent_bytes;
	u64 sent_packets;
	u64 packet_ns;		/* integral of the backlog over time since the queue was written: packets x ns */
	u64 byte_ns;		/* and bytes x ns; both begin again at 2^64 */
	u32 drops;
	u32 backlog_bytes;
	u32 backlog_packets;
	u32 most_bytes;		/* since the reading before */
	u32 most_packets;
	u32 number;		/* of the queue, in the order in which they were written */
};

#define QUEUE_METER_NOTE	_IOW('q', 1, u64)	/* the time that it is; EVERY: all queues, due or not */
#define QUEUE_METER_SAMPLE_UNTIL	_IOWR('q', 2, struct sampling)
#define EVERY			U64_MAX

struct metered {
	struct net *net;
	u32 ifindex;
	u32 watched;
	u64 interval, due;
	/* under the lock of the qdisc: the backlog since `since`, and what was before */
	u64 since, packet_ns, byte_ns;
	struct metered *next;
	u32 packets, bytes, most_packets, most_bytes;
};

struct meter {
	struct mutex lock;
	unsigned int queues, noted, taken;
	struct metered of[MOST_QUEUES];
	struct reading readings[ENTRIES];
};

#define HEADS	256

/* lists by the last digits of ifindex, all of them of one meter; only added to while packets are looked at */
static struct metered *heads[HEADS];
static struct meter *watching;
static DEFINE_MUTEX(watch);		/* the two above */

/* the backlog is what the qdisc says now, and was what it had said before */
static void settle(struct metered *queue, const struct Qdisc *qdisc)
{
	u64 now = ktime_get_mono_fast_ns(), lasted = now - queue->since;

	if (lasted) {
		queue->packet_ns += lasted * queue->packets;
		queue->byte_ns += lasted * queue->bytes;
		queue->most_packets = max(queue->most_packets, queue->packets);
		queue->most_bytes = max(queue->most_bytes, queue->bytes);
		queue->since = now;
	}
	queue->packets = qdisc->q.qlen;
	queue->bytes = qdisc->qstats.backlog;
}

static void on_change(const struct netdev_queue *txq, const struct Qdisc *qdisc)
{
	unsigned int index = txq->dev ? txq->dev->ifindex : 0;
	struct metered *queue;

	for (queue = smp_load_acquire(&heads[index % HEADS]); queue; queue = queue->next)
		if (queue->ifindex == index && queue->net == dev_net(txq->dev))
			settle(queue, qdisc);
}

static void on_enqueue(void *data, struct Qdisc *qdisc, const struct netdev_queue *txq, struct sk_buff *skb)
{
	on_change(txq, qdisc);
}

static void on_dequeue(void *data, struct Qdisc *qdisc, const struct netdev_queue *txq, int packets,
		       struct sk_buff *skb)
{
	on_change(txq, qdisc);
}

static int watch_one(struct meter *meter, struct metered *queue)
{
	struct metered **head = &heads[queue->ifindex % HEADS];
	int error = -EBUSY;

	mutex_lock(&watch);
	if (watching && watching != meter)
		goto out;
	error = 0;
	if (!watching) {
		error = tracepoint_probe_register(queue_points.enqueue, on_enqueue, NULL);
		if (error)
			goto out;
		error = tracepoint_probe_register(queue_points.dequeue, on_dequeue, NULL);
		if (error) {
			tracepoint_probe_unregister(queue_points.enqueue, on_enqueue, NULL);
			tracepoint_synchronize_unregister();
			goto out;
		}
		watching = meter;
	}
	queue->since = ktime_get_mono_fast_ns();
	queue->next = *head;
	smp_store_release(head, queue);
out:
	mutex_unlock(&watch);
	return error;
}

static void watch_no_more(const struct meter *meter)
{
	mutex_lock(&watch);
	if (watching == meter) {
		tracepoint_probe_unregister(queue_points.enqueue, on_enqueue, NULL);
		tracepoint_probe_unregister(queue_points.dequeue, on_dequeue, NULL);
		tracepoint_synchronize_unregister();
		memset(heads, 0, sizeof(heads));
		watching = NULL;
	}
	mutex_unlock(&watch);
}

static int note_one(struct meter *meter, unsigned int number, u64 now)
{
	struct metered *queue = &meter->of[number];
	struct reading *reading = &meter->readings[meter->noted];
	struct net_device *dev;
	struct Qdisc *qdisc;
	int error = -ENODEV;

	rcu_read_lock_bh();
	dev = dev_get_by_index_rcu(queue->net, queue->ifindex);
	qdisc = dev ? rcu_dereference_bh(dev->qdisc) : NULL;
	if (!qdisc)
		goto out;
	error = -EOPNOTSUPP;
	/* these have their numbers elsewhere */
	if (qdisc_is_percpu_stats(qdisc) || qdisc->flags & TCQ_F_MQROOT)
		goto out;
	spin_lock(qdisc_lock(qdisc));
	if (queue->watched)
		settle(queue, qdisc);
	*reading = (struct reading) {
		.when = now,
		.sent_bytes = u64_stats_read(&qdisc->bstats.bytes),
		.sent_packets = u64_stats_read(&qdisc->bstats.packets),
		.packet_ns = queue->packet_ns,
		.byte_ns = queue->byte_ns,
		.drops = qdisc->qstats.drops,
		.backlog_bytes = qdisc->qstats.backlog,
		.backlog_packets = qdisc->q.qlen,
		.most_bytes = queue->most_bytes,
		.most_packets = queue->most_packets,
		.number = number,
	};
	queue->most_bytes = queue->most_packets = 0;
	spin_unlock(qdisc_lock(qdisc));
	meter->noted++;
	error = 0;
out:
	rcu_read_unlock_bh();
	return error;
}

static int note(struct meter *meter, u64 time)
{
	struct metered *queue;
	unsigned int number;
	u64 now;
	int error;

	if (meter->noted + meter->queues > ENTRIES)
		return -ENOSPC;
	/* packets that are due at this instant and were put off go first, as with a system call that asks */
	local_bh_disable();
	local_bh_enable();
	now = ktime_get_ns();
	for (number = 0; number < meter->queues; number++) {
		queue = &meter->of[number];
		if (queue->due > time)
			continue;
		error = note_one(meter, number, now);
		if (error)
			return error;
		if (time != EVERY)
			queue->due += queue->interval;
	}
	return 0;
}

/* 0 when it is time, -ERESTARTSYS for a signal */
static int sleep_until(u64 when)
{
	ktime_t expires = ns_to_ktime(when);

	while (ktime_get_ns() < when) {
		set_current_state(TASK_INTERRUPTIBLE);
		schedule_hrtimeout(&expires, HRTIMER_MODE_ABS);
		if (signal_pending(current))
			return -ERESTARTSYS;
	}
	cond_resched();
	return signal_pending(current) ? -ERESTARTSYS : 0;
}

static int sample_until(struct meter *meter, struct sampling *sampling)
{
	u64 late;
	int error;

	while (sampling->next < sampling->until) {
		if (meter->noted + meter->queues > ENTRIES)
			return 0;		/* to be read first */
		error = sleep_until(sampling->start + sampling->next);
		if (error)
			return error;
		late = ktime_get_ns() - sampling->start - sampling->next;
		error = note(meter, sampling->next + late);
		if (error)
			return error;
		sampling->late = max(sampling->late, late);
		sampling->next += sampling->interval;
	}
	return 0;
}

static long queue_meter_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct meter *meter = file->private_data;
	void __user *asked = (void __user *)argument;
	struct sampling sampling;
	u64 time;
	int error;

	switch (command) {
	case QUEUE_METER_NOTE:
		if (copy_from_user(&time, asked, sizeof(time)))
			return -EFAULT;
		mutex_lock(&meter->lock);
		error = note(meter, time);
		mutex_unlock(&meter->lock);
		return error;
	case QUEUE_METER_SAMPLE_UNTIL:
		if (copy_from_user(&sampling, asked, sizeof(sampling)))
			return -EFAULT;
		if (sampling.interval < LEAST_NS || sampling.start > S64_MAX / 4 || sampling.interval > S64_MAX / 4 ||
		    sampling.until > S64_MAX / 4)
			return -EINVAL;
		if (mutex_lock_interruptible(&meter->lock))
			return -ERESTARTSYS;
		error = sample_until(meter, &sampling);
		mutex_unlock(&meter->lock);
		/* whoever was interrupted may go on with what it says now */
		return copy_to_user(asked, &sampling, sizeof(sampling)) ? -EFAULT : error;
	}
	return -ENOTTY;
}

static ssize_t queue_meter_write(struct file *file, const char __user *from, size_t length, loff_t *offset)
{
	struct meter *meter = file->private_data;
	struct queue asked;
	ssize_t error = -ENOSPC;

	if (length != sizeof(asked))
		return -EINVAL;
	if (copy_from_user(&asked, from, sizeof(asked)))
		return -EFAULT;
	mutex_lock(&meter->lock);
	if (meter->queues < MOST_QUEUES) {
		struct metered *queue = &meter->of[meter->queues];

		*queue = (struct metered) {
			.net = current->nsproxy->net_ns,
			.ifindex = asked.ifindex,
			.watched = asked.watched,
			.interval = asked.interval,
		};
		error = asked.watched ? watch_one(meter, queue) : 0;
		if (!error) {
			get_net(queue->net);
			meter->queues++;
		}
	}
	mutex_unlock(&meter->lock);
	return error ?: length;
}

static ssize_t queue_meter_read(struct file *file, char __user *to, size_t length, loff_t *offset)
{
	struct meter *meter = file->private_data;
	size_t count = length / sizeof(struct reading);

	if (!count)
		return -EINVAL;
	mutex_lock(&meter->lock);
	count = min_t(size_t, count, meter->noted - meter->taken);
	if (count && copy_to_user(to, &meter->readings[meter->taken], count * sizeof(struct reading))) {
		mutex_unlock(&meter->lock);
		return -EFAULT;
	}
	meter->taken += count;
	if (meter->taken == meter->noted)
		meter->taken = meter->noted = 0;
	mutex_unlock(&meter->lock);
	return count * sizeof(struct reading);
}

static int queue_meter_open(struct inode *inode, struct file *file)
{
	struct meter *meter = vzalloc(sizeof(*meter));

	if (!meter)
		return -ENOMEM;
	mutex_init(&meter->lock);
	file->private_data = meter;
	return 0;
}

static int queue_meter_release(struct inode *inode, struct file *file)
{
	struct meter *meter = file->private_data;

	watch_no_more(meter);
	while (meter->queues)
		put_net(meter->of[--meter->queues].net);
	vfree(meter);
	return 0;
}

static const struct file_operations queue_meter_fops = {
	.owner		= THIS_MODULE,
	.open		= queue_meter_open,
	.write		= queue_meter_write,
	.read		= queue_meter_read,
	.unlocked_ioctl	= queue_meter_ioctl,
	.release	= queue_meter_release,
};

static struct miscdevice queue_meter_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "queue_meter",
	.fops	= &queue_meter_fops,
	.mode	= 0600,
};

int queue_meter_register(void)
{
	check_trace_callback_type_qdisc_enqueue(on_enqueue);
	check_trace_callback_type_qdisc_dequeue(on_dequeue);
	return misc_register(&queue_meter_device);
}

void queue_meter_unregister(void)
{
	misc_deregister(&queue_meter_device);
}
