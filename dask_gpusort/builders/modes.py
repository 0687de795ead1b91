r"""The most common key, and the number of distinct keys, of lanes: of whole lanes, or of sorted distinct keys.

Of one array, or of lanes that do not fit a chunk, only distinct keys move between chunks::

    distinct keys, counts        distinct keys, counts     of `distinct`, ascending
              |                            |
        most-common                  most-common           one key and its count
                  \                   /
                      first-of-all                         of equal counts the first
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import dask.array as da
import numpy as np

from ..chunk import complete
from ..chunk.reducers import Reducer, count_distinct, leave_out_nan, most_common
from ..chunk.tie_groups import may_be_nan
from ..graph.inputs import blockwise, lane_by_lane, with_axes
from ..graph.runtime import Runtime
from ..plan.select import most_lanes_bytes
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
        best = blockwise(
            most_common_of,
            (0,),
            *(part for column in build_unique(keys, Unique(counts=True)) for part in (column, (0,))),
            nan_policy=nan_policy,
            adjust_chunks={0: 1},
            token="most-common",
            dtype=object,
            meta=np.empty(0, object),
        )
        dtypes = keys.dtype, np.dtype(np.int64)
        return tuple(
            blockwise(
                first_of_all,
                (1,),
                best,
                (0,),
                which=which,
                into=dtype,
                new_axes={1: 1},
                token="first-of-all",
                dtype=dtype,
                meta=np.empty_like(keys._meta, shape=(0,), dtype=dtype),
            )
            for which, dtype in enumerate(dtypes)
        )

    return build_reduced(array, most_common(nan_policy), axes, keepdims, of_array)


def most_common_of(values: Any, counts: Any, nan_policy: Any) -> Any:
    """Task: the most common of some distinct keys and its count, boxed in an array of one object."""
    counts, boxed = counts.copy(), np.empty(1, object)
    leave_out_nan(values, counts, nan_policy)
    at = slice(0, 0) if len(values) == 0 else slice(first := int(counts.argmax()), first + 1)
    boxed[0] = complete((values[at].copy(), counts[at].copy()))
    return boxed


def first_of_all(parts: list[Any], which: int, into: np.dtype[Any]) -> Any:
    """Task: the first key of the greatest count of some, or that count, in a dtype."""
    columns = [np.concatenate(column) for column in zip(*(part.item() for part in parts), strict=True)]
    first = int(columns[1].argmax())
    return complete(columns[which][first : first + 1].astype(into))


def build_nunique_along(array: Any, equal_nan: bool, axes: tuple[int, ...]) -> Any:
    """The number of distinct keys of each lane along some axes."""
    reducers = [count_distinct(equal_nan)]
    return build_reduced(array, reducers, axes, False, lambda keys: (build_nunique(keys, equal_nan)[None],))[0]
