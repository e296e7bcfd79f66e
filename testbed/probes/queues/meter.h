/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QUEUES_METER_H
#define QUEUES_METER_H

/* /dev/queue_meter */
int queue_meter_register(void);
void queue_meter_unregister(void);

#endif
