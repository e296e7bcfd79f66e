# SPDX-License-Identifier: GPL-2.0-only
"""Comparisons of rows, runs, kernels, experiments and suites."""
