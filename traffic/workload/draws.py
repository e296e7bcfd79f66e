# SPDX-License-Identifier: GPL-2.0-only
"""Sizes and times that scenarios give as a value, or as a distribution:

    response: 20 kB
    response: {mean: 20 kB, distribution: pareto, shape: 1.3}
    think: {mean: 2 s, distribution: exponential}

A section has a field for either: `response_bytes` and `response`. Draws are from the run's seed, before the run.
"""
import dataclasses
import math
import random

from testbed.core import fields
from testbed.core.fields import FieldError

_DISTRIBUTIONS = ("constant", "exponential", "lognormal", "pareto")
#: without `shape`: of Pareto the exponent, of lognormal the standard deviation of the logarithm
_USUAL_SHAPES = {"pareto": 1.5, "lognormal": 1.0}
#: beyond these, what any run can draw has a mean far below the one asked for: almost all of it is in values that
#: never come (of lognormal(3), half of the mean is in one draw of 740)
_LEAST_PARETO_SHAPE, _MOST_LOGNORMAL_SHAPE = 1.05, 3.0
MOST_BYTES, MOST_US = 10**10, 3600 * 10**6


@dataclasses.dataclass(frozen=True)
class Draw:
    """A distribution of whole numbers; shape only of those that have one."""
    distribution: str = fields.word(choices=_DISTRIBUTIONS, default="constant")
    shape: float | None = fields.number(default=None, above=0, most=100)

    def __post_init__(self) -> None:
        if self.shape is not None and self.distribution not in _USUAL_SHAPES:
            raise FieldError("shape", f"only with distribution: {' or '.join(_USUAL_SHAPES)}")
        if self.distribution == "pareto" and self.shape is not None and self.shape < _LEAST_PARETO_SHAPE:
            raise FieldError("shape", f"at least {_LEAST_PARETO_SHAPE} expected: below, no run's draws have this mean "
                                      "(at 1 or less there is none)")
        if self.distribution == "lognormal" and self.shape is not None and self.shape > _MOST_LOGNORMAL_SHAPE:
            raise FieldError("shape", f"at most {_MOST_LOGNORMAL_SHAPE:g} expected: above, no run's draws have this "
                                      "mean")

    def number(self, draw: random.Random, mean: int, least: int, most: int) -> int:
        """One draw, from `least` to `most`."""
        shape = _USUAL_SHAPES.get(self.distribution, 0.0) if self.shape is None else self.shape
        value = float(mean)
        if self.distribution == "exponential":
            value = draw.expovariate(1.0) * mean
        elif self.distribution == "pareto":
            value = draw.paretovariate(shape) * mean * (shape - 1) / shape
        elif self.distribution == "lognormal":
            value = draw.lognormvariate(math.log(mean) - shape**2 / 2, shape) if mean else 0.0
        return min(most, max(least, round(value)))


@dataclasses.dataclass(frozen=True)
class Size(Draw):
    """Bytes, at least 1."""
    mean_bytes: int = fields.size(least=1, most=MOST_BYTES)

    def one(self, draw: random.Random) -> int:
        return self.number(draw, self.mean_bytes, 1, MOST_BYTES)


@dataclasses.dataclass(frozen=True)
class Time(Draw):
    """Microseconds."""
    mean_us: int = fields.time(most=MOST_US)

    def one(self, draw: random.Random) -> int:
        return self.number(draw, self.mean_us, 0, MOST_US)
