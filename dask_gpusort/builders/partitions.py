r"""Partitions: keys at some ranks in place, no larger keys before each of them, and no smaller keys behind it.

::

    chunks ----------- selection by samples -----------> cut keys, at the wanted ranks
       |                                                     |
       |---------------- partition-bucket, one a chunk <-----'
       |                          |
       |                  buckets of one byte: 0 before the first cut key, 1 equal to it, 2 behind it, ...
       |                          |
       '--- values ---> sort by bucket ---> the keys, or their positions

Equal buckets keep the order of the input. Rows that are whole in a chunk, or fit one, are partitioned by NumPy. CuPy
chunks are sorted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..chunk import ops_for
from ..chunk.checks import checked_chunk, only_chunk
from ..graph.explain import note
from ..graph.inputs import blockwise, flatten, rechunk_checked
from ..graph.runtime import Runtime
from ..plan.choose import Where, choose, plan_lanes
from ..plan.select import cuts_by_samples
from ..table import Ranks
from .request import Options
from .sort import build_sort
from .statistics import is_held, lanes_of, plan_statistic, select_by_samples, whole_lanes

Want = Literal["keys", "positions"]

#: Kinds of dtypes in which NaN are equal to each other, so that a number of them tells the key at a rank.
_SEARCHABLE = "biufmM"


def partition_block(
    block: Any, expected: np.dtype[Any], want: Want, kth: Sequence[int], axis: int, length: float
) -> Any:
    """Task: partition the rows of one NumPy chunk."""
    checked_chunk(block, expected, sizes={axis: length})
    return (np.partition if want == "keys" else np.argpartition)(block, np.array(kth, np.intp), axis=axis)


def bucket_block(block: Any, cuts: Any, axis: int, expected: np.dtype[Any]) -> Any:
    """Task: the bucket of each key of a chunk, between the cut keys of its row."""
    cuts = only_chunk(cuts)
    checked_chunk(block, expected)
    found = np.empty(block.shape, np.uint8)
    rows, to_fill = np.moveaxis(block, axis, -1), np.moveaxis(found, axis, -1)
    for index in np.ndindex(rows.shape[:-1]):
        to_fill[index] = ops_for(block).buckets(rows[index], cuts[:, *index])
    return found


def build_partition(
    array: Any, kth: Sequence[int], want: Want, axis: int | None, order: tuple[str, ...] | None = None
) -> Any:
    """Partition the rows of an array along an axis, or of the flattened one, by ranks, from the end if negative.

    `order` names fields of a structured dtype to compare first.
    """
    array, axis = flatten(array, axis)
    ranks = _known_ranks(kth, array.shape, axis)
    strategy = "sort" if order is not None else _strategy(array, ranks, axis, want)
    if strategy == "sort":
        return build_sort(Options(order=order), want, array, (), axis)[0]
    if strategy == "samples":
        buckets = _bucket(array, ranks, axis)
        if want == "positions":
            return build_sort(Options(), "positions", buckets, (), axis)[0]
        return build_sort(Options(), "values", buckets, (array,), axis)[0]
    return _partition_blocks(array, ranks.wanted, want, axis)


def _known_ranks(kth: Sequence[int], shape: Sequence[float], axis: int) -> Ranks:
    """The ranks from the first key, ascending and distinct; as in NumPy any rank is valid if there are no keys."""
    if 0 in shape:
        return Ranks(())
    length = shape[axis]
    if math.isnan(length):
        raise ValueError(f"a has an unknown size along axis {axis}, and kth counts it: call a.compute_chunk_sizes()")
    ranks = sorted({rank + int(length) if rank < 0 else rank for rank in kth})
    for rank in ranks:
        if not 0 <= rank < length:
            raise ValueError(f"kth(={rank}) out of bounds ({int(length)})")
    return Ranks(tuple(ranks))


def _strategy(array: Any, ranks: Ranks, axis: int, want: Want) -> Where:
    runtime = Runtime.of(array)
    if array.dtype.kind == "O" or runtime.library == "cupy":
        return "sort"
    lanes = replace(lanes_of(array, (axis,)), searchable=array.dtype.kind in _SEARCHABLE)
    held = is_held(array, lanes, runtime)
    where = choose(lanes, "partition")[0]
    searched = cuts_by_samples(lanes, len(ranks.wanted), want == "positions", held)
    return "sort" if where == "samples" and not searched else where


def _bucket(array: Any, ranks: Ranks, axis: int) -> Any:
    """The bucket of each key between the keys at the ranks, an array of the same chunks."""
    plan = plan_statistic(array, ranks, (axis,), "samples")
    note(plan)
    cuts = select_by_samples(array, ranks, (axis,), False, plan)
    dims = tuple(range(1, array.ndim + 1))
    return blockwise(
        bucket_block,
        dims,
        array,
        dims,
        cuts,
        (0, *dims[:axis], *dims[axis + 1 :]),
        axis=axis,
        expected=array.dtype,
        token="partition-bucket",
        dtype=np.uint8,
        meta=np.empty_like(array._meta, dtype=np.uint8),
    )


def _partition_blocks(array: Any, kth: Sequence[int], want: Want, axis: int) -> Any:
    """Partition rows that are whole in a chunk, or fit one."""
    lanes, whole = lanes_of(array, (axis,)), whole_lanes(array, (axis,))
    note(plan_lanes(lanes, *choose(lanes, "partition"), "partition", "partition" if want == "keys" else "argpartition"))
    dtype = array.dtype if want == "keys" else np.dtype(np.int64)
    found = whole.map_blocks(
        partition_block,
        array.dtype,
        want,
        kth,
        axis,
        array.shape[axis],
        dtype=dtype,
        meta=np.empty_like(array._meta, dtype=dtype),
    )
    return found if whole is array else rechunk_checked(found, array.chunks)
