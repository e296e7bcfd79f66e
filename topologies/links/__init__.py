# SPDX-License-Identifier: GPL-2.0-only
"""Links as scenarios describe them: rate, delay, schedule, impairments, losses."""
