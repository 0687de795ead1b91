"""The most common key as a program: it is one of those that are most common in a part of the distinct keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..chunk import complete
from ..chunk.reducers import leave_out_nan
from .program import Given, Made, Superstep


@dataclass(frozen=True)
class MostCommon(Superstep):
    """Find the most common of the distinct keys of a part, which ascend, and its count; of equal counts the first."""

    stage = "most-common"
    concludes = True

    dtype: np.dtype[Any]
    nan_policy: Any

    def work(self, given: Given) -> Made:
        values, counts = given.blocks[0], given.blocks[1].copy()
        leave_out_nan(values, counts, self.nan_policy)
        first = int(counts.argmax()) if len(counts) else 0
        return Made([column[first : first + 1].copy() for column in (values, counts)])

    def decide(self, notes: Sequence[Any], decision: Any) -> tuple[Any, ...]:
        values, counts = map(np.concatenate, zip(*notes, strict=True))
        first = int(counts.argmax())
        return complete(values[first : first + 1].astype(self.dtype)), counts[first : first + 1]
