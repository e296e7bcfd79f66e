# SPDX-License-Identifier: GPL-2.0-only
"""What flows and connections did: windows, completion times, losses, recovery."""
