# SPDX-License-Identifier: GPL-2.0-only
"""Run folders -> metrics, tables, figures, report.

Reads the folders described in docs/reference/run-folder.md and knows nothing about
how they came about.  The definitions of all metrics are in docs/reference/metrics.md.
"""
