"""Section "balance": sizes of the output chunks, whatever the keys look like."""

from __future__ import annotations

from collections.abc import Iterator

import dask_gpusort

from ..suites.data import dask_keys
from .contents import check_sorted, parts_of
from .measure import Effort
from .report import Row
from .threads import dataframe_parts

CHUNKS = 64


def spread(sizes: list[int]) -> float:
    """Largest chunk over the mean one."""
    return max(sizes) * len(sizes) / sum(sizes)


def rows(effort: Effort) -> Iterator[Row]:
    """Measure the section: sizes, so once is enough."""
    n = effort.size(6_400_000, 64_000)
    for distribution in ("uniform", "zipf", "mostly equal", "equal"):
        x = dask_keys(distribution, n, CHUNKS).persist(scheduler="threads")
        ours, theirs = (
            spread(check_sorted(parts.compute(scheduler="threads"), distribution, n, CHUNKS))
            for parts in (parts_of(dask_gpusort.sort(x)), dataframe_parts(x))
        )
        yield Row(
            "balance",
            f"largest / mean output chunk, {distribution} keys in {CHUNKS} chunks",
            "1",
            ours,
            "x",
            theirs / ours,
            f"`dask.dataframe` sort_values, {theirs:.3g} x",
            ours == 1.0,
            {"ours": [ours], "dask.dataframe": [theirs]},
        )
