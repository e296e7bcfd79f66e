# SPDX-License-Identifier: GPL-2.0-only
"""Quantities with units, as scenario files and `--set` spell them.

    100 Mbit/s -> rate_bps 100000000        2 ms -> _us 2000
    1500 B     -> _bytes 1500               60 % -> _percent 60
    40 m       -> _mm 40000

Rates are powers of ten, as in the standards; sizes are bytes. A field reads its own unit
(testbed/core/fields.py), and its name ends with it: `rate: 100 Mbit/s` is the field `rate_bps`.
"""
import re
from decimal import Context, Decimal

_UNITS = {
    "bit/s": ("bps", 1), "kbit/s": ("bps", 10**3), "Mbit/s": ("bps", 10**6), "Gbit/s": ("bps", 10**9),
    "us": ("us", 1), "ms": ("us", 10**3), "s": ("us", 10**6), "min": ("us", 60 * 10**6), "h": ("us", 3600 * 10**6),
    "B": ("bytes", 1), "kB": ("bytes", 10**3), "MB": ("bytes", 10**6), "GB": ("bytes", 10**9),
    "%": ("percent", 1),
    "mm": ("mm", 1), "m": ("mm", 10**3), "km": ("mm", 10**6),
}
_QUANTITY = re.compile(r"\s*([-+]?[0-9][0-9_]*(?:\.[0-9]+)?|[-+]?\.[0-9]+)\s*([A-Za-z%][A-Za-z/]*)\s*")

#: characters of a quantity, and arithmetic that is exact on so many digits
_LONGEST = 60
_EXACT = Context(prec=100)

EXAMPLES = {"bps": "100 Mbit/s", "us": "20 ms", "bytes": "1500 B", "percent": "60 %", "mm": "40 m"}


def parse(text: str) -> tuple[str, int | float] | None:
    """'20 ms' -> ('us', 20000); None when `text` is not a quantity.

    ValueError when it looks like a quantity but the unit is unknown or the value
    is not a whole number of base units (except percent, which may be fractional).
    """
    match = _QUANTITY.fullmatch(text)
    if not match:
        return None
    number, unit = match.groups()
    if unit not in _UNITS:
        raise ValueError(f"unknown unit {unit[:40]!r} in {text[:60]!r}; units are: {', '.join(_UNITS)}")
    if len(text) > _LONGEST:
        raise ValueError(f"{text[:_LONGEST]}... has more digits than any quantity needs")
    suffix, factor = _UNITS[unit]
    value = _EXACT.multiply(Decimal(number.replace("_", "")), Decimal(factor))
    if value == value.to_integral_value(context=_EXACT):
        return suffix, int(value)
    if suffix == "percent":
        return suffix, float(value)
    base = next(name for name, one in _UNITS.items() if one == (suffix, 1))
    raise ValueError(f"{text!r} is not a whole number of {base}")


def factor(unit: str) -> tuple[str, int]:
    """'ms' -> ('us', 1000). ValueError if there is no such unit."""
    if unit not in _UNITS:
        raise ValueError(f"unknown unit {unit[:40]!r}; units are: {', '.join(_UNITS)}")
    return _UNITS[unit]


def show(suffix: str, value: float) -> str:
    """A quantity as users spell it: ('us', 2000) -> '2 ms', ('bytes', 1500) -> '1500 B', ('', 3) -> '3'."""
    if suffix == "percent":
        return f"{value:g} %"
    if not suffix:
        return f"{value}"
    fitting = [(name, factor) for name, (of, factor) in _UNITS.items()
               if of == suffix and name not in ("min", "h") and abs(value) >= factor and value % factor == 0]
    name, factor = fitting[-1] if fitting else next((n, f) for n, (of, f) in _UNITS.items() if of == suffix)
    return f"{value // factor} {name}"


def show_rate(rate_bps: float) -> str:
    """100000000 -> '100 Mbit/s'."""
    for name, factor in (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3)):
        if rate_bps >= factor:
            return f"{rate_bps / factor:g} {name}"
    return f"{rate_bps:g} bit/s"


def show_duration(seconds: float) -> str:
    """75.2 -> '1:15'; 3.21 -> '3.2 s'."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
