# SPDX-License-Identifier: GPL-2.0-only
"""Run folders, tables and time series, read and checked."""
