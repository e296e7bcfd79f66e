# SPDX-License-Identifier: GPL-2.0-only
"""Plans, runs and experiments: what is run, where it is kept, and how it is found again."""
