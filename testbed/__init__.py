# SPDX-License-Identifier: GPL-2.0-only
"""A TCP congestion-control testbed on the real Linux kernel."""
import pathlib

__version__ = "0.2"

#: the checkout (or installation) this code belongs to
PROJECT_DIR = pathlib.Path(__file__).resolve().parent.parent
