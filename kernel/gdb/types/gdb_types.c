// SPDX-License-Identifier: GPL-2.0-only
/* The types of the kernel that helpers.py prints, for kernels that were built without any (CONFIG_DEBUG_INFO is off):
 * compiled against such a kernel, read by gdb, never loaded.
 */
#include <linux/module.h>
#include <linux/inet_diag.h>
#include <linux/skbuff.h>
#include <linux/time-internal.h>
#include <net/inet_hashtables.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>
#include <net/tcp.h>

MODULE_DESCRIPTION("Types for gdb");
MODULE_LICENSE("GPL");
