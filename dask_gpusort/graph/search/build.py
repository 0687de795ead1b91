"""From checked arguments to the array of a search."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np

from ...config import setting
from ...order import Order
from ...plan import Size
from ...plan.search import (
    Searched,
    SearchPlan,
    SearchReason,
    choose_membership,
    describe_no_search,
    describe_search,
    make_search_plan,
)
from ..build import build_sort
from ..collection import Output, chunk_library, count_tasks, new_arrays
from ..composite_keys import Keys
from ..inputs import concatenated_dtype, flatten
from ..options import Options
from ..positions.choice import keeps_runs
from ..scheduler import ONE_PROCESS, host_memory, scheduler_in_use, workers_in_use
from .keys import Question
from .lookup import Lookup

#: Largest range of integers that becomes a set of values, for each element and test element: NumPy's own limit. And in
#: all: the set is an array of bool.
VALUES_PER_ELEMENT = 6
MOST_VALUES = 1 << 26

#: What elements of the kinds of dtypes are; numbers are of all other ones.
_KINDS_OF_EQUALS = {"S": "bytes", "U": "text", "T": "text", "M": "date", "m": "duration", "V": "record"}


def build_search(array: Any, needles: Any, side: Literal["left", "right"], sorter: Any = None) -> Any:
    """Rank needles among keys, one-dimensional, sorted or with a `sorter` of positions; then all keys are joined."""
    order = Order(concatenated_dtype([array, needles]), stable=True)
    question = Question(order, side, array.dtype, needles.dtype)
    return _looked_up(plan_search(array, needles, sorter), question, array, needles, sorter)


def plan_search(array: Any, needles: Any, sorter: Any = None) -> SearchPlan:
    """The plan of a search for needles among sorted keys, or keys that a sorter sorts."""
    return _plan(array, needles, near=True, whole=None if sorter is None else "sorter")


def explain_search(array: Any, needles: Any, side: Literal["left", "right"], sorter: Any = None) -> str:
    """The plan of `build_search` as text."""
    found = build_search(array, needles, side, sorter)
    inputs = [array, needles, *(() if sorter is None else (sorter,))]
    return describe_search(plan_search(array, needles, sorter), count_tasks([found], inputs))


def build_membership(array: Any, test: Any, invert: bool, by_values: bool | None) -> Any:
    """Tell whether each element of an array is among test elements, or with `invert` is not."""
    # `by_values` looks integers up in a set of values; None chooses by their range.
    dtype = equality_dtype(array.dtype, test.dtype)
    if dtype is None:
        return array.map_blocks(partial(np.full_like, fill_value=invert, dtype=bool), dtype=bool)
    plan = plan_membership(array, test, dtype)
    if plan.sorts:
        (test,) = build_sort(Options(), "keys", flatten(test, None)[0], axis=0)
    question = Question(
        order=Order(dtype, stable=True),
        want="not in" if invert else "in",
        key_dtype=test.dtype,
        needle_dtype=array.dtype,
        most_values=_most_values(array, test, by_values) if plan.joined and dtype.kind in "biu" else 0,
        presorted=plan.sorts,
    )
    return _looked_up(plan, question, test, array)


def plan_membership(array: Any, test: Any, compared: np.dtype[Any]) -> SearchPlan:
    """The plan of a search for elements among test elements, in a dtype in which both are compared."""
    whole = choose_membership(Order(test.dtype), compared, test.size)
    keys = test if whole else flatten(test, None)[0]
    return _plan(keys, array, whole=whole, sorts=whole is None)


def explain_membership(array: Any, test: Any, invert: bool, by_values: bool | None) -> str:
    """The plan of `build_membership` as text."""
    tasks = count_tasks([build_membership(array, test, invert, by_values)], [array, test])
    dtype = equality_dtype(array.dtype, test.dtype)
    if dtype is None:
        return describe_no_search(array.dtype, test.dtype, tasks, math.prod(array.numblocks))
    return describe_search(plan_membership(array, test, dtype), tasks)


def equality_dtype(dtype: np.dtype[Any], test: np.dtype[Any]) -> np.dtype[Any] | None:
    """Find the dtype in which elements and test elements are compared; None if none are equal."""
    if dtype.kind in "iu" and test.kind in "iu" and np.result_type(dtype, test).kind == "f":
        return dtype  # test elements out of its range are equal to none
    try:
        common = np.result_type(dtype, test)
    except TypeError:
        _ = np.empty(0, dtype) == np.empty(0, test)  # raises where NumPy does
        return None
    if common.kind == "O":
        return common
    # NumPy promotes numbers and bytes to text, and durations to dates, but none are equal.
    both = {_KINDS_OF_EQUALS.get(each.kind, "number") for each in (dtype, test)}
    return common if len(both) == 1 or both == {"duration", "number"} else None


def _most_values(array: Any, test: Any, by_values: bool | None) -> float:
    if by_values is not None:
        return math.inf if by_values else 0
    elements = test.size + (0 if math.isnan(array.size) else array.size)
    return MOST_VALUES if math.isnan(elements) else min(VALUES_PER_ELEMENT * elements, MOST_VALUES)


def _looked_up(plan: SearchPlan, question: Question, keys: Any, needles: Any, sorter: Any = None) -> Any:
    Options().request("positions", Keys(needles.astype(question.order.dtype), question.order))
    inputs = [keys, needles, *(() if sorter is None else (sorter,))]
    lookup = Lookup(
        plan=plan,
        question=question if plan.joined else replace(question, most_values=0, joined=False),
        names=tuple(array.name for array in inputs),
        key_chunks=keys.chunks,
        chunks=needles.chunks,
        sorter_blocks=0 if sorter is None else sorter.numblocks[0],
    )
    meta = np.empty_like(needles._meta, shape=(0,) * needles.ndim, dtype=question.dtype)
    prefix = "searchsorted" if question.is_rank else "isin"
    return new_arrays(lookup, inputs, [Output(meta, needles.chunks)], prefix)[0]


def _plan(
    array: Any, needles: Any, *, near: bool = False, whole: SearchReason | None = None, sorts: bool = False
) -> SearchPlan:
    kind, client = scheduler_in_use(needles)
    workers = workers_in_use(kind, client, chunk_library(needles))
    memory = host_memory() if kind in ONE_PROCESS else None
    searched = Searched(_bytes(array), _bytes(needles), max(needles.dtype.itemsize, 1))
    near = near and kind in ONE_PROCESS
    kept = kind == "distributed" and keeps_runs(needles)
    return make_search_plan(
        searched, workers, memory, setting("groups"), one_memory=near, whole=whole, sorts=sorts, kept=kept
    )


def _sizes(array: Any) -> list[Size]:
    """Elements of each chunk in C order."""
    return [math.prod(sizes) for sizes in product(*array.chunks)]


def _bytes(array: Any) -> tuple[Size, ...]:
    return tuple(size * array.dtype.itemsize for size in _sizes(array))
