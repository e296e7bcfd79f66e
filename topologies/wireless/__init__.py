# SPDX-License-Identifier: GPL-2.0-only
"""Radios and the paths of packets over the air."""
