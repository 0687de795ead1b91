"""Order statistics, ranks, sets and searches of CuPy chunks, beside CuPy and Dask: sections of `gpu.dask_arrays`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dask
import numpy as np

import dask_gpusort

from ..harness.records import Row
from .library import SLOW_REPEATS, Library, bits_equal, held, in_chunks, no_op, on_host, resident, several

QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]
#: Least ratio to `cupy.percentile` by number of chunks.
LEAST_QUANTILES = {1: 6, 16: 3}


def statistic_rows(library: Library, n: int) -> Iterator[Row]:
    """Quantiles of all keys, and medians along an axis; the results are compared with NumPy's."""
    keys = library.keys("float64", n // 2)

    def quantiles(x: Any) -> Any:
        return dask_gpusort.quantile(x, QUANTILES)

    theirs = partial(library.module.percentile, keys, 100 * library.module.asarray(QUANTILES))
    wanted = np.quantile(on_host(keys), QUANTILES)
    for count, least in LEAST_QUANTILES.items():
        work = f"five quantiles of float64, {count} chunk{'s' * (count > 1)}"
        yield statistic_row(library, work, quantiles, in_chunks(count, keys), theirs, wanted).aiming(least)
    del keys, theirs
    log = n.bit_length() - 1
    for shape, axis, least in (
        ((1 << max(log - 16, 1), 1 << min(16, log)), 1, 40),
        ((365, 1 << max(log - 9, 1)), 0, 20),
    ):
        rows = library.keys("float32", *shape)
        work = f"median of float32 {shape[0]} x {shape[1]} along axis {axis}, 1 chunk"
        ours, theirs = (partial(module.median, axis=axis) for module in (dask_gpusort, library.module))
        wanted = np.median(on_host(rows), axis)
        yield statistic_row(library, work, ours, (resident(rows, -1),), partial(theirs, rows), wanted).aiming(least)


def statistic_row(
    library: Library, work: str, ours: Callable[..., Any], chunks: tuple[Any, ...], theirs: Any, wanted: np.ndarray
) -> Row:
    return compared_row(library, "statistics", work, ours, chunks, theirs, (library.module.asarray(wanted),))


def compared_row(
    library: Library,
    section: str,
    work: str,
    ours: Callable[..., Any],
    chunks: tuple[Any, ...],
    theirs: Callable[[], Any],
    wanted: tuple[Any, ...],
) -> Row:
    """A row for a function of arrays in chunks, beside CuPy's; the results have the bits of the wanted arrays."""
    taken = library.milliseconds(lambda: held(ours(*chunks)))
    idle = statistics.median(library.milliseconds(lambda: no_op(chunks)))
    baselines = {"CuPy": statistics.median(library.milliseconds(theirs, SLOW_REPEATS, 1)), "no-op": idle}
    found = dask.compute(*several(ours(*chunks)), scheduler="threads")
    right = all(bits_equal(one, array) for one, array in zip(found, wanted, strict=True))
    size, samples = chunks[0].size, {"ours": taken}
    library.pool.free_all_blocks()
    return Row(work, statistics.median(taken), "ms", section, size, baselines, verified=right, samples=samples)


#: Least ratio to CuPy's function of one array.
LEAST_OF_ORDER = {"unique": 3, "unique, counts, inverse": 3, "rank": 3, "take": 0.95, "searchsorted": 4}
ROWS = 64


def order_rows(library: Library, n: int) -> Iterator[Row]:
    """What a sorted order gives, beside CuPy's functions; the results are compared with CuPy's."""
    module, n = library.module, n // 2
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
            row = compared_row(
                library, "order", work, ours, in_chunks(count, *arrays), partial(theirs, *arrays), wanted
            )
            yield row.aiming(LEAST_OF_ORDER[name])
    # Keys of a row differ, as ranks by two calls of `argsort` know no ties.
    rows = module.argsort(library.keys("float32", ROWS, n // (2 * ROWS))).astype(np.float32)
    ranks = partial(dask_gpusort.rank, axis=-1)
    for count in (1, 4):
        work = f"rank of {ROWS} rows of {rows.shape[1]} float32, {count} chunk{'s' * (count > 1)} along them"
        chunks = (resident(rows, (ROWS, rows.shape[1] // count)),)
        theirs = partial(argsort_twice, rows)
        yield compared_row(library, "order", work, ranks, chunks, theirs, (theirs(),)).aiming(LEAST_OF_ORDER["rank"])
