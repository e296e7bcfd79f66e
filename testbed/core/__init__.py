# SPDX-License-Identifier: GPL-2.0-only
"""The vocabulary of the testbed: units, fields, errors, files, raw tables. It imports nothing of the other packages."""
