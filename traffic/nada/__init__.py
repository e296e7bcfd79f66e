# SPDX-License-Identifier: GPL-2.0-only
"""Media over UDP whose rate follows delay and loss: NADA (RFC 8698).

`control` and `program` run in a node, with the standard library only; `scenario` is the half outside.
"""
