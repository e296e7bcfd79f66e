# SPDX-License-Identifier: GPL-2.0-only
"""What all figures share: gnuplot, colours, labels, legends."""
