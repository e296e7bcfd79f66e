# SPDX-License-Identifier: GPL-2.0-only
"""QUIC flows: programs of our own on several QUIC stacks, and what their qlog says (docs/howto/quic.md)."""
