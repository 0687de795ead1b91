"""The table of the checks that are alike: an argument, what it must be, and what refuses it.

Rows are named where a function checks its argument: ``SPLIT_EVERY.checked(split_every)``.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from ..chunk.tie_groups import METHODS, NAN_POLICIES
from ..config import DEVICES, EXCHANGES
from ..plan.groups import GROUP_STRATEGIES
from ..plan.select import STRATEGIES
from .arrays import in_memory


@dataclass(frozen=True)
class Choice:
    """A row of an argument that must be one of some values."""

    name: str
    allowed: tuple[Any, ...]
    text: bool = False  # whether the error for what is no string is a TypeError, as in NumPy

    def checked(self, value: Any) -> Any:
        """Give the value, if it is one of these."""
        several = len(self.allowed) > 2
        words = (", " if several else " or ").join(map(repr, self.allowed))
        if self.text and not isinstance(value, str):
            raise TypeError(f"{self.name} must be str, not {type(value).__name__}: give {words}")
        if not (value is None or isinstance(value, str)) or value not in self.allowed:
            raise ValueError(f"{self.name} must be {'one of ' * several}{words} (got {value!r})")
        return value


@dataclass(frozen=True)
class Integer:
    """A row of an argument that must be an integer, of any type."""

    name: str
    what: str = "an integer"
    least: int | None = None

    def checked(self, value: Any) -> int:
        """Convert the value, if it is an integer that is large enough."""
        try:
            number = operator.index(in_memory(value, self.name))
        except TypeError as error:
            raise TypeError(f"{self.name} must be {self.what}, not {value!r}") from error
        if self.least is not None and number < self.least:
            raise ValueError(f"{self.name} must be at least {self.least} (got {number})")
        return number


@dataclass(frozen=True)
class Excluded:
    """A row of arguments that have no meaning beside another one."""

    error: type[Exception]
    message: str  # with braces for the name of the argument

    def refuse(self, **given: Any) -> None:
        """Refuse the arguments that are given: neither None nor False."""
        for name, value in given.items():
            if value is not None and value is not False:
                raise self.error(self.message.format(name))


SORT_KIND = Choice("sort kind", ("quicksort", "heapsort", "mergesort", "stable"), text=True)
SORT_METHOD = Choice("method", ("auto", "radix", "merge"))
EXCHANGE = Choice("exchange", EXCHANGES)
DEVICE = Choice("device", DEVICES)
SELECT_KIND = Choice("select kind", ("introselect",), text=True)
STRATEGY = Choice("strategy", ("auto", *STRATEGIES))
STRATEGY_OF_GROUPS = Choice("strategy", ("auto", *GROUP_STRATEGIES))
RANK_METHOD = Choice("method", METHODS)
NAN_POLICY = Choice("nan_policy", NAN_POLICIES)
ALTERNATIVE = Choice("alternative", ("two-sided", "less", "greater"))
SIDE = Choice("search side", ("left", "right"), text=True)
DIRECTION = Choice("direction", ("backward", "forward", "nearest"))
HOW = Choice("how", ("inner", "left", "right", "outer"))
KIND_OF_ISIN = Choice("kind", (None, "sort", "table"))
MODE_OF_TAKE = Choice("mode", ("clip", "raise", "wrap"))
MODE_OF_TOP_K = Choice("mode", ("largest", "smallest"))

K = Integer("k")
N = Integer("n", least=0)
SEED = Integer("seed", "an integer or None", least=0)
SPLIT_EVERY = Integer("split_every", "an integer or None", least=2)
WINDOW = Integer("window", "an odd integer")

WITH_LESS = Excluded(ValueError, "less cannot be combined with {}: put it into the comparison")
WITH_SEVERAL_KEYS = Excluded(ValueError, "{} cannot be combined with several keys: apply it to each of them first")
WITH_MASKED = Excluded(
    TypeError, "{} is not for masked arrays: leave it out, or fill them first, with dask.array.ma.filled"
)
WITH_GROUPS = Excluded(TypeError, "{0} is not for groups: give by, or {0}")
IN_PLACE = Excluded(TypeError, "{}= is for arrays in memory, and the result is lazy: leave it out, and assign that")
RENAMED = Excluded(TypeError, "{} was renamed to method in xarray 0.21: give method=")
WITHOUT_LABELS = Excluded(TypeError, "{0} is of labels, and there are none: give by=, or leave out {0}")
