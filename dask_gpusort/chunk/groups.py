"""Groups of the elements along an axis, and what is found of them, for NumPy and CuPy chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..table import Statistic
from . import library_of, numpy_radix, ops_for
from .labels import are_missing, on_host
from .memory import GATHERED_BYTES, GATHERED_WIDTH
from .reducers import Reducer, fill_of, missing_of, reduce_lanes
from .tie_groups import Ranking, rank_rows


@dataclass(frozen=True)
class Groups:
    """Hold the positions along an axis that belong to each group."""

    #: Those of group g are from ``starts[g]`` to ``starts[g + 1]``. None: the groups follow each other along the axis.
    positions: np.ndarray | None
    starts: np.ndarray
    length: int  # of the axis
    #: The group of the label at each position; None if a position is in that group alone.
    own: np.ndarray | None = None

    @classmethod
    def of_codes(cls, codes: np.ndarray, count: int, window: int = 1) -> Groups:
        """Give the groups of codes; each element is a member of those of `window` neighbours by position, too."""
        known = np.flatnonzero(codes >= 0) if codes.min(initial=0) < 0 else None
        own = np.ascontiguousarray(codes if known is None else codes[known])
        centres = numpy_radix.argsort(own.view(f"u{own.itemsize}"))
        if known is not None:
            centres = known[centres]
        if window == 1:
            return cls(centres, _starts(np.bincount(own, minlength=count)), len(codes))
        reach = min(window // 2, len(codes))
        members = centres[:, None] + np.arange(-reach, reach + 1)
        inside = (members >= 0) & (members < len(codes))
        sizes = np.bincount(codes[centres], inside.sum(axis=1), minlength=count)
        return cls(members[inside], _starts(sizes), len(codes), codes)

    @classmethod
    def of_sizes(cls, sizes: np.ndarray) -> Groups:
        """Give groups that follow each other along an axis, from their sizes."""
        starts = _starts(sizes)
        return cls(None, starts, int(starts[-1]))

    def alike(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Numbers of the groups of one size, and their positions, shape (groups, size), for each size."""
        sizes = np.diff(self.starts)
        for size in np.unique(sizes):
            numbers = np.flatnonzero(sizes == size)
            starts = self.starts[numbers]
            if self.positions is None or not size:
                yield numbers, starts[:, None] + np.arange(size)
            else:
                yield numbers, sliding_window_view(self.positions, size)[starts]


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def reduce_groups(block: Any, statistic: Statistic | Reducer, axis: int, groups: Groups, dtype: np.dtype[Any]) -> Any:
    """Find the statistic of each group of each lane of a chunk; the groups take the place of the axis."""
    count, ops, last = len(groups.starts) - 1, ops_for(block), axis == block.ndim - 1
    found = np.empty_like(block, shape=(*statistic.shape, *_replaced(block.shape, axis, count)), dtype=dtype)
    leading = (slice(None),) * len(statistic.shape)
    for numbers, lanes, members, rows in _gathered(block, axis, groups) if found.size else ():
        target = (*leading, *lanes[:axis], ops.moved_here(numbers), *lanes[axis + 1 :])
        if members.size == 0:
            found[target] = fill_of(statistic, dtype)
            continue
        part = reduce_lanes(rows, statistic, (axis + last,), dtype=dtype)
        if isinstance(statistic, Reducer) and statistic.positions:
            own = np.arange(len(numbers), like=part).reshape(-1, *(1,) * (block.ndim - 1 - axis))
            members = ops.moved_here(members.T if last else members)
            part = np.where(part < 0, part, members[part, own])
        found[target] = part
    return found


def rank_groups(block: Any, ranking: Ranking, axis: int, groups: Groups, dtype: np.dtype[Any]) -> Any:
    """Rank the keys of each lane of a chunk in their groups; those of none get NaN."""
    found, last = np.full_like(block, np.nan if dtype.kind == "f" else 0, dtype=dtype), axis == block.ndim - 1
    for numbers, lanes, members, rows in _gathered(block, axis, groups):
        if members.size:
            ranks = rank_rows(rows, ranking, axis + last)
            if groups.own is not None:  # neighbours are ranked in groups of their own
                kept = np.nonzero(groups.own[members] == (numbers[:, None] if last else numbers))
                ranks = ranks[(*[slice(None)] * axis, *map(ops_for(block).moved_here, kept))]
                members = members[kept]
            found[(*lanes[:axis], ops_for(block).moved_here(members), *lanes[axis + 1 :])] = ranks
    return found


