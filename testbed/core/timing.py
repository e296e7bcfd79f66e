# SPDX-License-Identifier: GPL-2.0-only
"""The three parts of a run: prefill, warm-up, test. Metrics are taken over the last."""
import dataclasses

from testbed.core import fields

_YEAR_US = 366 * 24 * 3600 * 10**6


@dataclasses.dataclass(frozen=True)
class Timing:
    """The section `timing` of a scenario, and of plan.json."""
    prefill_us: int = fields.time(default=0, most=_YEAR_US)
    warmup_us: int = fields.time(default=0, most=_YEAR_US)
    test_us: int = fields.time(least=1, most=_YEAR_US)

    @property
    def measure_from_us(self) -> int:
        """When measuring begins."""
        return self.prefill_us + self.warmup_us

    @property
    def duration_us(self) -> int:
        """When it ends, and the run."""
        return self.measure_from_us + self.test_us

    def record(self) -> dict[str, int]:
        """As plan.json has it."""
        return {"prefill_us": self.prefill_us, "warmup_us": self.warmup_us, "test_us": self.test_us,
                "duration_us": self.duration_us}
