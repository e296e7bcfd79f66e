// SPDX-License-Identifier: GPL-2.0-only
/* The module: the tracepoints that its devices look at, and how these are opened and closed. */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/string.h>
#include "queues.h"

struct queue_points queue_points;

static struct queues_device *device_of(struct file *file)
{
	return container_of((struct miscdevice *)file->private_data, struct queues_device, misc);
}

int queues_open(struct inode *inode, struct file *file)
{
	struct queues_device *device = device_of(file);
	int error = -EBUSY;

	mutex_lock(&device->control);
	if (!device->opened) {
		device->opened = true;
		error = 0;
	}
	mutex_unlock(&device->control);
	return error;
}

int queues_release(struct inode *inode, struct file *file)
{
	struct queues_device *device = device_of(file);

	mutex_lock(&device->control);
	device->forget();
	device->opened = false;
	mutex_unlock(&device->control);
	return 0;
}

static void find_point(struct tracepoint *point, void *data)
{
	if (!strcmp(point->name, "qdisc_enqueue"))
		queue_points.enqueue = point;
	else if (!strcmp(point->name, "qdisc_dequeue"))
		queue_points.dequeue = point;
	else if (!strcmp(point->name, "net_dev_queue"))
		queue_points.queue = point;
	else if (!strcmp(point->name, "kfree_skb"))
		queue_points.drop = point;
}

static int __init queues_init(void)
{
	int error;

	for_each_kernel_tracepoint(find_point, NULL);
	if (!queue_points.enqueue || !queue_points.dequeue || !queue_points.queue || !queue_points.drop)
		return -ENOENT;
	error = queue_log_register();
	if (error)
		return error;
	error = queue_meter_register();
	if (error)
		goto no_meter;
	error = queue_sojourn_register();
	if (!error)
		return 0;
	queue_meter_unregister();
no_meter:
	queue_log_unregister();
	return error;
}

static void __exit queues_exit(void)
{
	queue_sojourn_unregister();
	queue_meter_unregister();
	queue_log_unregister();
}

module_init(queues_init);
module_exit(queues_exit);
MODULE_DESCRIPTION("Packets that enter and leave queues, their time there, and readings of queues");
MODULE_LICENSE("GPL");
