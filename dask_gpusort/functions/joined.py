"""All chunks of one memory in one task, the join: sorts, and order statistics.

A join keeps equal keys in the order of their chunks, so the result has the same bits as every exchange.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tlz import partition

from ..chunk import complete, ops_for
from ..chunk.checks import Blocks, DeclaredChunk, checked_chunk, declared_chunks
from ..chunk.grid import assemble, chunk_starts
from ..chunk.steps import check_key_shapes
from ..table import Statistic, selection
from .selection import enclose, lanes_of, result_of
from .sort import Finish, LocalSort, check_presorted


@dataclass(frozen=True)
class JoinedSort:
    """Sort chunks that are joined: a function that can be pickled."""

    local: LocalSort
    finish: Finish
    axis: int
    #: For presorted chunks, the name of each user's array, and how many chunks it has; else empty.
    presorted: tuple[tuple[str, int], ...] = ()

    def __call__(self, chunks: list[Any], sizes: Sequence[Sequence[float]]) -> tuple[Any, ...]:
        """Task: concatenate all chunks and sort them, into whole arrays and the chunks' starts in each dimension."""
        ops = ops_for(chunks[0])
        columns = zip(partition(self.local.arrays, chunks), declared_chunks("the input", None, sizes), strict=True)
        blocks = [self._checked(block, declared) for block, declared in columns]
        starts = chunk_starts([block[0].shape for block in blocks], sizes)
        with ops.exclusive():
            if self.presorted:
                found = self._merge(blocks, starts[0])
            elif len(sizes) == 1:
                found = self._sort_array(list(zip(*blocks, strict=True)))
            else:
                found = self._sort_rows(list(zip(*blocks, strict=True)), starts)
        complete(found[0])
        return (*found, starts)

    def _checked(self, block: Sequence[Any], declared: DeclaredChunk) -> Sequence[Any]:
        """Refuse masked keys and companions, keys whose dtype is not that of their array, and sizes that differ.

        A block has the keys and the companions of one chunk, or several arrays of keys, given as they are packed.
        """
        packed, order = self.local.packed, self.local.order
        if packed:
            parts = zip(block, packed, strict=True)
            block = [replace(declared, dtype=dtype, exact=True).check(part) for part, dtype in parts]
            check_key_shapes(block)
            return block
        # The words of a key are one more dimension.
        words = (order.words,) if order.words else ()
        replace(declared, dtype=order.dtype.base, shape=(*declared.shape, *words)).check(block[0])
        for number, value in enumerate(block[1:]):
            checked_chunk(value, None, f"a chunk of values {number}")
        ops_for(block[0]).check_lengths(block[0], block[1:], len(declared.shape))
        return block

    def _merge(self, blocks: Sequence[Sequence[Any]], starts: np.ndarray) -> tuple[Any, ...]:
        names = [f"chunk {chunk} of {array}" for array, chunks in self.presorted for chunk in range(chunks)]
        pairs = zip(blocks, names, strict=True)
        runs = [check_presorted(*block, order=self.local.order, name=name) for block, name in pairs]
        pieces = [(int(start), run) for start, run in zip(starts, runs, strict=False) if len(run)] or [(0, runs[0])]
        # The finish may write to a piece; several are copied anyway.
        pieces = pieces if len(pieces) > 1 else [(start, run.copy()) for start, run in pieces]
        return self.finish(pieces, slice(0, int(starts[-1])))

    def _sort_array(self, columns: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        ops, order = ops_for(columns[0][0]), self.local.order
        keys, *values = columns
        if self.local.packed:
            keys, values = [ops.pack(list(map(ops.concatenate, columns)), self.local.directions)], []
        if self.local.positions:
            return (ops.argsort_chunks(keys, order),)
        if not values:
            return (ops.sort_chunks(keys, order),)
        found: tuple[Any, ...] = ops.sort_chunks_by_key(keys, values, order, with_keys=self.finish.with_keys)
        return found

    def _sort_rows(self, columns: Sequence[Sequence[Any]], starts: Sequence[np.ndarray]) -> tuple[Any, ...]:
        ops, order, axis = ops_for(columns[0][0]), self.local.order, self.axis
        keys, *values = (assemble(column, starts, axis) for column in columns)
        if self.local.packed:
            keys, values = ops.pack([keys, *values], self.local.directions), []
        if self.finish.with_keys and not values:
            return (ops.sort_rows(keys, order, axis, overwrite=len(columns[0]) > 1),)
        positions = ops.argsort_rows(keys, order, axis)
        if self.local.positions:
            return (positions,)
        arrays = (keys, *values) if self.finish.with_keys else values
        return tuple(ops.take_rows(array, positions, axis) for array in arrays)


@dataclass(frozen=True)
class JoinedLanes:
    """Find a statistic of lanes whose chunks are joined: a function that can be pickled."""

    statistic: Statistic
    axes: tuple[int, ...]  # the reduced dimensions
    dtype: np.dtype[Any]  # of the source
    keepdims: bool  # whether the reduced dimensions are kept, with size 1
    searches: bool  # whether lanes are searched one by one
    sorts: int  # whether they are sorted then, in place of a search by samples

    def __call__(self, chunks: list[Any], sizes: Sequence[Sequence[float]]) -> tuple[Any]:
        """Task: find the statistic of each lane of some chunks, with the dimensions of `q`, then those that are kept.

        `chunks` are in C order, one along the kept dimensions; `sizes` are theirs in each dimension, nan where unknown.
        """
        chunks = Blocks(chunks, declared_chunks("the input", self.dtype, sizes)).checked()
        starts, ops = chunk_starts([chunk.shape for chunk in chunks], sizes), ops_for(chunks[0])
        shape = [1 if dim in self.axes else int(ends[-1]) for dim, ends in enumerate(starts)]
        kept = [size for dim, size in enumerate(shape) if self.keepdims or dim not in self.axes]
        if not self.searches or 0 in kept:
            # Lanes along the first dimensions are columns, along other ones rows.
            fastest = len(sizes) - 1 if self.axes[0] == 0 else self.axes[-1]
            whole = assemble(chunks, starts, fastest)
            return (complete(ops.reduce_lanes(whole, self.statistic, self.axes, self.keepdims)),)
        lanes = zip(*(lanes_of(chunk, self.axes) for chunk in chunks), strict=True)
        found = result_of([search(parts, self.statistic, self.sorts) for parts in lanes], self.statistic)
        found = found.astype(self.statistic.dtype_of(self.dtype), copy=False)  # from the native byte order
        return (complete(ops.moved_here(found.reshape((*self.statistic.shape, *kept)))),)


def search(parts: Sequence[Any], statistic: Statistic, sorts: int = 0) -> selection.Search:
    """Find the keys at the ranks that a statistic wants of one lane, from parts in any order, shape (n,) each."""
    # All ranks are found, or none is left if NaN make them needless.
    ops, size = ops_for(parts[0]), sum(map(len, parts))
    skipped = ops.count_nans(*parts) if statistic.skip_nan else 0
    # Of no keys, no rank is wanted.
    ranks = np.unique(statistic.ranks(np.array(size - skipped)))[: size - skipped]
    wanted = selection.begin(size - skipped, skipped, ranks, parts[0].dtype)
    stratum = 1 if sorts else selection.stratum_of(size, math.prod(statistic.shape))
    while stratum > 1:
        found = _search_brackets(parts, wanted, statistic.skip_nan, stratum)
        if found is not None:
            return found
        stratum //= 8  # a bracket missed its rank
    last = np.array([size - 1][:size], np.int64)  # which is NaN if any key is
    keys, end = np.split(ops.keys_at(parts, np.append(ranks, last)), [len(ranks)])
    missing = not statistic.skip_nan and bool((end != end).any())
    return replace(wanted, found=keys, nans=skipped + missing)


def _search_brackets(
    parts: Sequence[Any], wanted: selection.Search, skip_nan: bool, stratum: int
) -> selection.Search | None:
    """The same by brackets from one sample of each stratum; None if a bracket misses its rank."""
    ops = ops_for(parts[0])
    sample = ops.draw(parts, stratum)
    ends = selection.sampled_ranks(wanted, len(sample), stratum, selection.REPAIRED_MISSES)
    # The keys behind the last whole stratum are not drawn: they move a rank by one sample at most.
    searched = enclose(wanted, [sample], ends + np.array([[-1], [1]]))
    counts, inside, nans = ops.extract_all(parts, searched.low, searched.high)
    if nans and not skip_nan:
        return selection.begin(wanted.size, nans, wanted.ranks[:0], wanted.found.dtype)
    try:
        resolved = selection.resolve(searched, counts)
    except LookupError:
        return None
    return replace(resolved, found=selection.finish(resolved, ops.keys_at([inside], resolved.left)))
