# SPDX-License-Identifier: GPL-2.0-only
"""Who sends over QUIC: a stack with one of its congestion controls, written quinn:cubic."""
from __future__ import annotations

from typing import NamedTuple


class QuicSender(NamedTuple):
    """A QUIC stack and its congestion control."""

    stack: str
    control: str

    @classmethod
    def of(cls, text: str) -> QuicSender:
        """Of STACK:CONTROL; what is missing is ''."""
        stack, _, control = text.partition(":")
        return cls(stack, control)

    def __str__(self) -> str:
        return f"{self.stack}:{self.control}"
