# SPDX-License-Identifier: GPL-2.0-only
"""Differences of fairness that do not matter.

With shares whose coefficient of variation is c, Jain's index is 1 / (1 + c²), and the entropy of n shares is about
log2(n) - c² / (2 ln 2) bit. Both margins are those of c = 0.1, which two flows at 1:1.22 have. A margin of 5 % of
Jain's index would call 1:1 and 1:1.55 equal.
"""
JAIN_MARGIN = 0.01
ENTROPY_MARGIN_BIT = 0.007
