# SPDX-License-Identifier: GPL-2.0-only
"""Greedy flows: bulk transfers that always have data to send."""

#: how receivers misbehave (misbehaving.py)
DIVIDED, OPTIMISTIC = "divided", "optimistic"
