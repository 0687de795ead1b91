"""Order statistics of groups along an axis.

Lanes that fit a chunk are made whole once for all groups, and each chunk of them is reduced group by group. Long lanes
whose labels are in memory are sorted by groups into parts: some whole groups, about as many keys as a chunk. Each part
is reduced alone. Otherwise lanes are sorted by groups and keys, and the keys of a group may be in several chunks (see
`functions.groups`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from ..chunk import complete, library_of, ops_for
from ..chunk.checks import checked_chunk, only_chunk, wrong_size
from ..chunk.groups import Groups, reduce_groups
from ..chunk.labels import MISSING_KINDS, code_dtype, number_labels, on_host, sizes_of
from ..chunk.reducers import Reducer
from ..chunk.tie_groups import Ranking, may_be_nan
from ..drivers.recipe import recipe_of_lines
from ..functions.groups import Edge, Join, JoinAll, Pick
from ..graph.collection import Output, new_arrays
from ..graph.explain import note
from ..graph.inputs import blockwise, rechunk, same_chunks, with_axes
from ..graph.runtime import Runtime
from ..order import Order
from ..plan.choose import Where, most_lanes_bytes
from ..plan.groups import Found, GroupSizes, plan_groups
from ..table import Statistic
from .sort import build_moved, build_packed
from .statistics import UNKNOWN_LANES, check_statistic, lanes_of, one_axis, whole_lanes


@dataclass(frozen=True)
class Labels:
    """Hold the labels of an axis, or of several."""

    array: Any  # of the shape of the axes: codes, or if the number of groups is unknown labels, as a Dask array
    count: float  # of groups, nan if unknown
    sizes: np.ndarray | None = None  # of each group, if known
    window: int = 1  # labels of neighbours, and its own, that say to which groups an element belongs
    may_be_missing: bool = True  # whether an element's own label may be that of no group

    @classmethod
    def of(cls, by: Any, groups: np.ndarray | None, window: int) -> Labels:
        """Number the labels; only those of a Dask array whose groups are not given wait for the computation."""
        if not is_dask_collection(by):
            codes, sizes = number_labels(by, groups)
            count, missing = len(sizes), bool((codes < 0).any())
            if window > 1:
                sizes = np.sum([sizes_of(own, count) for _, own in _shifted(codes, codes, window)], axis=0)
            return cls(da.from_array(codes, chunks=-1), count, sizes, window, missing)
        if groups is None:
            return cls(by, math.nan, None, window, by.dtype.kind in MISSING_KINDS)
        meta = np.empty((0,) * by.ndim, code_dtype(len(groups)))
        codes = by.map_blocks(find_codes, groups=groups, expected=by.dtype, dtype=meta.dtype, meta=meta)
        return cls(codes, len(groups), None, window)

    def may_lack(self, least: int) -> bool:
        """Whether a group may have fewer than so many elements."""
        if self.sizes is None:
            return least > math.isnan(self.count)  # labels of an unknown number are those that occur
        return bool((self.sizes < least).any())

    @property
    def group_count(self) -> int | None:
        """The number of groups, None if unknown."""
        return None if math.isnan(self.count) else int(self.count)

    @property
    def group_sizes(self) -> GroupSizes:
        """What a plan needs to know of them."""
        largest = math.nan if self.sizes is None else int(self.sizes.max(initial=0))
        return GroupSizes(self.count, largest, self.window)


def find_codes(block: Any, groups: np.ndarray, expected: np.dtype[Any]) -> Any:
    """Task: the codes of a chunk of labels."""
    return number_labels(on_host(checked_chunk(block, expected, "a chunk of the labels")), groups)[0]


def build_grouped(
    array: Any, statistic: Statistic | Reducer, axes: tuple[int, ...], labels: Labels, strategy: str = "auto"
) -> Any:
    """Build what is found of the groups along some axes, which ascend: groups are in the place of the first."""
    dtype = grouped_dtype(array, statistic, labels)
    if len(axes) > 1:
        if any(map(math.isnan, (*(array.shape[dim] for dim in axes), *labels.array.shape))):
            raise ValueError("by of several axes needs known sizes: call compute_chunk_sizes() of a and of by first")
        same = _in_chunks_of(array, axes, labels.array)
        labels = Labels(one_axis(same, tuple(range(len(axes)))), labels.count, labels.sizes)
        array = one_axis(array, axes)
        axis = array.ndim - 1
    else:
        (axis,) = axes
    chosen, whole = _choose(array, statistic, axis, labels, strategy)
    if chosen != "sort" or not array.size:
        found = _reduced(*with_groups(array, axis, labels), (), statistic, axis, (labels.count,), dtype)
    else:
        function: Any = _by_groups if whole else _by_groups_and_keys
        found = _lane_by_lane(lambda lane: function(lane, labels, statistic, dtype), array, axis)
    first = len(statistic.shape)
    dims = list(range(found.ndim))
    dims.insert(first + axes[0], dims.pop(first + axis))
    return with_axes(found, dims)


def grouped_dtype(array: Any, statistic: Statistic | Reducer, labels: Labels) -> np.dtype[Any]:
    """The dtype of results: numbers become float64 if a group may lack some, which are NaN."""
    found = check_statistic(array, statistic)
    if statistic.fill is not None or not labels.may_lack(statistic.least) or may_be_nan(found):
        return found
    if found.kind not in "biu":
        few = "labels that do not occur" if statistic.least == 1 else f"fewer than {statistic.least} elements"
        raise TypeError(
            f"groups may have {few}, and keys of {array.dtype} have no NaN for them: give a of numbers or dates, or "
            "labels in memory and groups that occur" + " so often" * (statistic.least > 1)
        )
    return np.dtype(np.float64)


def _in_chunks_of(array: Any, axes: Sequence[int], labels: Any) -> Any:
    """The labels of some axes of an array in its chunks."""
    return same_chunks(tuple(array.chunks[dim] for dim in axes), labels, "by", "a along the axis")


def _choose(array: Any, statistic: Statistic | Reducer, axis: int, labels: Labels, strategy: str) -> tuple[Where, bool]:
    lanes = lanes_of(array, (axis,), statistic.objects)
    asked: Any = None if strategy == "auto" else strategy
    if asked == "blocks" and lanes.chunks > 1:
        raise ValueError("strategy='blocks' needs axes that are whole in their chunks: use strategy='auto' or rechunk")
    if asked == "sort" and not lanes.searchable:
        what = "q of Python objects" if statistic.objects else array.dtype
        raise ValueError(f"strategy='sort' needs numbers or dates, not {what}: use strategy='auto'")
    found = Found("groups", math.prod(statistic.shape), "nothing")
    if isinstance(statistic, Reducer):  # groups that are sorted lose the positions
        found = found._replace(step="reduced groups", needed="lanes" if statistic.positions else "groups")
    plan, chosen, whole = plan_groups(lanes, labels.group_sizes, found, Runtime.of(array).workers, asked)
    note(plan)
    if chosen == "sort" and math.isnan(lanes.count if labels.window == 1 else lanes.count + lanes.keys):
        raise ValueError(UNKNOWN_LANES)
    return chosen, whole


def make_groups(codes: Any, count: Any, window: int) -> Any:
    """Task: the groups of a lane, from its codes, or if their number is unknown from its labels, boxed in an array."""
    codes, boxed = on_host(only_chunk(codes)), np.empty((), object)
    if count is None:
        codes, sizes = number_labels(codes)
        count = len(sizes)
    boxed[...] = Groups.of_codes(codes, np.asarray(only_chunk(count)).item(), window)
    return boxed


def make_sorted_groups(sizes: Any) -> Any:
    """Task: the groups of a part that is sorted by them, from their sizes, boxed in an array."""
    boxed = np.empty(1, object)
    boxed[0] = Groups.of_sizes(sizes)
    return boxed


def reduce_chunk(
    block: Any,
    groups: Any,
    find: Callable[..., Any],
    wanted: Statistic | Reducer | Ranking,
    expected: np.dtype[Any],
    axis: int,
    length: float,
    found: np.dtype[Any],
) -> Any:
    """Task: what a function finds of the groups of each lane of one chunk, along an axis of some length, in a dtype."""
    block, own = checked_chunk(only_chunk(block), expected, sizes={axis: length}), only_chunk(groups).item()
    if own.length != block.shape[axis]:
        raise wrong_size(f"by has {own.length} labels for a lane", block.shape[axis])
    return complete(find(block, wanted, axis, own, found))


def with_groups(array: Any, axis: int, labels: Labels) -> tuple[Any, Any]:
    """The array with lanes that are whole in their chunks, and the groups of each."""
    lanes = whole_lanes(array, (axis,), most_lanes_bytes(lanes_of(array, (axis,)), Runtime.of(array).workers))
    codes = rechunk(_in_chunks_of(lanes, [axis], labels.array), {0: -1})
    groups = blockwise(
        make_groups,
        (),
        codes,
        (0,),
        labels.group_count,
        None,
        window=labels.window,
        token="make-groups",
        dtype=object,
        meta=np.empty((), object),
    )
    return lanes, groups


def _reduced(
    lanes: Any,
    groups: Any,
    groups_dims: tuple[int, ...],
    statistic: Statistic | Reducer,
    axis: int,
    counts: tuple[float, ...],
    dtype: np.dtype[Any],
) -> Any:
    """What a task makes of each chunk of lanes and of its groups, of which there are so many in the axis' chunks."""
    first = len(statistic.shape)
    dims = tuple(range(first, first + lanes.ndim))
    indices = (*range(first), *dims)
    return blockwise(
        reduce_chunk,
        indices,
        lanes,
        dims,
        groups,
        groups_dims,
        find=reduce_groups,
        wanted=statistic,
        expected=lanes.dtype,
        axis=axis,
        length=lanes.shape[axis] if lanes.numblocks[axis] == 1 else math.nan,
        found=dtype,
        new_axes=dict(enumerate(statistic.shape)),
        adjust_chunks={first + axis: counts},
        token="reduce-groups",
        dtype=dtype,
        meta=np.empty_like(lanes._meta, shape=(0,) * len(indices), dtype=dtype),
    )


