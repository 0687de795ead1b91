"""Measures the public functions on Dask arrays of CuPy chunks, on one GPU.

    python -m benchmarks.gpu.dask_arrays [chunks pairs lexsort large rows small host statistics order]
                                         [--keys-log2 28] [--output DIRECTORY] [--commit COMMIT]

Writes results/gpu_dask_arrays.json. A time is the wall time from the call, so with the construction of the graph, to
the end of a synchronization of the device after ``persist(scheduler="threads")``: the median of 7 runs after two
warm-ups. The chunks are in device memory, each an allocation of its own. Baselines by the
same clock, in the same run:

    CuPy      CuPy's function of the keys in one array, such as `cupy.sort`, the median of 3 runs after one warm-up
    kernel    our kernel on the keys in one array, where one takes what the public function takes
    no-op     Dask on the same chunks, with tasks that return their chunk

Each result equals that of CuPy, or of NumPy, bit for bit, which is verified.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import cupy as cp
import dask
import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks, slices_from_chunks
from tlz import identity

import dask_gpusort
from dask_gpusort import kernels

from ..harness.command import arguments, measure, titled
from ..harness.records import Row, slug, timed_row

REPEATS, WARM_UPS, SLOW_REPEATS = 7, 2, 3
CHUNKS, FEW = 16, 10_000
#: Numbers of chunks of the keys of each dtype.
COUNTS = {"uint32": (1, 4, 16, 64, 256), "int64": (1, 4, 16, 64, 256), "float64": (1, 4, 16, 64)}
QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]
ROWS = 64
_NAMES = (f"resident-{number}" for number in itertools.count())


def random_keys(dtype: str, *shape: int, seed: int = 1) -> Any:
    """Random bits, or normal floats."""
    rng, n, kind = cp.random.default_rng(seed), math.prod(shape), np.dtype(dtype)
    if kind.kind == "c":
        return rng.standard_normal(n) + 1j * rng.standard_normal(n)
    if kind.kind == "f":
        return rng.standard_normal(n, dtype=kind).reshape(shape)
    return rng.integers(0, 1 << 32, n * kind.itemsize // 4, dtype=np.uint32).view(kind).reshape(shape)


def resident(array: Any, chunks: Any) -> da.Array:
    """A Dask array of chunks in memory, which are copies of the parts of an array."""
    grid, name = normalize_chunks(chunks, array.shape), next(_NAMES)
    keys = itertools.product([name], *(range(len(sizes)) for sizes in grid))
    parts = (array[part].copy() for part in slices_from_chunks(grid))
    return da.Array(dict(zip(keys, parts, strict=True)), name, grid, meta=array[(slice(0),) * array.ndim])


def several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def held(found: Any) -> tuple[Any, ...]:
    return dask.persist(*several(found), scheduler="threads")


def seconds_of(run: Callable[[], Any], repeats: int = REPEATS, warm_ups: int = WARM_UPS) -> list[float]:
    samples = []
    for _ in range(warm_ups + repeats):
        start = time.perf_counter()
        found = run()
        cp.cuda.Device().synchronize()
        samples.append(time.perf_counter() - start)
        del found
    return samples[warm_ups:]


def bits_equal(found: Any, wanted: Any) -> bool:
    """Whether two arrays have the same bits."""
    word, same_form = f"u{min(8, wanted.itemsize)}", (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    return same_form and bool((found.view(word) == wanted.view(word)).all())


def row_of(name: str, work: str, ours: Any, chunks: list[da.Array], others: Any, wanted: Any) -> Row:
    """A row for what is made of chunks; its result has the bits of the wanted arrays. Dask's no-op comes last."""
    results = dask.compute(*several(ours()), scheduler="threads")
    right = all(bits_equal(one, array) for one, array in zip(results, several(wanted), strict=True))
    del results
    samples = {"ours": seconds_of(lambda: held(ours())), **others}
    samples["no-op"] = seconds_of(
        lambda: held(tuple(x.map_blocks(identity, dtype=x.dtype, meta=x._meta) for x in chunks))
    )
    cp.get_default_memory_pool().free_all_blocks()
    return timed_row(name, work, samples, keys=chunks[0].size, verified=right)


