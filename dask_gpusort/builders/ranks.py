"""Ranks of keys along an axis: of rows that are whole in a chunk, or by sorted distinct keys (see `plan.sets`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..chunk import complete
from ..chunk.checks import checked_chunk
from ..chunk.distinct import Columns
from ..chunk.groups import rank_groups
from ..chunk.tie_groups import Ranking, rank_rows
from ..drivers.one import of_whole
from ..functions.numbered import RankOf
from ..graph.explain import note
from ..graph.inputs import blockwise, flat_plan, flatten, lane_by_lane, rechunk_checked
from ..graph.runtime import Runtime
from ..order import Order
from ..plan.choose import LANES_BYTES, Lanes, choose, plan_lanes
from ..plan.groups import Found, plan_groups
from ..plan.memory import device_bytes, host_bytes, key_bytes
from ..plan.plan import Plan
from .distinct import plan_distinct, run_program, stable_keys
from .global_sort import device_order, joins_rows
from .groups import Labels, reduce_chunk, with_groups
from .request import Request
from .statistics import lanes_of, whole_lanes


@dataclass(frozen=True)
class RanksOfWhole:
    """Rank the keys of a whole array along an axis."""

    ranking: Ranking
    axis: int

    def __call__(self, array: Any) -> tuple[Any]:
        return (rank_rows(array, self.ranking, self.axis),)


def rank_block(block: Any, expected: np.dtype[Any], ranking: Ranking, axis: int, length: float) -> Any:
    """Task: the ranks along an axis of one chunk."""
    return complete(rank_rows(checked_chunk(block, expected, sizes={axis: length}), ranking, axis))


def build_rank(array: Any, ranking: Ranking, axis: int | None) -> Any:
    """Rank an array's keys along an axis, or flat if None, in the array's chunks."""
    note(flat_plan(array, axis))
    array, axis = flatten(array, axis)
    request, keys = stable_keys(array, ranking.descending)
    joins = joins_rows(request, keys, (), device_bytes(array.dtype.itemsize, "ranks"))
    plan = plan_ranks(lanes_of(array, (axis,)), array.ndim == 1, joins, device_order(request))
    note(plan)
    if plan.where == "blocks":
        return _rank_blocks(array, ranking, axis)
    if plan.where == "exchange":
        (ranks,) = lane_by_lane(partial(_rank_lane, request, ranking), [array], axis, array.ndim)
        return ranks if array.ndim == 1 else rechunk_checked(ranks, array.chunks)
    if plan.where == "join":
        return of_whole(array, RanksOfWhole(ranking, axis), [(True, ranking.dtype_of(array.dtype))], "rank")[0]
    return rechunk_checked(_rank_blocks(whole_lanes(array, (axis,)), ranking, axis), array.chunks)


def plan_ranks(lanes: Lanes, flat: bool, joins: bool, device_order: Order | None = None) -> Plan:
    """Plan ranks; `joins` if one GPU has memory for all chunks and what a sort of them needs."""
    where, why = choose(lanes, "distinct" if flat else "sort", joins=joins)
    width = lanes.itemsize
    a_key = key_bytes(device_order, device_bytes(width, "ranks"), host_bytes("ranks", width))
    most = max(LANES_BYTES, lanes.whole_bytes("blocks"))
    return plan_lanes(lanes, where, why, "rank", key_bytes=a_key, most=min(lanes.limit, most))


def build_grouped_rank(array: Any, ranking: Ranking, axis: int | None, labels: Labels) -> Any:
    """Rank an array's keys in their groups along an axis, or flat if None, in the array's chunks."""
    if axis is None:
        labels = replace(labels, array=flatten(labels.array, None)[0])
    array, axis = flatten(array, axis)
    stable_keys(array)
    found, workers = Found("ranks of groups", 0, "lanes"), Runtime.of(array).workers
    note(plan_groups(lanes_of(array, (axis,)), labels.group_sizes, found, workers)[0])
    dtype = np.dtype(np.float64) if labels.may_be_missing else ranking.dtype_of(array.dtype)
    whole, groups = with_groups(array, axis, labels)
    dims = tuple(range(array.ndim))
    ranks = blockwise(
        reduce_chunk,
        dims,
        whole,
        dims,
        groups,
        (),
        find=rank_groups,
        wanted=ranking,
        found=dtype,
        expected=array.dtype,
        axis=axis,
        length=array.shape[axis],
        dtype=dtype,
        token="rank-groups",
        meta=np.empty_like(array._meta, dtype=dtype),
    )
    return ranks if whole is array else rechunk_checked(ranks, array.chunks)


def _rank_blocks(array: Any, ranking: Ranking, axis: int) -> Any:
    dtype = ranking.dtype_of(array.dtype)
    meta = np.empty_like(array._meta, dtype=dtype)
    return array.map_blocks(rank_block, array.dtype, ranking, axis, array.shape[axis], dtype=dtype, meta=meta)


def _rank_lane(request: Request, ranking: Ranking, array: Any) -> tuple[Any]:
    """The ranks of a one-dimensional array of several chunks."""
    columns = Columns(counts=True, inverse=True, repeats=ranking.method == "ordinal")
    plan, dtype = plan_distinct(request, array, columns), ranking.dtype_of(array.dtype)
    return run_program(array, request, plan, {}, (RankOf(ranking, dtype), dtype, ranking.pct))
