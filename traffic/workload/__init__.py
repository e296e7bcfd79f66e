# SPDX-License-Identifier: GPL-2.0-only
"""From the traffic of a scenario to the flows and programs of a run."""
