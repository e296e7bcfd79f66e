# SPDX-License-Identifier: GPL-2.0-only
"""Scenario files as typed objects: sections, sweeps, congestion controls, knobs, suites."""
