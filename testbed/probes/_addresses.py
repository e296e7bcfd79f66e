# SPDX-License-Identifier: GPL-2.0-only
"""Columns of addresses as the kernel has them, as text."""
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.core import ip

if TYPE_CHECKING:
    import numpy as np


def addresses(raw: "np.ndarray") -> "np.ndarray":
    """Text of a column of addresses, each 4 or 16 bytes in network byte order."""
    return _named(raw, _text)


def endpoints(raw: "np.ndarray", ports: "np.ndarray") -> "np.ndarray":
    """Text of columns of addresses and ports: 10.0.1.2:5000, [fd00:0:0:1::2]:5000."""
    import numpy as np
    both = np.empty(len(raw), dtype=[("address", raw.dtype), ("port", ">u2")])
    both["address"], both["port"] = raw, ports
    return _named(both.view(f"V{both.dtype.itemsize}"),
                  lambda data: ip.endpoint(_text(data[:-2]), int.from_bytes(data[-2:], "big")))


def _text(data: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(data) == 4 else socket.AF_INET6, data)


def _named(column: "np.ndarray", name: Callable[[bytes], str]) -> "np.ndarray":
    """Each distinct value is named once."""
    import numpy as np
    import pandas as pd
    which, distinct = pd.factorize(column.astype(object))
    return np.array([name(bytes(value)) for value in distinct], dtype=object)[which]
