# SPDX-License-Identifier: GPL-2.0-only
"""Tmix: TCP connections as sequences of application data units (docs/howto/tmix.md)."""
