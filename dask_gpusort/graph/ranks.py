"""Ranks of keys along an axis.

The strategies::

    "blocks"     lanes are in one chunk each     rank the rows of each chunk
    "join"       they are on one GPU             concatenate all chunks, rank the rows
    "rechunk"    they are in several             rechunk in bounded memory, rank, rechunk back
    "global"     one lane, or too long a lane    tie groups of the sorted distinct keys, and back (see `sets`)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from ..chunk import complete
from ..chunk.distinct import Columns
from ..chunk.tie_groups import ranks_of_groups
from ..chunk.tie_ranks import Ranking, rank_rows
from .input_checks import checked_chunk
from .inputs import flatten
from .options import Options
from .rechunk import chunk_limit, rechunk_checked
from .rows import check_length
from .select.lanes import whole_lanes
from .sets.build import in_one_chunk, sorted_distinct
from .sets.number import Numbered
from .sets.spread import spread_back


@dataclass(frozen=True)
class RankOf:
    """Makes the rank of each sorted distinct key; of "ordinal" ranks that of the first of its keys.

    Attributes
    ----------
    ranking : Ranking
    """

    ranking: Ranking

    def __call__(self, numbered: Numbered) -> Any:
        ranking, groups = self.ranking, numbered.groups
        ranking.refuse_nan(numbered.scan.nans)
        if ranking.method == "ordinal":
            ranks = numbered.passed + 1
        else:
            of_groups = numbered.numbers, numbered.before, numbered.counts[0]
            ranks = ranks_of_groups(ranking.method, *of_groups)[groups.numbers]
        ranks = ranks.astype(ranking.dtype_of(groups.keys.dtype), copy=False)
        if numbered.scan.nans and ranking.nan_policy == "propagate":
            ranks[:] = np.nan
        elif numbered.scan.nans:
            ranks[numbered.nans] = np.nan
        return ranks


def count_ranked(numbered: Numbered) -> Any:
    """The number of keys that are not NaN, at least 1: shape (1,)."""
    scan = numbered.scan
    return np.full_like(numbered.groups.bounds, max(scan.keys - scan.nans, 1), shape=(1,))


def rank_block(block: Any, expected: np.dtype[Any], ranking: Ranking, axis: int, length: float) -> Any:
    """Task: the ranks along an axis of one chunk."""
    checked_chunk(block, expected)
    check_length(block, axis, length)
    return complete(rank_rows(block, ranking, axis))


def build_rank(array: Any, ranking: Ranking, axis: int | None) -> Any:
    """The ranks of an array's keys along an axis, in the array's chunks; None flattens the array.

    Raises
    ------
    ValueError
        If lanes of several chunks have unknown sizes, and there are other dimensions.
    TypeError
        If CuPy chunks of its dtype cannot be sorted.
    """
    array, axis = flatten(array, axis)
    options = Options()
    options.request("positions", options.keys(array, "positions"))
    if array.numblocks[axis] == 1:
        return _rank_blocks(array, ranking, axis)
    whole = in_one_chunk(array)
    if whole is not array:
        return rechunk_checked(_rank_blocks(whole, ranking, axis), array.chunks)
    if array.ndim == 1:
        return _rank_lane(array, ranking)
    if array.shape[axis] * max(array.dtype.itemsize, 1) <= chunk_limit(array) or any(map(math.isnan, array.shape)):
        return rechunk_checked(_rank_blocks(whole_lanes(array, (axis,)), ranking, axis), array.chunks)
    return rechunk_checked(_lane_by_lane(array, ranking, axis), array.chunks)


def _rank_blocks(array: Any, ranking: Ranking, axis: int) -> Any:
    dtype = ranking.dtype_of(array.dtype)
    meta = np.empty_like(array._meta, dtype=dtype)
    return array.map_blocks(rank_block, array.dtype, ranking, axis, array.shape[axis], dtype=dtype, meta=meta)


def _lane_by_lane(array: Any, ranking: Ranking, axis: int) -> Any:
    if array.ndim == 1:
        return _rank_lane(array, ranking)
    other = int(axis == 0)
    lanes = (array[(slice(None),) * other + (index,)] for index in range(array.shape[other]))
    ranked = [_lane_by_lane(lane, ranking, axis - (other < axis)) for lane in lanes]
    return da.stack(ranked, axis=other)


def _rank_lane(array: Any, ranking: Ranking) -> Any:
    """The ranks of a one-dimensional array of several chunks."""
    columns = Columns(origins=True, counts=True, inverse=True, repeats=ranking.method == "ordinal")
    found = sorted_distinct(array, columns, equal_nan=True)
    dtype = ranking.dtype_of(array.dtype)
    ranks, ranked = found.number((RankOf(ranking), count_ranked), (dtype, np.dtype(np.int64)), counted=True)
    result = spread_back(ranks, found.columns["chunks"], list(found.of_keys.values()))
    if not ranking.pct:
        return result
    return da.map_blocks(np.true_divide, result, ranked, dtype=dtype, meta=result._meta, chunks=result.chunks)
