# SPDX-License-Identifier: GPL-2.0-only
"""UDP flows of several kinds of traffic: when packets leave, the program that sends and counts them, its orders.

`departures` and `program` run in a node, with the standard library only; `orders` is the half outside.
"""
