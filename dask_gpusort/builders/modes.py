"""The most common key, and the number of distinct keys, of lanes: of whole lanes, or of sorted distinct keys.

Of one array, or of lanes that do not fit a chunk, only distinct keys move between chunks (see `functions.distinct`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import dask.array as da
import numpy as np

from ..chunk.reducers import Reducer, count_distinct, most_common
from ..chunk.tie_groups import may_be_nan
from ..drivers.recipe import recipe_of_lines
from ..functions.modes import MostCommon
from ..graph.collection import Output, new_arrays
from ..graph.explain import note
from ..graph.inputs import lane_by_lane, with_axes
from ..graph.runtime import Runtime
from ..plan.choose import choose, most_lanes_bytes, plan_lanes
from .distinct import Unique, build_nunique, build_unique
from .statistics import UNKNOWN_LANES, check_statistic, lanes_of, one_axis, reduce_blocks


def build_reduced(
    array: Any,
    reducers: Sequence[Reducer],
    axes: tuple[int, ...],
    keepdims: bool,
    of_array: Callable[[Any], tuple[Any, ...]],
) -> list[Any]:
    """What reducers find of the lanes along some axes; `of_array` finds the same of an array, in shape (1,) each."""
    for reducer in reducers:
        check_statistic(array, reducer)
    lanes = lanes_of(array, axes)
    if lanes.keys == 0 and not may_be_nan(array.dtype):
        # The most common of no keys is NaN.
        floats = np.empty_like(array._meta, shape=array.shape, dtype=np.float64)
        array = da.from_array(floats, chunks=array.chunks, asarray=False)
    whole = len(axes) < array.ndim and (lanes.chunks == 1 or lanes.keys * lanes.itemsize <= lanes.limit)
    if array.size == 0 or whole:
        limit = most_lanes_bytes(lanes, Runtime.of(array).workers)
        what = "modes" if len(reducers) > 1 else "counts"
        note(plan_lanes(lanes, *choose(lanes, "sort"), "reduce-lanes", what, most=limit))
        return [reduce_blocks(array, reducer, axes, keepdims, limit) for reducer in reducers]
    if len(axes) == array.ndim:
        found = of_array(array)
    elif math.isnan(lanes.count + lanes.keys):
        raise ValueError(UNKNOWN_LANES)
    else:
        merged = one_axis(array, axes)
        found = lane_by_lane(of_array, [merged], merged.ndim - 1, merged.ndim)
    if not keepdims or not axes:
        return [one[..., 0] for one in found]
    dims = list(range(array.ndim - len(axes)))
    dims.insert(axes[0], len(dims))
    kept = tuple(None if dim in axes[1:] else slice(None) for dim in range(array.ndim))
    return [with_axes(one, dims)[kept] for one in found]


def build_mode(array: Any, nan_policy: Any, axes: tuple[int, ...], keepdims: bool) -> list[Any]:
    """The most common key of each lane along some axes, and its count."""

    def of_array(keys: Any) -> tuple[Any, ...]:
        columns = build_unique(keys, Unique(counts=True))
        dtypes = keys.dtype, np.dtype(np.int64)
        outputs = [Output(np.empty_like(keys._meta, shape=(0,), dtype=dtype), ((1,),)) for dtype in dtypes]
        recipe = recipe_of_lines((MostCommon(keys.dtype, nan_policy),), 2, columns)
        return new_arrays(recipe, columns, outputs, "first-of-all")

    return build_reduced(array, most_common(nan_policy), axes, keepdims, of_array)


def build_nunique_along(array: Any, equal_nan: bool, axes: tuple[int, ...]) -> Any:
    """The number of distinct keys of each lane along some axes."""
    reducers = [count_distinct(equal_nan)]
    return build_reduced(array, reducers, axes, False, lambda keys: (build_nunique(keys, equal_nan)[None],))[0]
