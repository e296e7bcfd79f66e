# SPDX-License-Identifier: GPL-2.0-only
"""The part of a run that takes place inside the kernel under test.

The same code for every kernel engine: it finds its orders in `job.json`, builds the
network, checks it, starts the traffic, samples, stops and leaves raw files. It does not
know whether the kernel around it is virtual, a VM's or the host's own.
"""