def compared(
    arrays: tuple[Any, ...], ours: Any, cupy: Any, *cases: tuple[str, str, Any], kernel: Any = None, wanted: Any = None
) -> Iterator[Row]:
    """Rows of a public function beside CuPy's and our kernel, which take whole arrays.

    A case is a name, a title, and the chunks, or how many. Results have the bits of CuPy's, or those that are wanted.
    """
    wanted = cupy(*arrays) if wanted is None else wanted
    others = {"CuPy": seconds_of(partial(cupy, *arrays), SLOW_REPEATS, 1)}
    if kernel is not None:
        others["kernel"] = seconds_of(partial(kernel, *arrays))
    for name, work, form in cases:
        chunks = [resident(array, -(-len(array) // form) if isinstance(form, int) else form) for array in arrays]
        yield row_of(name, work, partial(ours, *chunks), chunks, others, wanted)


def sorts(keys: Any, *cases: tuple[str, str, Any]) -> Iterator[Row]:
    return compared((keys,), dask_gpusort.sort, cp.sort, *cases, kernel=kernels.sort_keys)


def plural(chunks: int) -> str:
    return f"{chunks} chunk{'s' * (chunks > 1)}"


def chunk_rows(n: int) -> Iterator[Row]:
    for dtype, counts in COUNTS.items():
        cases = [(slug("sort", dtype, count), f"sort {dtype}, {plural(count)}", count) for count in counts]
        for row, count in zip(sorts(random_keys(dtype, n), *cases), counts, strict=True):
            row.details = {"figure": f"chunks {dtype}", "x": count}
            yield row


def pair_rows(n: int) -> Iterator[Row]:
    """Sorts with positions or companions and by comparison."""

    def by_key(keys: Any, values: Any) -> Any:
        order = cp.argsort(keys)
        return keys[order], values[order]

    both = "uint32", "int64"
    for dtype in both:
        case = slug("argsort", dtype), f"argsort {dtype}", CHUNKS
        keys = random_keys(dtype, n)
        yield from compared((keys,), dask_gpusort.argsort, cp.argsort, case, kernel=kernels.argsort)
    for dtype in both:
        case = slug("sort_by_key", dtype), f"sort_by_key {dtype}, int64", CHUNKS
        arrays = random_keys(dtype, n), cp.arange(n)
        yield from compared(arrays, dask_gpusort.sort_by_key, by_key, case, kernel=kernels.sort_pairs)
    keys, case = random_keys("complex128", max(1, n >> 4)), ("complex128", "sort complex128", CHUNKS)
    yield from compared((keys,), dask_gpusort.sort, cp.sort, case, kernel=kernels.sort_wide)


def lexsort_rows(n: int) -> Iterator[Row]:
    """Sorts by several keys, of which the last one decides first."""
    keys = tuple(random_keys("uint32", n, seed=seed) for seed in (1, 2))
    ours, theirs = (lambda *keys: dask_gpusort.lexsort(keys)), (lambda *keys: cp.lexsort(cp.stack(keys)))
    yield from compared(keys, ours, theirs, ("lexsort/two-uint32", "lexsort two uint32", CHUNKS))


def large_rows(n: int) -> Iterator[Row]:
    yield from sorts(random_keys("int64", n * 10**9 >> 28), ("large", "sort int64, 15 chunks", 15))


def row_rows(n: int) -> Iterator[Row]:
    """Sorts along an axis. For another axis than the last one our kernel for rows sorts a transposed copy."""
    log = n.bit_length() - 1
    shape = (1 << log // 2, 1 << log - log // 2)
    keys, quarter = random_keys("float32", *shape), tuple(size // 4 for size in shape)

    def kernel(keys: Any, axis: int) -> Any:
        turned = cp.ascontiguousarray(cp.moveaxis(keys, axis, -1))
        return cp.ascontiguousarray(cp.moveaxis(kernels.sort_rows(turned), -1, axis))

    for name, axis, chunks in (("rows/last/parts", -1, quarter), ("rows/0", 0, (quarter[0], shape[1]))):
        what = "last axis" if axis else "axis 0"
        case = name, f"sort float32 {shape[0]} x {shape[1]}, {what}, chunks {chunks[0]} x {chunks[1]}", chunks
        ours, theirs = (partial(one.sort, axis=axis) for one in (dask_gpusort, cp))
        yield from compared((keys,), ours, theirs, case, kernel=partial(kernel, axis=axis))


def small_rows(_: int) -> Iterator[Row]:
    yield from sorts(random_keys("uint32", FEW), ("small/uint32", "sort uint32, 8 chunks", 8))


def host_rows(n: int) -> Iterator[Row]:
    """NumPy chunks sorted on the GPU, against our sort and NumPy's on the host."""
    keys = np.random.default_rng(1).integers(-(1 << 63), (1 << 63) - 1, n // 2)
    x = resident(keys, -(-len(keys) // CHUNKS))
    slow = {"our sort on the CPU": lambda: held(dask_gpusort.sort(x)), "NumPy": lambda: np.sort(keys)}
    others = {name: seconds_of(run, 1, 0) for name, run in slow.items()}
    ours = partial(dask_gpusort.sort, x, device="cuda")
    yield row_of("host", f"sort int64, {CHUNKS} NumPy chunks", ours, [x], others, np.sort(keys))


def statistic_rows(n: int) -> Iterator[Row]:
    """Quantiles of all keys, and medians along an axis; the results are compared with NumPy's."""
    keys, percents = random_keys("float64", n // 2), 100 * cp.asarray(QUANTILES)
    cases = [(slug("quantiles", count), f"five quantiles of float64, {plural(count)}", count) for count in (1, 16)]
    ours, theirs = partial(dask_gpusort.quantile, q=QUANTILES), lambda keys: cp.percentile(keys, percents)
    yield from compared((keys,), ours, theirs, *cases, wanted=cp.asarray(np.quantile(cp.asnumpy(keys), QUANTILES)))
    log = n.bit_length() - 1
    for axis, shape in ((1, (1 << max(log - 16, 1), 1 << min(16, log))), (0, (365, 1 << max(log - 9, 1)))):
        ours, theirs = (partial(module.median, axis=axis) for module in (dask_gpusort, cp))
        work, keys = f"median of float32 {shape[0]} x {shape[1]} along axis {axis}, 1 chunk", random_keys("f4", *shape)
        wanted = cp.asarray(np.median(cp.asnumpy(keys), axis))
        yield from compared((keys,), ours, theirs, (slug("median", axis), work, shape), wanted=wanted)


def order_rows(n: int) -> Iterator[Row]:
    """What a sorted order gives."""
    n //= 2
    keys, needles = random_keys("int64", n), random_keys("int64", n, seed=3)
    both = {"return_inverse": True, "return_counts": True}

    def argsort_twice(a: Any) -> Any:
        return cp.argsort(cp.argsort(a)) + 1.0

    for name, arrays, ours, theirs in (
        ("unique", (keys,), dask_gpusort.unique, cp.unique),
        ("unique, counts, inverse", (keys,), partial(dask_gpusort.unique, **both), partial(cp.unique, **both)),
        ("rank", (keys,), dask_gpusort.rank, argsort_twice),
        ("take", (keys, cp.argsort(needles)), dask_gpusort.take, cp.take),
        ("searchsorted", (cp.sort(keys), needles), dask_gpusort.searchsorted, cp.searchsorted),
    ):
        cases = [(slug(name, count), f"{name} of int64, {plural(count)}", count) for count in (1, 4)]
        flat = tuple(one.ravel() for one in several(theirs(*arrays)))
        yield from compared(arrays, ours, theirs, *cases, wanted=flat)
    # Keys of a row differ, as ranks by two calls of `argsort` know no ties.
    rows = cp.argsort(random_keys("float32", ROWS, n // (2 * ROWS))).astype(np.float32)
    work = f"rank of {ROWS} rows of {rows.shape[1]} float32"
    cases = [
        (slug("rank-rows", count), f"{work}, {plural(count)} along them", (ROWS, rows.shape[1] // count))
        for count in (1, 4)
    ]
    yield from compared((rows,), partial(dask_gpusort.rank, axis=-1), argsort_twice, *cases)


SECTIONS = titled(
    {
        "chunks": chunk_rows,
        "pairs": pair_rows,
        "lexsort": lexsort_rows,
        "large": large_rows,
        "rows": row_rows,
        "small": small_rows,
        "host": host_rows,
        "statistics": statistic_rows,
        "order": order_rows,
    }
)


if __name__ == "__main__":
    more = {"--keys-log2": {"type": int, "default": 28, "help": "keys of the main rows, as a power of two"}}
    options = arguments("gpu.dask_arrays", __doc__, list(SECTIONS), more, quick=False)
    measure(options, "gpu_dask_arrays", SECTIONS, 1 << options.keys_log2, repeats=REPEATS)
