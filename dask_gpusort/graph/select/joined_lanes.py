r"""Order statistics of lanes whose chunks share one memory: a lane is one task's work. Task ``select-join``.

::

    chunk 0   chunk 1   ...   chunk P-1      of some lanes
        \        |            /
              select-join                    long lanes: samples, brackets, keys inside them; nothing is copied
                   |                         short lanes: concatenated, then a row kernel
             output chunk

Steps from task to task, and from the host to the device for each chunk, would take longer than the reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...chunk import complete, ops_for
from ...table import selection
from ...table.quantiles import Statistic
from ..in_one_task import assemble, chunk_starts
from ..input_checks import checked_chunk
from ..tasks import Chunks
from .samples import enclose, lanes_of, result_of


@dataclass(frozen=True)
class JoinedLanes:
    """Find a statistic of lanes whose chunks are joined: a function that can be pickled."""

    statistic: Statistic
    axes: tuple[int, ...]  # the reduced dimensions
    dtype: np.dtype[Any]  # of the source
    keepdims: bool  # whether the reduced dimensions are kept, with size 1
    searches: bool  # whether lanes are searched one by one, by samples

    def __call__(self, chunks: list[Any], sizes: Chunks) -> tuple[Any]:
        """Task: find the statistic of each lane of some chunks, with the dimensions of `q`, then those that are kept.

        `chunks` are in C order, one along the kept dimensions; `sizes` are theirs in each dimension, nan where unknown.
        """
        for number, chunk in enumerate(chunks):
            checked_chunk(chunk, self.dtype, f"chunk {number} of the input", ndim=len(sizes))
        starts, ops = chunk_starts([chunk.shape for chunk in chunks], sizes), ops_for(chunks[0])
        if not self.searches:
            # Lanes along the first dimensions are columns, along other ones rows.
            fastest = len(sizes) - 1 if self.axes[0] == 0 else self.axes[-1]
            whole = assemble(chunks, starts, fastest)
            return (complete(ops.reduce_lanes(whole, self.statistic, self.axes, self.keepdims)),)
        lanes = zip(*(lanes_of(chunk, self.axes) for chunk in chunks), strict=True)
        found = result_of([search(parts, self.statistic) for parts in lanes], self.statistic)
        shape = [1 if dim in self.axes else int(ends[-1]) for dim, ends in enumerate(starts)]
        kept = [size for dim, size in enumerate(shape) if self.keepdims or dim not in self.axes]
        return (complete(ops.from_host(found.reshape((*self.statistic.shape, *kept)))),)


def search(parts: Sequence[Any], statistic: Statistic) -> selection.Search:
    """Find the keys at the ranks that a statistic wants of one lane, from parts in any order, shape (n,) each."""
    # All ranks are found, or none is left if NaN make them needless.
    ops, size = ops_for(parts[0]), sum(map(len, parts))
    skipped = sum(map(ops.count_nans, parts)) if statistic.skip_nan else 0
    # Of no keys, no rank is wanted.
    ranks = np.unique(statistic.ranks(np.array(size - skipped)))[: size - skipped]
    wanted = selection.begin(size - skipped, skipped, ranks, parts[0].dtype)
    stratum = selection.stratum_of(size, math.prod(statistic.shape))
    while stratum > 1:
        found = _search_brackets(parts, wanted, statistic.skip_nan, stratum)
        if found is not None:
            return found
        stratum //= 8  # a bracket missed its rank
    keys = ops.keys_at(parts, ranks)
    missing = 0 if statistic.skip_nan else sum(map(ops.count_nans, parts))
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
