"""Measures the public functions on Dask arrays of CuPy chunks, on one GPU.

    python -m benchmarks.gpu.dask_arrays [chunks pairs lexsort large rows small host statistics order]
                                         [--keys-log2 28] [--library cupy] [--output DIRECTORY] [--commit COMMIT]

Writes results/gpu_dask_arrays.json. A time is the wall time from the call, so with the construction of the graph, to
the end of a synchronization of the device after ``persist(scheduler="threads")``: the median of 7 runs after two
warm-ups. The chunks are in device memory, each an allocation of its own. Baselines by the
same clock, in the same run:

    CuPy      CuPy's function of the keys in one array, such as `cupy.sort`, the median of 3 runs after one warm-up
    kernel    our kernel on the keys in one array, where one takes what the public function takes
    no-op     Dask on the same chunks, with tasks that return their chunk

Each result equals that of CuPy bit for bit, which is verified.

``--library numpy --keys-log2 14 --output DIRECTORY`` tries the command on a machine without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

import dask_gpusort

from ..harness.command import arguments, measure
from ..harness.records import Row, slug
from .library import REPEATS, SLOW_REPEATS, Library, held, in_chunks, library_of, resident, several

CHUNKS, FEW = 16, 10_000
#: Numbers of chunks of the keys of each dtype.
COUNTS = {"uint32": (1, 4, 16, 64, 256), "int64": (1, 4, 16, 64, 256), "float64": (1, 4, 16, 64)}
QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]
ROWS = 64


def plural(chunks: int) -> str:
    return f"{chunks} chunk{'s' * (chunks > 1)}"


class Compared:
    """A public function beside CuPy's and our kernel, which take whole arrays: their times, for several rows.

    Results have the bits of CuPy's, or of a reference on the host.
    """

    def __init__(
        self,
        library: Library,
        section: str,
        arrays: tuple[Any, ...],
        ours: Callable[..., Any],
        cupy: Callable[..., Any],
        kernel: Callable[..., Any] | None = None,
        reference: Callable[..., Any] | None = None,
    ) -> None:
        self.library, self.section, self.arrays, self.ours = library, section, arrays, ours
        self.wanted = several((reference or cupy)(*arrays))
        self.baselines = {"CuPy": library.seconds(partial(cupy, *arrays), SLOW_REPEATS, 1)}
        if kernel is not None:
            self.baselines["kernel"] = library.seconds(partial(kernel, *arrays))

    def row(
        self, name: str, work: str, chunks: tuple[da.Array, ...] | int = CHUNKS, figure: str = "", x: int = 0
    ) -> Row:
        """A row for the arrays in chunks, or in a number of them; it may be a point of a figure."""
        chunks = in_chunks(chunks, *self.arrays) if isinstance(chunks, int) else chunks
        ours = partial(self.ours, *chunks)
        row = self.library.row(self.section, name, work, ours, chunks, self.baselines, self.wanted)
        row.details = {"figure": figure, "x": x} if figure else {}
        return row


def sorts(library: Library, section: str, *keys: Any) -> Compared:
    return Compared(library, section, keys, dask_gpusort.sort, library.module.sort, library.kernels.sort_keys)


def along(library: Library, section: str, axis: int, keys: Any) -> Compared:
    """Sorts along an axis. For another axis than the last one our kernel for rows sorts a transposed copy."""
    module = library.module

    def kernel(keys: Any) -> Any:
        turned = module.ascontiguousarray(module.moveaxis(keys, axis, -1))
        found = library.kernels.sort_rows(turned.reshape(-1, turned.shape[-1])).reshape(turned.shape)
        return module.ascontiguousarray(module.moveaxis(found, -1, axis))

    ours, theirs = (partial(one.sort, axis=axis) for one in (dask_gpusort, module))
    return Compared(library, section, (keys,), ours, theirs, kernel)


def chunk_rows(library: Library, n: int) -> Iterator[Row]:
    for dtype, counts in COUNTS.items():
        keys = library.keys(dtype, n)
        row = sorts(library, "chunks", keys).row
        for count in counts:
            name, work = slug("sort", dtype, count), f"sort {dtype}, {plural(count)}"
            yield row(name, work, count, f"chunks {dtype}", count)


def pair_rows(library: Library, n: int) -> Iterator[Row]:
    """Sorts with positions or companions and by comparison, and a merge."""
    module, kernels = library.module, library.kernels
    compared = partial(Compared, library, "pairs")

    def by_key(keys: Any, values: Any) -> Any:
        order = module.argsort(keys)
        return keys[order], values[order]

    for dtype in ("uint32", "int64"):
        keys = (library.keys(dtype, n),)
        one = compared(keys, dask_gpusort.argsort, module.argsort, kernels.argsort)
        yield one.row(slug("argsort", dtype), f"argsort {dtype}")
    for dtype in ("uint32", "int64"):
        arrays = library.keys(dtype, n), module.arange(n)
        one = compared(arrays, dask_gpusort.sort_by_key, by_key, kernels.sort_pairs)
        yield one.row(slug("sort_by_key", dtype), f"sort_by_key {dtype}, int64")
    keys = (library.keys("complex128", max(1, n >> 4)),)
    yield compared(keys, dask_gpusort.sort, module.sort, kernels.sort_wide).row("complex128", "sort complex128")


def lexsort_rows(library: Library, n: int) -> Iterator[Row]:
    """Sorts by several keys, of which the last one decides first."""
    keys = tuple(library.keys("uint32", n, seed=seed) for seed in (1, 2))
    theirs = lambda *keys: library.module.lexsort(library.module.stack(keys))  # noqa: E731
    one = Compared(library, "lexsort", keys, lambda *keys: dask_gpusort.lexsort(keys), theirs)
    yield one.row("lexsort/two-uint32", "lexsort two uint32")


def large_rows(library: Library, n: int) -> Iterator[Row]:
    yield sorts(library, "large", library.keys("int64", n * 10**9 >> 28)).row("large", "sort int64, 15 chunks", 15)


def row_rows(library: Library, n: int) -> Iterator[Row]:
    log = n.bit_length() - 1
    shape = (1 << log // 2, 1 << log - log // 2)
    keys, quarter = library.keys("float32", *shape), tuple(size // 4 for size in shape)
    for name, axis, chunks in (
        ("rows/last/parts", -1, quarter),
        ("rows/0", 0, (quarter[0], shape[1])),
    ):
        what = "last axis" if axis else "axis 0"
        work = f"sort float32 {shape[0]} x {shape[1]}, {what}, chunks {chunks[0]} x {chunks[1]}"
        yield along(library, "rows", axis, keys).row(name, work, (resident(keys, chunks),))


def small_rows(library: Library, _: int) -> Iterator[Row]:
    yield sorts(library, "small", library.keys("uint32", FEW)).row("small/uint32", "sort uint32, 8 chunks", 8)


def host_rows(library: Library, n: int) -> Iterator[Row]:
    """NumPy chunks sorted on the GPU, against our sort and NumPy's on the host."""
    keys = np.random.default_rng(1).integers(-(1 << 63), (1 << 63) - 1, n // 2)
    (x,) = in_chunks(CHUNKS, keys)
    slow = {"our sort on the CPU": lambda: held(dask_gpusort.sort(x)), "NumPy": lambda: np.sort(keys)}
    baselines = {name: library.seconds(run, 1, 0) for name, run in slow.items()}
    ours = partial(dask_gpusort.sort, x, **library.on_device)
    yield library.row("host", "host", f"sort int64, {CHUNKS} NumPy chunks", ours, (x,), baselines, (np.sort(keys),))


def statistic_rows(library: Library, n: int) -> Iterator[Row]:
    """Quantiles of all keys, and medians along an axis; the results are compared with NumPy's."""
    module = library.module
    compared = partial(Compared, library, "statistics")

    def quantiles(x: Any) -> Any:
        return dask_gpusort.quantile(x, QUANTILES)

    percents = 100 * module.asarray(QUANTILES)
    theirs, wanted = (lambda keys: module.percentile(keys, percents)), library.on_host(np.quantile, q=QUANTILES)
    one = compared((library.keys("float64", n // 2),), quantiles, theirs, reference=wanted)
    for count in (1, 16):
        yield one.row(slug("quantiles", count), f"five quantiles of float64, {plural(count)}", count)
    log = n.bit_length() - 1
    for axis, shape in ((1, (1 << max(log - 16, 1), 1 << min(16, log))), (0, (365, 1 << max(log - 9, 1)))):
        ours, theirs = (partial(module.median, axis=axis) for module in (dask_gpusort, library.module))
        work = f"median of float32 {shape[0]} x {shape[1]} along axis {axis}, 1 chunk"
        rows = library.keys("float32", *shape)
        one = compared((rows,), ours, theirs, reference=library.on_host(np.median, axis=axis))
        yield one.row(slug("median", axis), work, (resident(rows, -1),))


def order_rows(library: Library, n: int) -> Iterator[Row]:
    """What a sorted order gives."""
    module, n = library.module, n // 2
    keys, needles = library.keys("int64", n), library.keys("int64", n, seed=3)
    both = {"return_inverse": True, "return_counts": True}

    def argsort_twice(a: Any) -> Any:
        return module.argsort(module.argsort(a)) + 1.0

    calls: dict[str, tuple[tuple[Any, ...], Callable[..., Any], Callable[..., Any]]] = {
        "unique": ((keys,), dask_gpusort.unique, module.unique),
        "unique, counts, inverse": ((keys,), partial(dask_gpusort.unique, **both), partial(module.unique, **both)),
        "rank": ((keys,), dask_gpusort.rank, argsort_twice),
        "take": ((keys, module.argsort(needles)), dask_gpusort.take, module.take),
        "searchsorted": ((module.sort(keys), needles), dask_gpusort.searchsorted, module.searchsorted),
    }
    for name, (arrays, ours, theirs) in calls.items():
        flat = partial(lambda theirs, *arrays: tuple(a.ravel() for a in several(theirs(*arrays))), theirs)
        one = Compared(library, "order", arrays, ours, theirs, reference=flat)
        for count in (1, 4):
            yield one.row(slug(name, count), f"{name} of int64, {plural(count)}", count)
    # Keys of a row differ, as ranks by two calls of `argsort` know no ties.
    rows = module.argsort(library.keys("float32", ROWS, n // (2 * ROWS))).astype(np.float32)
    one = Compared(library, "order", (rows,), partial(dask_gpusort.rank, axis=-1), argsort_twice)
    for count in (1, 4):
        work = f"rank of {ROWS} rows of {rows.shape[1]} float32, {plural(count)} along them"
        yield one.row(slug("rank-rows", count), work, (resident(rows, (ROWS, rows.shape[1] // count)),))


SECTIONS = {
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


if __name__ == "__main__":
    more = {
        "--keys-log2": {"type": int, "default": 28, "help": "keys of the main rows, as a power of two"},
        "--library": {"choices": ("cupy", "numpy"), "default": "cupy"},
    }
    options = arguments("gpu.dask_arrays", __doc__, list(SECTIONS), more, quick=False)
    args = library_of(options.library), 1 << options.keys_log2
    measure(options, "gpu_dask_arrays", SECTIONS, *args, repeats=REPEATS, library=options.library)