def _gathered(block: Any, axis: int, groups: Groups) -> Iterator[tuple[np.ndarray, tuple[slice, ...], np.ndarray, Any]]:
    """For some groups of one size, and some lanes: their numbers, the lanes, the members, and their keys.

    Members have the shape (size, groups), or (groups, size) for a last axis; so have their keys in the place of it.
    """
    ops, most = ops_for(block), GATHERED_BYTES[library_of(block)]
    row = max(block.size // max(block.shape[axis], 1) * max(block.dtype.itemsize, GATHERED_WIDTH), 1)
    for numbers, positions in groups.alike():
        size = positions.shape[1]
        step = max(most // (row * max(size, 1)), 1)
        for start, lanes in product(range(0, len(numbers), step), _divided(block.shape, axis, row * size / most)):
            # Members become neighbours along a last axis; along others lanes are columns, as GPUs read them.
            part, members = block[lanes], positions[start : start + step]
            members = members if axis == block.ndim - 1 else members.T
            rows = ops.take(part, members.reshape(-1), axis) if size else part
            shape = _replaced(part.shape, axis, *members.shape) if size else part.shape
            yield numbers[start : start + step], lanes, members, rows.reshape(shape)


def _divided(shape: Sequence[int], axis: int, parts: float) -> list[tuple[slice, ...]]:
    """Slices that divide an array into about so many parts, along its longest dimension but an axis."""
    sizes = [1 if dim == axis else size for dim, size in enumerate(shape)]
    longest = int(np.argmax(sizes))
    step = math.ceil(sizes[longest] / max(parts, 1)) or 1
    whole = (slice(None),) * len(shape)
    if longest == axis or step >= sizes[longest]:
        return [whole]
    starts = range(0, sizes[longest], step)
    return [(*whole[:longest], slice(start, start + step), *whole[longest + 1 :]) for start in starts]


def _replaced(shape: Sequence[int], axis: int, *sizes: int) -> tuple[int, ...]:
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


class Edge(NamedTuple):
    """What a chunk sorted by labels and keys has of its first and its last label: one row if these are the same."""

    labels: np.ndarray
    sizes: np.ndarray
    nans: np.ndarray


class Edges(NamedTuple):
    """The edges of all chunks, of which a row is that of the chunk with its number."""

    chunks: np.ndarray
    labels: np.ndarray
    sizes: np.ndarray
    nans: np.ndarray


class Picked(NamedTuple):
    """What a chunk sorted by labels and keys knows of each of its groups."""

    labels: Any
    keys: Any  # shape (2, quantiles, groups), at the ranks of the statistic
    found: Any  # of the same shape: whether the key is in this chunk
    counts: Any  # keys that take part, of the whole group
    nans: Any  # of the whole group
    begins: bool  # whether the first group begins here


class Segments(NamedTuple):
    """The groups of a chunk that is sorted by labels and keys."""

    labels: Any
    starts: Any
    sizes: Any
    nans: Any

    @classmethod
    def of(cls, labels: Any, keys: Any, count: int | None) -> Segments:
        """Find the groups of a chunk, but for missing labels and, of `count` groups, larger codes: these are last."""
        labels = labels[~are_missing(labels) if count is None else labels < count]
        differ = np.ones_like(labels, dtype=bool)
        differ[1:] = labels[1:] != labels[:-1]
        starts = np.flatnonzero(differ)
        sizes = np.diff(np.concatenate([starts, np.full_like(starts, len(labels), shape=1)]))
        nans = np.zeros_like(starts)
        if keys.dtype.kind in "fcmM" and (found := np.flatnonzero(keys[: len(labels)] != keys[: len(labels)])).size:
            nans = np.bincount(np.searchsorted(starts, found, "right") - 1, minlength=len(starts))
        return cls(labels[starts], starts, sizes, nans)


def edge_of(labels: Any, keys: Any, count: int | None) -> Edge:
    """The first and the last group of a chunk, on the host."""
    found = Segments.of(labels, keys, count)
    ends = [0, -1][: len(found.labels)]
    return Edge(*(on_host(column[ends]) for column in (found.labels, found.sizes, found.nans)))


def pick_groups(labels: Any, keys: Any, edges: Edges, number: int, statistic: Statistic, count: int | None) -> Picked:
    """The keys of a chunk at the ranks of each of its groups, which may have more keys in other chunks."""
    own, ops = Segments.of(labels, keys, count), ops_for(keys)
    sizes, nans, before = own.sizes.copy(), own.nans.copy(), np.zeros_like(own.sizes)
    for at, label in zip([0, -1], edges.labels[edges.chunks == number], strict=False):
        same = edges.labels == label
        sizes[at], nans[at] = edges.sizes[same].sum(), edges.nans[same].sum()
        before[at] = edges.sizes[same & (edges.chunks < number)].sum()
    counts = sizes - nans * statistic.skip_nan
    ranks = statistic.ranks(counts) - before
    found = (ranks >= 0) & (ranks < own.sizes)
    at_ranks = ops.take(keys, own.starts + np.where(found, ranks, 0), 0) if len(labels) else found.astype(keys.dtype)
    return Picked(own.labels, at_ranks, found, counts, nans, not len(before) or not int(before[0]))


def head_of(picked: Picked) -> Picked:
    """What a chunk knows of its first group."""
    labels, keys, found, counts, nans, begins = picked
    return Picked(labels[:1], keys[..., :1], found[..., :1], counts[:1], nans[:1], begins)


def join_picked(own: Picked, heads: Sequence[Picked], statistic: Statistic, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Labels and statistics, shape (*statistic.shape, groups), of the groups that begin in a chunk.

    The last of them may go on in the chunks behind, of which the heads are given.
    """
    begun = slice(int(not own.begins), None)
    labels, keys, counts, nans = (column[..., begun] for column in (own.labels, own.keys, own.counts, own.nans))
    if len(labels):
        keys = keys.copy()
        for head in (head for head in heads if len(head.labels)):
            if head.begins or not bool(head.labels[0] == labels[-1]):
                break
            keys[..., -1:] = np.where(head.found, head.keys, keys[..., -1:])
    result = statistic.result(keys, counts, nans) if len(labels) else keys[0]
    return labels, result.astype(dtype, copy=False).reshape((*statistic.shape, len(labels)))


def gather_groups(parts: Sequence[tuple[Any, Any]], count: int, dtype: np.dtype[Any]) -> Any:
    """The statistics of all groups, shape (*statistic.shape, count), from those of some codes."""
    first = parts[0][1]
    found = np.full_like(first, missing_of(dtype) if dtype.kind in "fcmM" else 0, shape=(*first.shape[:-1], count))
    for codes, values in parts:
        found[..., codes] = values
    return found
