"""Order statistics, ranks, sets and searches of CuPy chunks, beside CuPy and Dask: sections of `gpu.dask_arrays`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import dask_gpusort

from ..harness.records import Row, slug
from .library import SLOW_REPEATS, Library, in_chunks, on_host, resident, several

QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]
ROWS = 64


def statistic_rows(library: Library, n: int) -> Iterator[Row]:
    """Quantiles of all keys, and medians along an axis; the results are compared with NumPy's."""
    module, keys = library.module, library.keys("float64", n // 2)
    row = partial(compared_row, library, "statistics")

    def quantiles(x: Any) -> Any:
        return dask_gpusort.quantile(x, QUANTILES)

    theirs = partial(module.percentile, keys, 100 * module.asarray(QUANTILES))
    wanted = (module.asarray(np.quantile(on_host(keys), QUANTILES)),)
    for count in (1, 16):
        work = f"five quantiles of float64, {count} chunk{'s' * (count > 1)}"
        yield row(slug("quantiles", count), work, quantiles, in_chunks(count, keys), theirs, wanted)
    del keys, theirs
    log = n.bit_length() - 1
    for axis, shape in ((1, (1 << max(log - 16, 1), 1 << min(16, log))), (0, (365, 1 << max(log - 9, 1)))):
        rows = library.keys("float32", *shape)
        work = f"median of float32 {shape[0]} x {shape[1]} along axis {axis}, 1 chunk"
        ours, theirs = (partial(one.median, axis=axis) for one in (dask_gpusort, module))
        wanted = (module.asarray(np.median(on_host(rows), axis)),)
        yield row(slug("median", axis), work, ours, (resident(rows, -1),), partial(theirs, rows), wanted)


def compared_row(
    library: Library,
    section: str,
    name: str,
    work: str,
    ours: Callable[..., Any],
    chunks: tuple[Any, ...],
    theirs: Callable[[], Any],
    wanted: tuple[Any, ...],
) -> Row:
    """A row for a function of arrays in chunks, beside CuPy's; the results have the bits of the wanted arrays."""
    baselines = {"CuPy": library.seconds(theirs, SLOW_REPEATS, 1)}
    return library.row(section, name, work, partial(ours, *chunks), chunks, baselines, wanted)


def order_rows(library: Library, n: int) -> Iterator[Row]:
    """What a sorted order gives, beside CuPy's functions; the results are compared with CuPy's."""
    module, n = library.module, n // 2
    row = partial(compared_row, library, "order")
    keys = library.keys("int64", n)
    ordered = module.sort(keys)
    needles = library.keys("int64", n, seed=3)
    positions = module.argsort(needles)
    both = {"return_inverse": True, "return_counts": True}

    def argsort_twice(a: Any) -> Any:
        return module.argsort(module.argsort(a)) + 1.0

    calls: dict[str, tuple[tuple[Any, ...], Callable[..., Any], Callable[..., Any]]] = {
        "unique": ((keys,), dask_gpusort.unique, module.unique),
        "unique, counts, inverse": ((keys,), partial(dask_gpusort.unique, **both), partial(module.unique, **both)),
        "rank": ((keys,), dask_gpusort.rank, argsort_twice),
        "take": ((keys, positions), dask_gpusort.take, module.take),
        "searchsorted": ((ordered, needles), dask_gpusort.searchsorted, module.searchsorted),
    }
    for name, (arrays, ours, theirs) in calls.items():
        wanted = tuple(array.ravel() for array in several(theirs(*arrays)))
        for count in (1, 4):
            work = f"{name} of int64, {count} chunk{'s' * (count > 1)}"
            yield row(slug(name, count), work, ours, in_chunks(count, *arrays), partial(theirs, *arrays), wanted)
    # Keys of a row differ, as ranks by two calls of `argsort` know no ties.
    rows = module.argsort(library.keys("float32", ROWS, n // (2 * ROWS))).astype(np.float32)
    ranks, theirs = partial(dask_gpusort.rank, axis=-1), partial(argsort_twice, rows)
    for count in (1, 4):
        work = f"rank of {ROWS} rows of {rows.shape[1]} float32, {count} chunk{'s' * (count > 1)} along them"
        chunks = (resident(rows, (ROWS, rows.shape[1] // count)),)
        yield row(slug("rank-rows", count), work, ranks, chunks, theirs, (theirs(),))
