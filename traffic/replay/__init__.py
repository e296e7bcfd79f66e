# SPDX-License-Identifier: GPL-2.0-only
"""The replay of connections over real TCP sockets; Tmix is one of its users."""
