"""What every function says of itself before it runs: where it works and why, and the bytes of each step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from .terms import format_lines, format_size

#: Whose peak it is: of a thread's share of a worker, or a GPU; of a process; or of all workers together.
Scope = Literal["thread", "process", "all"]
#: Strategies by which no element leaves its chunk; and those whose own plans, which follow, say how.
SILENT = ("", "none", "blocks", "slices", "exchange", "sort")


class StepBytes(NamedTuple):
    """Count what the largest task of a step takes at its peak, beside its input."""

    name: str
    rows: float  # nan if unknown
    width: float  # bytes of a row
    copies: float = 1  # of each row
    fixed: float = 0  # bytes for each row, whatever its width
    stays: float = 0  # bytes beside the rows

    @property
    def bytes(self) -> float:
        """All bytes, nan if unknown."""
        return self.stays + self.rows * (self.fixed + self.copies * self.width)


def peak(steps: Sequence[StepBytes]) -> float:
    """The bytes of the step that takes most, nan if those of one are unknown."""
    taken = [one.bytes for one in steps]
    return math.nan if any(map(math.isnan, taken)) else max(taken, default=0.0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Say where a function works and why, what it takes, and further decisions; or the same of a step before it."""

    where: str = ""  # the strategy, such as "blocks", "join", "rechunk" or "exchange"; empty for a step before
    why: str = ""
    given: Mapping[str, str] = field(default_factory=dict)  # what is known of the input, by name
    more: Mapping[str, str] = field(default_factory=dict)  # further decisions, by name; empty ones are left out
    driver: str = ""  # how elements leave their chunks, if that is not said by `where`
    steps: tuple[StepBytes, ...] = ()
    scope: Scope = "thread"  # whose peak it is
    stages: tuple[tuple[str, float], ...] = ()  # between the source and the result, and the bytes that each takes in
    over: bool = False  # whether memory may run out though the peak fits
    reads: int = 1  # of each chunk of the source
    notes: tuple[str, ...] = ()

    @property
    def stated(self) -> Plan:
        """Itself: classes with the numbers of a family give their plan by this name."""
        return self

    @property
    def peak(self) -> float:
        """Bytes of the step that takes most, nan if unknown."""
        return peak(self.steps)

    @property
    def exchange(self) -> str | None:
        """How elements leave their chunks; None if they do not, or a plan behind this one says it."""
        return self.driver or (None if self.where in SILENT else self.where)

    @property
    def text(self) -> str:
        """All decisions, a line each."""
        steps = ", ".join(f"{one.name} {format_size(one.bytes)}" for one in self.steps)
        strategy = f"{self.where}: {self.why}" if self.why else self.where
        return format_lines({**self.given, "strategy": strategy, **self.more, "steps": steps})
