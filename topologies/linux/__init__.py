# SPDX-License-Identifier: GPL-2.0-only
"""Networks as Linux is told to build them: netlink, tc, namespaces."""
