# SPDX-License-Identifier: GPL-2.0-only
"""Sockets, clock, memory and io_uring, as the traffic programs use them."""
