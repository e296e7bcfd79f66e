# SPDX-License-Identifier: GPL-2.0-only
"""How fast the testbed is: ratios to real time, CPU per packet, memory, parallel runs."""
