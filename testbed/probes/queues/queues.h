/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QUEUES_H
#define QUEUES_H

#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/tracepoint.h>

/* a table by ifindex is no longer than that */
#define QUEUES_MOST_INDEX	(1 << 20)

/* qdisc:qdisc_enqueue, qdisc:qdisc_dequeue, net:net_dev_queue, skb:kfree_skb */
struct queue_points {
	struct tracepoint *enqueue, *dequeue, *queue, *drop;
};

extern struct queue_points queue_points;

/* a device that one program has open at a time */
struct queues_device {
	struct miscdevice misc;
	struct mutex control;	/* who reads, begins or ends */
	bool opened;
	void (*forget)(void);	/* when it is closed */
};

int queues_open(struct inode *inode, struct file *file);
int queues_release(struct inode *inode, struct file *file);

/* /dev/queue_log */
int queue_log_register(void);
void queue_log_unregister(void);

/* /dev/queue_meter */
int queue_meter_register(void);
void queue_meter_unregister(void);

/* /dev/queue_sojourn */
int queue_sojourn_register(void);
void queue_sojourn_unregister(void);

#endif
