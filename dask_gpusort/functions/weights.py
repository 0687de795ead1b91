r"""Weighted quantiles as a program: parts are chunks of sorted keys, with the weights as companions.

A weighted quantile is the smallest key of a lane up to which there is a share of the weight::

    part        Weigh       its weight                               notes: these; decision: those of all
                    |
                Pick        the keys at the quantiles, if they are in this part: the note
                    |
    decision                the first of them, the result
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..chunk import complete
from ..chunk.lanes import Picked, check_weights, combine_picked, pick_keys, sum_weights
from ..table import Statistic
from .program import Given, Made, Superstep


@dataclass(frozen=True)
class Weigh(Superstep):
    """Find the weight of a part of each lane."""

    stage = "weigh-part"
    listing = "weigh-parts"

    statistic: Statistic

    def work(self, given: Given) -> Made:
        keys, weights = given.blocks
        check_weights(weights)
        return Made([sum_weights(keys, weights, self.statistic)])

    def decide(self, notes: Sequence[Any]) -> Any:
        return complete(np.concatenate([sums for (sums,) in notes], axis=-1))


@dataclass(frozen=True)
class Pick(Superstep):
    """Find the quantiles whose ranks fall into a part."""

    stage = "pick-part"
    rereads = True
    concludes = True

    statistic: Statistic

    def work(self, given: Given) -> Made:
        return Made(list(pick_keys(*given.blocks, given.decision, given.number, self.statistic)))

    def decide(self, notes: Sequence[Any]) -> Any:
        found = combine_picked([Picked(*note) for note in notes], self.statistic)
        return complete(found.reshape((*self.statistic.shape, *found.shape[1:])))
