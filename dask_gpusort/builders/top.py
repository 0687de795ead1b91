"""From checked arguments to the first keys of every row: chunks of a row that share a GPU are one array in one task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dask
import numpy as np

from ..drivers.one import call_with_whole
from ..drivers.recipe import recipe_of_lines
from ..functions.top import Select
from ..graph.collection import Output, new_arrays
from ..graph.explain import note
from ..graph.inputs import companion
from ..order import POSITION_BYTES
from ..plan import Plan, Size
from ..plan.choose import choose, plan_lanes
from ..plan.memory import HOST_BYTES
from ..plan.plan import StepBytes
from ..plan.sort import SHARED
from .global_sort import joins_rows
from .request import Options
from .statistics import lanes_of

#: Most candidates that one task merges where they have few keys. The task waits for all of them.
MOST_MERGED = 32


def select_top(array: Any, values: Sequence[Any], k: int, axis: int, split_every: int | None) -> tuple[Any, ...]:
    """Select the first keys of each row, their positions, and the companions at these positions.

    A positive `k` selects in descending order, a negative one in ascending order; a task merges `split_every`
    candidates at most.
    """
    options = Options(descending=k > 0)
    keys = options.keys(array, "positions")
    Options().check(keys)
    inputs = [array, *(companion(array, value, number) for number, value in enumerate(values))]
    select = Select(keys.order, abs(k), axis, split_every or _fan_in(array.chunks[axis], abs(k)))
    length = sum(array.chunks[axis])
    size = length if math.isnan(length) else min(abs(k), length)
    chunks = (*array.chunks[:axis], (size,), *array.chunks[axis + 1 :])
    positions = Output(np.empty_like(array._meta, shape=(0,) * array.ndim, dtype=np.int64), chunks)
    first, *moved = (Output(one._meta, (*chunks, *one.chunks[array.ndim :])) for one in inputs)
    joins = array.ndim == 1 and not values and joins_rows(options.request("positions", keys), keys, ())
    note(_plan(inputs, axis, abs(k), select.fan_in, joins))
    if joins:
        return call_with_whole(array, select.of_whole, [first, positions], (False, False), "top", "top")
    outputs = [first, positions, *moved]
    lanes = tuple(dim for dim in range(array.ndim) if dim != axis)
    recipe = recipe_of_lines((select,), len(outputs), inputs, lanes)
    return new_arrays(recipe, inputs, outputs, "top")


def _plan(inputs: Sequence[Any], axis: int, count: int, fan_in: int, joins: bool) -> Plan:
    """What the first keys of each row take, of which a task merges so many candidates."""
    array = inputs[0]
    lanes, fixed, copies = lanes_of(array, (axis,)), *HOST_BYTES["top"]
    width = sum(one.dtype.itemsize * math.prod(one.shape[array.ndim :]) for one in inputs) + POSITION_BYTES
    most, rows = max(array.chunks[axis]), math.prod(max(own) for dim, own in enumerate(array.chunks) if dim != axis)
    first = StepBytes("top-select", rows * most, array.dtype.itemsize, copies, fixed, rows * min(count, most) * width)
    merge = StepBytes("top-merge", rows * min(count, most) * min(fan_in, lanes.chunks), width, 2.5)
    if joins:
        return plan_lanes(lanes, "join", SHARED, "top")
    if lanes.chunks == 1:
        return replace(plan_lanes(lanes, *choose(lanes, "sort"), "top-select"), steps=(first,))
    why = f"the first elements of each chunk are merged, {fan_in} chunks at a time"
    return Plan(where="tree", why=why, given={"lanes": lanes.text}, steps=(first, merge))


def _fan_in(sizes: Sequence[Size], count: int) -> int:
    """Candidates that one task merges: together no more keys than a chunk has, or Dask's number of them."""
    least = dask.config.get("split_every", 4)
    largest = max(sizes)
    return least if math.isnan(largest) else max(least, min(MOST_MERGED, int(largest) // max(1, count)))
