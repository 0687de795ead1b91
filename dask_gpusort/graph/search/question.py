"""Sorted keys in one array, and what is looked up in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from ...chunk import complete, ops_for
from ...chunk.numpy_search import make_value_set, occur
from ...order import Order, of_floors
from ...plan import Size
from ...plan.search import holds_objects
from ...table import Side
from ..input_checks import checked_chunk, wrong_size

#: Sorted keys in transit and None; or a set of values and the least of them (see `chunk.numpy_search`).
SortedKeys: TypeAlias = tuple[Any, int | None]


@dataclass(frozen=True)
class Question:
    """Say what is asked of each needle."""

    order: Order  # of keys and needles, in their common dtype
    #: The rank of the needle from one side, or whether it is, or is not, among the keys.
    want: Literal["left", "right", "in", "not in"]
    key_dtype: np.dtype[Any]
    needle_dtype: np.dtype[Any]
    most_values: float = 0  # largest range of integers for which a set of values is made
    presorted: bool = True  # whether the keys are sorted
    joined: bool = True  # whether all keys are one array

    @property
    def is_rank(self) -> bool:
        """Whether a rank is wanted."""
        return self.want in ("left", "right")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result."""
        return np.dtype(np.int64 if self.is_rank else bool)

    @property
    def side(self) -> Side:
        """The side of the search. A key that is equal to a needle is before the needle's rank from the right."""
        return "left" if self.want == "left" else "right"

    @property
    def needles(self) -> str:
        """The name of the needles in error messages."""
        return "the needles" if self.is_rank else "the elements"

    @property
    def transit(self) -> Order:
        """The order of keys and needles in transit."""
        return of_floors(self.order)

    def in_transit(self, array: Any) -> Any:
        """Keys or needles in transit, the least of their tie class, shape (n,)."""
        ops = ops_for(array)
        return ops.floor(ops.encode(self._converted(array), self.order), self.order)

    def searched(self, array: Any) -> Any:
        """Keys or needles, shape (n,): in transit, or as `ops.rank` takes them to rank them in one array of keys."""
        if not (self.is_rank and self.joined):
            return self.in_transit(array)
        return ops_for(array).ranked_keys(self._converted(array), self.order)

    def _converted(self, array: Any) -> Any:
        """Keys or needles in their common dtype, shape (n,)."""
        dtype = self.order.dtype
        flat = array.reshape(-1)
        if dtype.kind in "SU":
            # A chunk may have longer strings than its array says.
            flat = flat.astype(dtype.kind, copy=False)
        elif flat.dtype != dtype:
            flat = flat.astype(dtype)
        return flat


def join_keys(
    chunks: list[Any], question: Question, sizes: Sequence[Size], first: int = 0, sorter: Sequence[Any] = ()
) -> SortedKeys:
    """Task: join the keys of some chunks, of which `first` is the number of the first, into one sorted array.

    `sorter` has chunks of the positions that sort the keys; it is empty if they are sorted.
    """
    for number, (chunk, size) in enumerate(zip(chunks, sizes, strict=True), first):
        what = f"chunk {number} of the sorted keys" if question.is_rank else "a chunk of test_elements"
        checked_chunk(chunk, question.key_dtype, what)
        if chunk.size != size and not math.isnan(size):
            raise wrong_size(f"{what} has {chunk.size} keys", size)
    ops = ops_for(chunks[0])
    parts = [chunk.reshape(-1) for chunk in chunks]
    if not question.is_rank:
        parts = [_that_can_be_equal(part, question.order.dtype) for part in parts]
    whole = ops.concatenate(parts)
    if _is_compared_by_numpy(question):
        return whole, None
    keys = question.searched(whole)
    if sorter:
        keys = keys[_checked_sorter(ops.concatenate(sorter), len(keys))]
    if not question.presorted:
        keys = ops.local_sort(keys, (), question.transit, positions=False).keys
    found = make_value_set(keys, question.most_values) if question.most_values else None
    return (complete(keys), None) if found is None else (complete(found[0]), found[1])


def _that_can_be_equal(part: Any, dtype: np.dtype[Any]) -> Any:
    """Test elements that an element of a dtype may be equal to: no NaN, and no integers out of its range."""
    if part.dtype.kind not in "biuSUO":
        part = part[part == part]
    if dtype.kind == "u" and part.dtype.kind == "i":
        return part[part >= 0]
    if dtype.kind == "i" and part.dtype == np.uint64:
        return part[part <= np.uint64(np.iinfo(dtype).max)]
    return part


def _checked_sorter(sorter: Any, size: int) -> Any:
    if len(sorter) != size:
        raise ValueError("sorter.size must equal a.size")
    if size and not (int(sorter.min()) >= 0 and int(sorter.max()) < size):
        raise ValueError("Sorter index out of range.")
    return sorter


def _is_compared_by_numpy(question: Question) -> bool:
    """Whether NumPy compares objects with objects, which need have no order."""
    return holds_objects(question.order.dtype) and not question.is_rank


def look_up(found: SortedKeys, block: Any, question: Question) -> Any:
    """Look needles up; the result has their shape."""
    keys, least = found
    if _is_compared_by_numpy(question):
        return np.isin(block, keys, invert=question.want == "not in")
    needles = question.searched(block)
    if least is None:
        ranks = ops_for(block).rank(keys, needles, question.transit, question.side)
        result = wanted_of(keys, needles, ranks, question)
    else:
        result = _inverted(occur(needles, keys, least), question)
    return complete(result.reshape(block.shape))


def wanted_of(keys: Any, needles: Any, ranks: Any, question: Question) -> Any:
    """Turn the ranks of needles into what the question asks for."""
    if question.is_rank:
        return ranks
    return _inverted(ops_for(keys).equal_before(keys, needles, ranks, question.transit), question)


def _inverted(inside: Any, question: Question) -> Any:
    return ~inside if question.want == "not in" else inside