def _lane_by_lane(function: Callable[[Any], Any], array: Any, axis: int) -> Any:
    """Apply a function to each lane of an array, in place of which it gives an array whose last axis is of groups."""
    if array.ndim == 1:
        return function(array)
    dim = 1 if axis == 0 else 0
    own = axis - (dim < axis)
    parts = [_lane_by_lane(function, array[(slice(None),) * dim + (at,)], own) for at in range(array.shape[dim])]
    leading = parts[0].ndim - (array.ndim - 1)
    return da.stack(parts, axis=leading + dim, allow_unknown_chunksizes=True)


def _shifted(keys: Any, labels: Any, window: int) -> Iterator[tuple[Any, Any]]:
    """Each element with the labels of its neighbours: pairs of arrays of keys and labels."""
    if window == 1:
        yield keys, labels
        return
    size = len(keys)
    for shift in range(-(window // 2), window // 2 + 1):
        yield keys[max(0, -shift) : size - max(0, shift)], labels[max(0, shift) : size - max(0, -shift)]


def _pairs(lane: Any, labels: Labels) -> tuple[Any, Any]:
    """Keys and labels of all pairs of an element and a group that it belongs to."""
    own = _in_chunks_of(lane, [0], labels.array)
    pairs = [(keys, rechunk(codes, keys.chunks)) for keys, codes in _shifted(lane, own, labels.window)]
    return pairs[0] if len(pairs) == 1 else tuple(map(da.concatenate, zip(*pairs, strict=True)))


def _by_groups(lane: Any, labels: Labels, statistic: Statistic | Reducer, dtype: np.dtype[Any]) -> Any:
    """Sort a lane by its groups into parts of whole groups, and reduce each part."""
    keys, codes = _pairs(lane, labels)
    sizes = labels.sizes
    assert sizes is not None
    # A part ends where a group ends, and has less than twice as many keys as the largest group or chunk.
    most = max(*keys.chunks[0], sizes.max(initial=1))
    firsts = np.append(0, np.flatnonzero(np.diff((np.cumsum(sizes) - 1).clip(0) // most)) + 1)
    counts = tuple(np.diff(firsts, append=len(sizes)).tolist())
    chunks = np.add.reduceat(sizes, firsts) if len(sizes) else np.zeros(1, np.int64)
    total, rest = int(chunks.sum()), len(keys) - int(chunks.sum())
    codes = _looked_up(codes, np.arange(len(sizes) + 1)) if rest else codes
    (moved,) = build_moved([_in_library_of(codes, keys)], [False], [keys], ((*chunks.tolist(), *[rest][: bool(rest)]),))
    groups = blockwise(
        make_sorted_groups,
        (0,),
        da.from_array(sizes, chunks=(counts,)),
        (0,),
        token="make-groups",
        dtype=object,
        meta=np.empty((0,), object),
        adjust_chunks={0: 1},
    )
    return _reduced(moved[:total] if rest else moved, groups, (len(statistic.shape),), statistic, 0, counts, dtype)


def _looked_up(codes: Any, table: np.ndarray) -> Any:
    """The entries of a table, in few bytes, for codes; the last one for those of no group."""
    table = table.astype(np.min_scalar_type(table.max()))
    return codes.map_blocks(look_up, table=table, dtype=table.dtype, meta=np.empty_like(codes._meta, dtype=table.dtype))


def look_up(codes: Any, table: np.ndarray) -> Any:
    """Task: the entries of a table for codes, of which those of no group, -1, have the last entry."""
    return table.take(codes, mode="wrap")


def _in_library_of(codes: Any, keys: Any) -> Any:
    """Codes where the keys are."""
    if library_of(codes._meta) == library_of(keys._meta):
        return codes
    dtype = codes.dtype.newbyteorder("=")  # CuPy has no other
    return codes.map_blocks(ops_for(keys._meta).moved_here, dtype=dtype, meta=np.empty_like(keys._meta, dtype=dtype))


def _by_groups_and_keys(lane: Any, labels: Labels, statistic: Statistic, dtype: np.dtype[Any]) -> Any:
    """Sort a lane by its groups and its keys, and pick the keys at the ranks of each group."""
    keys, codes = _pairs(lane, labels)
    count = labels.group_count
    if count is not None:
        codes = _looked_up(codes, np.arange(count + 1))
    moved = _sorted_pairs(keys, _in_library_of(codes, keys))
    join = Join(statistic, dtype) if count is None else JoinAll(statistic, dtype, count)
    dims = (*(-1 for _ in statistic.shape), 0)
    recipe = recipe_of_lines((Edge(count), Pick(statistic, count), join), 1, moved, output_dims=dims)
    chunks = (math.nan,) * len(keys.chunks[0]) if count is None else (count,)
    meta = np.empty_like(keys._meta, shape=(0,) * (len(statistic.shape) + 1), dtype=dtype)
    output = Output(meta, (*((size,) for size in statistic.shape), chunks))
    return new_arrays(recipe, moved, [output], "quantile")[0]


def _sorted_pairs(keys: Any, labels: Any) -> Sequence[Any]:
    """Keys and labels, sorted by the labels, and those of equal labels by the keys."""
    # CuPy chunks, and one chunk, are sorted by keys of several words only for what moves with them.
    alone = library_of(keys._meta) == "numpy" and keys.numblocks != (1,)
    if not alone or not all(Order(array.dtype).coded for array in (keys, labels)):
        return build_moved([keys, labels], [False, False], [keys, labels], None)
    # Both are in the code that is sorted, so nothing moves with it. A key is encoded before, or it would be the least
    # of its equals.
    dtypes = keys.dtype, labels.dtype
    meta = np.empty_like(keys._meta, dtype=f"u{keys.dtype.itemsize}")
    codes = keys.map_blocks(encode_keys, keys.dtype, dtype=meta.dtype, meta=meta)
    packed = build_packed([codes, labels], [False, False])
    drop = [1][: packed.ndim - 1]
    return [
        packed.map_blocks(unpack_keys, dtypes, which, dtype=array.dtype, meta=array._meta, drop_axis=drop)
        for which, array in enumerate([keys, labels])
    ]


def encode_keys(block: Any, expected: np.dtype[Any]) -> Any:
    """Task: codes of a chunk of keys, one to one."""
    return ops_for(block).encode(checked_chunk(block, expected), Order(expected))


def unpack_keys(packed: Any, dtypes: Sequence[np.dtype[Any]], which: int) -> Any:
    """Task: the keys of a chunk, or the labels which are in front of them."""
    codes = packed[:, 1 - which] if packed.ndim > 1 else packed >> which * 8 * dtypes[0].itemsize
    return ops_for(packed).decode(codes.astype(f"u{dtypes[which].itemsize}"), Order(dtypes[which]))
