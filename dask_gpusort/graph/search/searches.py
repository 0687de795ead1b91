"""From checked arguments to the array of a search."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any, Literal

import dask.array as da
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
    holds_objects,
    make_search_plan,
)
from ..collection import Output, new_arrays
from ..exchanges import exchange_by_group, gathering_members, read_in_gang
from ..explain import note
from ..input_checks import declared_chunks
from ..inputs import concatenated_dtype, flatten, same_chunks
from ..runtime import Runtime
from ..sort.build import build_sort
from ..sort.request import Keys, Options
from .lookup import Interpolation, KeysInGang, Lookup, Question

#: Largest range of integers that becomes a set of values, for each element and test element: NumPy's own limit. And in
#: all: the set is an array of bool.
VALUES_PER_ELEMENT = 6
MOST_VALUES = 1 << 26

#: Bytes of a rank.
RANK_BYTES = 8

#: What elements of the kinds of dtypes are; numbers are of all other ones.
_KINDS_OF_EQUALS = {"S": "bytes", "U": "text", "T": "text", "M": "date", "m": "duration", "V": "record"}


def build_search(array: Any, needles: Any, side: Literal["left", "right"], sorter: Any = None) -> Any:
    """Rank needles among keys, one-dimensional, sorted or with a `sorter` of positions; then all keys are joined."""
    order = Order(concatenated_dtype([array, needles]), stable=True)
    question = Question(order, side, array.dtype, needles.dtype)
    gangs = sorter is None and not holds_objects(order.dtype)
    plan = _plan(array, needles, order.dtype, near=True, whole=None if sorter is None else "sorter", gangs=gangs)
    return _looked_up(plan, question, array, needles, sorter)


def build_interp(
    x: Any, xp: Any, fp: Any, left: complex | None = None, right: complex | None = None, period: float | None = None
) -> Any:
    """Interpolate between values `fp` at sorted keys `xp`, one-dimensional and in the same chunks, unless periodic."""
    fp = same_chunks(xp.chunks, fp, "fp", "xp")
    if period is not None:
        x, xp, fp = _with_period(x, xp, fp, period)
    order = Order(np.dtype(np.float64), stable=True)
    question = Question(order, "value", xp.dtype, x.dtype, interpolation=Interpolation(fp.dtype, left, right))
    plan = _plan(xp, x, order.dtype, value_bytes=question.dtype.itemsize, near=True)
    return _looked_up(plan, question, xp, x, fp)


def _with_period(x: Any, xp: Any, fp: Any, period: float) -> tuple[Any, Any, Any]:
    """Needles and keys modulo a period, sorted with the values; the last key is also in front, the first one behind."""
    # The operators of a Dask array of one element would drop its empty chunks.
    x, xp = (one.astype(np.float64).map_blocks(np.mod, period, dtype=np.float64) for one in (x, xp))
    xp, fp = build_sort(Options(), "both", xp, (fp,), axis=0)
    front, back = (one.map_blocks(np.add, by, dtype=xp.dtype) for one, by in ((xp[-1:], -period), (xp[:1], period)))
    return x, da.concatenate([front, xp, back]), da.concatenate([fp[-1:], fp, fp[:1]])


def build_membership(array: Any, test: Any, invert: bool, by_values: bool | None) -> Any:
    """Tell whether each element of an array is among test elements, or with `invert` is not."""
    # `by_values` looks integers up in a set of values; None chooses by their range.
    dtype = equality_dtype(array.dtype, test.dtype)
    if dtype is None:
        note("none", lambda _: describe_no_search(array.dtype, test.dtype))
        return array.map_blocks(partial(np.full_like, fill_value=invert, dtype=bool), dtype=bool)
    whole = choose_membership(Order(test.dtype), dtype, test.size)
    test = test if whole else flatten(test, None)[0]
    plan = _plan(test, array, dtype, whole=whole, sorts=whole is None, gangs=whole != "objects")
    if plan.sorts:
        (test,) = build_sort(Options(), "keys", test, axis=0)
    question = Question(
        order=Order(dtype, stable=True),
        want="not in" if invert else "in",
        key_dtype=test.dtype,
        needle_dtype=array.dtype,
        most_values=_most_values(array, test, by_values) if plan.joined and dtype.kind in "biu" else 0,
        presorted=plan.sorts,
    )
    return _looked_up(plan, question, test, array)


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


def _looked_up(plan: SearchPlan, question: Question, keys: Any, needles: Any, other: Any = None) -> Any:
    # The other array is a sorter, or has the values at the keys.
    Options().check(Keys(needles.astype(question.order.dtype), question.order))
    inputs = [keys, needles, *(() if other is None else (other,))]
    output = Output(np.empty_like(needles._meta, shape=(0,) * needles.ndim, dtype=question.dtype), needles.chunks)
    prefix = "interp" if question.interpolation else "searchsorted" if question.is_rank else "isin"
    if plan.sources:
        declared = declared_chunks(question.needles, question.needle_dtype, needles.chunks)
        reading = KeysInGang(question, tuple(map(math.prod, product(*keys.chunks))), tuple(declared))
        return read_in_gang(reading, keys, needles, plan.sources, output, prefix)
    # Imported here, because it imports distributed.
    recipe = import_module("..runs.rows", __package__).KeptLookup if plan.kept else Lookup
    lookup = recipe(
        plan=plan,
        question=question if plan.joined else replace(question, most_values=0, joined=False),
        names=tuple(array.name for array in inputs),
        key_chunks=keys.chunks,
        chunks=needles.chunks,
        sorter_blocks=0 if other is None else other.numblocks[0],
    )
    return new_arrays(lookup, inputs, [output], prefix)[0]


def _plan(
    keys: Any,
    needles: Any,
    dtype: np.dtype[Any],
    *,
    value_bytes: int = 0,
    near: bool = False,
    whole: SearchReason | None = None,
    sorts: bool = False,
    gangs: bool = False,
) -> SearchPlan:
    """Plan for keys and needles that are converted to a dtype, with some bytes of a value for each key."""
    itemsize = max(dtype.itemsize, 1)
    runtime = Runtime.of(needles)
    moved = _bytes(keys, itemsize), _bytes(needles, itemsize + RANK_BYTES)
    sources = gathering_members(runtime, (keys, needles), *moved) if gangs else ()
    plan = make_search_plan(
        Searched(_bytes(keys, itemsize + value_bytes), _bytes(needles, itemsize), itemsize),
        runtime.workers,
        runtime.memory,
        setting("groups"),
        one_memory=(near or runtime.workers.devices) and runtime.one_process,
        whole="gang" if sources else whole,
        sorts=sorts and not sources,
        kept=runtime.kind == "distributed" and exchange_by_group(runtime) == "runs",
    )
    plan = replace(plan, sources=sources)
    note(plan, lambda _: describe_search(plan))
    return plan


def _bytes(array: Any, itemsize: int) -> tuple[Size, ...]:
    """Bytes of each chunk in C order."""
    return tuple(math.prod(sizes) * itemsize for sizes in product(*array.chunks))
