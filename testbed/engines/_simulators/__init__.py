# SPDX-License-Identifier: GPL-2.0-only
"""What engines that are simulators have in common: the traffic as they need it, the idle network, raw tables.

workload    the programs of a workload -> sources, bulk flows, datagram flows
refusals    what of a scenario a simulator has nothing for
changing    links that change, and traces
idle        what is measured before traffic, and what becomes of it in raw/checks.json
process     a simulator as a child: progress, its last words, no process left behind
tables      what it left -> raw tables
"""
