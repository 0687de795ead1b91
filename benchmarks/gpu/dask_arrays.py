"""Measures the public functions on Dask arrays of CuPy chunks, on one GPU.

    python -m benchmarks.gpu.dask_arrays [chunks sizes pairs large memory rows small host statistics order]
                                         [--keys-log2 28] [--library cupy] [--output DIRECTORY] [--commit COMMIT]

Writes results/gpu_dask_arrays.json. A time is the wall time from the call, so with the construction of the graph, to
the end of a synchronization of the device after ``persist(scheduler="threads")``: the median of 7 runs after two
warm-ups. The chunks are in device memory, each an allocation of its own unless the row says otherwise. Baselines by the
same clock, in the same run:

    CuPy      CuPy's function of the keys in one array, such as `cupy.sort`, the median of 3 runs after one warm-up
    kernel    our kernel on the keys in one array
    no-op     Dask on the same chunks, with tasks that return their chunk

Each result equals that of the kernel bit for bit, and the kernel's is verified. Rows of "memory" are no times, but the
growth of CuPy's default memory pool in one call, in sizes of the input: its total bytes after the call minus those
before, when its free blocks were released. The result is a part of that, the input is not.

``--library numpy --keys-log2 14 --output DIRECTORY`` tries the command on a machine without a GPU.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks, slices_from_chunks
from tlz import identity

import dask_gpusort

from ..harness.command import parse, parser_of, run_sections
from ..harness.machine import RESULTS, describe_machine
from ..harness.records import Record, Row
from ..harness.verify import is_sorted_permutation, is_stable_order

FILE = "gpu_dask_arrays.json"
REPEATS, WARM_UPS, SLOW_REPEATS = 7, 2, 3
CHUNKS = 16
#: Least ratio to `cupy.sort` by number of chunks. For many chunks it is the ratio to the no-op.
LEAST = {
    "uint32": {1: 1.35, 4: 1.15, 16: 0.95, 64: None, 256: 0.83},
    "int64": {1: 2.5, 4: 2.2, 16: 2.0, 64: 1.4, 256: 0.83},
    "float64": {1: 2.5, 4: 2.2, 16: 2.0, 64: 1.4},
}
MANY_CHUNKS = 256
SMALL = 10_000
NAMES = (f"resident-{number}" for number in itertools.count())


@dataclass(frozen=True)
class Library:
    """CuPy and our kernels, or NumPy in their stead. `on_device`: options that sort NumPy chunks on the GPU."""

    module: Any
    kernels: Any
    pool: Any
    synchronize: Callable[[], Any]
    less: Any
    on_device: dict[str, Any]

    def keys(self, dtype: str, *shape: int, seed: int = 1) -> Any:
        """Random bits, or normal floats."""
        rng, n, kind = self.module.random.default_rng(seed), math.prod(shape), np.dtype(dtype)
        if kind.kind == "c":
            return rng.standard_normal(n) + 1j * rng.standard_normal(n)
        if kind.kind == "f":
            return rng.standard_normal(n, dtype=kind).reshape(shape)
        return rng.integers(0, 1 << 32, n * kind.itemsize // 4, dtype=np.uint32).view(kind).reshape(shape)

    def milliseconds(self, run: Callable[[], Any], repeats: int = REPEATS, warm_ups: int = WARM_UPS) -> list[float]:
        samples = []
        for _ in range(warm_ups + repeats):
            start = time.perf_counter()
            found = run()
            self.synchronize()
            samples.append(1e3 * (time.perf_counter() - start))
            del found
        return samples[warm_ups:]

    def growth(self, run: Callable[[], Any]) -> tuple[Any, int]:
        """The result of a run, and the bytes by which the memory pool grew."""
        self.pool.free_all_blocks()
        before = self.pool.total_bytes()
        found = run()
        self.synchronize()
        return found, self.pool.total_bytes() - before


def library_of(name: str) -> Library:
    if name == "numpy":
        from ..harness import numpy_kernels

        pool = SimpleNamespace(free_all_blocks=lambda: None, total_bytes=lambda: 0)
        return Library(np, numpy_kernels, pool, lambda: None, np.less, {})
    import cupy

    from dask_gpusort import kernels

    pool, synchronize = cupy.get_default_memory_pool(), cupy.cuda.Device().synchronize
    return Library(cupy, kernels, pool, synchronize, "a < b", {"device": "cuda"})


def resident(array: Any, chunks: Any, *, slices: bool = False) -> da.Array:
    """A Dask array of chunks in memory: copies of the parts of an array, or slices of it."""
    grid, name = normalize_chunks(chunks, array.shape), next(NAMES)
    keys = itertools.product([name], *(range(len(sizes)) for sizes in grid))
    parts = (array[part] if slices else array[part].copy() for part in slices_from_chunks(grid))
    return da.Array(dict(zip(keys, parts, strict=True)), name, grid, meta=array[(slice(0),) * array.ndim])


def in_chunks(count: int, *arrays: Any, slices: bool = False) -> tuple[da.Array, ...]:
    return tuple(resident(array, -(-len(array) // count), slices=slices) for array in arrays)


def several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def held(found: Any) -> tuple[Any, ...]:
    return dask.persist(*several(found), scheduler="threads")


def no_op(arrays: tuple[da.Array, ...]) -> Any:
    return held(tuple(x.map_blocks(identity, dtype=x.dtype, meta=x._meta) for x in arrays))


def bits_equal(found: Any, wanted: Any) -> bool:
    """Whether two arrays have the same bits."""
    word, same_form = f"u{min(8, wanted.itemsize)}", (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    return same_form and bool((found.view(word) == wanted.view(word)).all())


@dataclass(frozen=True)
class Call:
    """A public function, our kernel and CuPy's function, and the check of arrays and what the kernel makes of them."""

    ours: Callable[..., Any]
    kernel: Callable[..., Any]
    cupy: Callable[..., Any] | None
    verify: Callable[..., bool]


def sort_rows(library: Library, axis: int, keys: Any) -> Any:
    """Our kernel for rows. For another axis than the last one it sorts a transposed copy."""
    turned = library.module.ascontiguousarray(library.module.moveaxis(keys, axis, -1))
    found = library.kernels.sort_rows(turned.reshape(-1, turned.shape[-1])).reshape(turned.shape)
    return library.module.ascontiguousarray(library.module.moveaxis(found, -1, axis))


def calls_of(library: Library) -> dict[str, Call]:
    module, kernels, encode = library.module, library.kernels, library.kernels.encode

    def is_sorted(keys: Any, found: Any) -> bool:
        return is_sorted_permutation(encode(keys), encode(found))

    def is_argsorted(*keys_and_positions: Any) -> bool:
        *keys, positions = keys_and_positions
        return is_stable_order([encode(key) for key in keys[::-1]], positions)

    def is_paired(keys: Any, _: Any, sorted_keys: Any, moved: Any) -> bool:
        return is_argsorted(keys, moved) and bits_equal(keys[moved], sorted_keys)

    def is_cupys(axis: int, keys: Any, found: Any) -> bool:
        return bits_equal(found, module.sort(keys, axis=axis))

    def along(axis: int) -> Call:
        ours, kernel = partial(dask_gpusort.sort, axis=axis), partial(sort_rows, library, axis)
        return Call(ours, kernel, partial(module.sort, axis=axis), partial(is_cupys, axis))

    several_keys = [lambda *keys, function=f: function(keys) for f in (dask_gpusort.lexsort, kernels.lexsort)]
    less = [partial(f, less=library.less) for f in (dask_gpusort.sort, kernels.sort_by_comparison)]
    return {
        "sort": Call(dask_gpusort.sort, kernels.sort_keys, module.sort, is_sorted),
        "argsort": Call(dask_gpusort.argsort, kernels.argsort, module.argsort, is_argsorted),
        "sort_by_key": Call(dask_gpusort.sort_by_key, kernels.sort_pairs, None, is_paired),
        "lexsort": Call(*several_keys, lambda *keys: module.lexsort(module.stack(keys)), is_argsorted),
        "less": Call(*less, module.sort, is_sorted),
        "complex": Call(dask_gpusort.sort, kernels.sort_wide, module.sort, partial(is_cupys, -1)),
        "merge_sorted": Call(
            dask_gpusort.merge_sorted,
            lambda runs: kernels.merge_runs(module.split(runs, CHUNKS))[0],
            module.sort,
            is_sorted,
        ),
        "last axis": along(-1),
        "axis 0": along(0),
    }


class Compared:
    """A call with whole arrays: the result of our kernel and the milliseconds of the baselines, for several rows."""

    def __init__(self, library: Library, section: str, call: str, *arrays: Any) -> None:
        self.library, self.section, self.arrays = library, section, arrays
        self.call = calls_of(library)[call]
        kernel = partial(self.call.kernel, *arrays)
        self.wanted = several(kernel())
        self.verified = self.call.verify(*arrays, *self.wanted)
        self.baselines = {}
        if self.call.cupy is not None:
            slow = library.milliseconds(partial(self.call.cupy, *arrays), SLOW_REPEATS, 1)
            self.baselines["CuPy"] = statistics.median(slow)
        self.baselines["kernel"] = statistics.median(library.milliseconds(kernel))

    def equals_kernel(self, found: Any) -> bool:
        results = dask.compute(*several(found), scheduler="threads")
        return all(bits_equal(one, wanted) for one, wanted in zip(results, self.wanted, strict=True))

    def row(
        self,
        work: str,
        chunks: tuple[da.Array, ...],
        against: str = "",
        least: float | None = None,
        most: float | None = None,
        point: tuple[str, float] | None = None,
    ) -> Row:
        """A row for the keys in chunks. The ratio is to `against`. `point` is a figure and x."""
        library = self.library
        right = self.verified and self.equals_kernel(self.call.ours(*chunks))
        ours = library.milliseconds(lambda: held(self.call.ours(*chunks)))
        idle = statistics.median(library.milliseconds(lambda: no_op(chunks)))
        baselines = {**self.baselines, "no-op": idle}
        if against:
            baselines = {against: baselines[against], **baselines}
        row = Row(work, statistics.median(ours), "ms", self.section, chunks[0].size, baselines, samples={"ours": ours})
        row.verified, row.details = right, {"figure": point[0], "x": point[1]} if point else {}
        library.pool.free_all_blocks()
        return row.aiming(least, most)


def chunk_rows(library: Library, n: int) -> Iterator[Row]:
    for dtype, goals in LEAST.items():
        keys = library.keys(dtype, n)
        compared = Compared(library, "chunks", "sort", keys)
        for count, least in goals.items():
            against, point = "no-op" if count >= MANY_CHUNKS else "", (f"chunks {dtype}", count)
            work = f"sort {dtype}, {count} chunk{'s' * (count > 1)}"
            yield compared.row(work, in_chunks(count, keys), against, least, point=point)
        if dtype == "uint32":
            work = f"sort {dtype}, {CHUNKS} chunks that are slices of one array"
            yield compared.row(work, in_chunks(CHUNKS, keys, slices=True), least=goals[CHUNKS])


def size_rows(library: Library, n: int) -> Iterator[Row]:
    for dtype in ("uint32", "int64"):
        for size in (SMALL, *(1 << log for log in range(16, n.bit_length(), 2))):
            keys, point = library.keys(dtype, size), (f"sizes {dtype}", size)
            row = Compared(library, "sizes", "sort", keys).row
            yield row(f"sort {dtype}, {CHUNKS} chunks", in_chunks(CHUNKS, keys), point=point)


def pair_rows(library: Library, n: int) -> Iterator[Row]:
    """Sorts with positions or companions, by several keys and by comparison, and a merge."""

    def row(call: str, what: str, *arrays: Any, **goal: Any) -> Row:
        return Compared(library, "pairs", call, *arrays).row(what, in_chunks(CHUNKS, *arrays), **goal)

    for dtype, most in (("uint32", 11), ("int64", 13)):
        yield row("argsort", f"argsort {dtype}", library.keys(dtype, n), most=most)
    numbers = library.module.arange(n)
    for dtype in ("uint32", "int64"):
        yield row("sort_by_key", f"sort_by_key {dtype}, int64", library.keys(dtype, n), numbers, least=0.67)
    del numbers
    yield row("lexsort", "lexsort two uint32", *(library.keys("uint32", n, seed=seed) for seed in (1, 2)))
    yield row("complex", "sort complex128", library.keys("complex128", max(1, n >> 4)))
    yield row("less", "sort uint32, less='a < b'", library.keys("uint32", n))
    runs = library.module.sort(library.keys("uint32", n).reshape(CHUNKS, -1)).ravel()
    yield row("merge_sorted", "merge_sorted uint32", runs)


def large_rows(library: Library, n: int) -> Iterator[Row]:
    keys = library.keys("int64", n * 10**9 >> 28)
    yield Compared(library, "large", "sort", keys).row("sort int64, 15 chunks", in_chunks(15, keys), most=40)


def memory_rows(library: Library, n: int) -> Iterator[Row]:
    goals = {("sort", "uint32"): 2.1, ("sort", "int64"): 2.1, ("argsort", "uint32"): 4.2, ("argsort", "int64"): 3.2}
    for (call, dtype), most in goals.items():
        keys, function = library.keys(dtype, n), calls_of(library)[call]
        chunks = in_chunks(CHUNKS, keys)
        (found,), grown = library.growth(lambda: held(function.ours(*chunks)))  # noqa: B023 - called at once
        verified = function.verify(keys, found.compute(scheduler="threads"))
        del found
        baselines = {"CuPy": function.cupy, "kernel": function.kernel}
        sizes = {name: library.growth(partial(run, keys))[1] / keys.nbytes for name, run in baselines.items()}
        work = f"pool's growth in sizes of the input, {call} {dtype}, {CHUNKS} chunks"
        yield Row(work, grown / keys.nbytes, "x", "memory", n, sizes, verified=verified).aiming(most=most)


def row_rows(library: Library, n: int) -> Iterator[Row]:
    log = n.bit_length() - 1
    shape = (1 << log // 2, 1 << log - log // 2)
    keys = library.keys("float32", *shape)
    quarter = tuple(size // 4 for size in shape)
    rows = ("last axis", quarter, 8), ("last axis", shape, None), ("axis 0", (quarter[0], shape[1]), 10)
    for call, chunks, most in rows:
        work = f"sort float32 {shape[0]} x {shape[1]}, {call}, chunks {chunks[0]} x {chunks[1]}"
        yield Compared(library, "rows", call, keys).row(work, (resident(keys, chunks),), most=most)


def small_rows(library: Library, _: int) -> Iterator[Row]:
    keys = library.keys("uint32", SMALL)
    row = Compared(library, "small", "sort", keys).row
    yield row("sort uint32, 8 chunks", in_chunks(8, keys), "no-op", most=4)
    keys = library.keys("float32", 40, 13, 11)
    for call, chunks in (("axis 0", (20, 13, 11)), ("last axis", (10, 5, 4))):
        work = f"sort float32 40 x 13 x 11, {call}, chunks {' x '.join(map(str, chunks))}"
        row = Compared(library, "small", call, keys).row
        yield row(work, (resident(keys, chunks),), "no-op", most=6)


def host_rows(library: Library, n: int) -> Iterator[Row]:
    """NumPy chunks sorted on the GPU, against our sort and NumPy's on the host."""
    keys = np.random.default_rng(1).integers(-(1 << 63), (1 << 63) - 1, n // 2)
    (x,) = in_chunks(CHUNKS, keys)
    on_device = partial(dask_gpusort.sort, x, **library.on_device)
    right = bits_equal(on_device().compute(scheduler="threads"), np.sort(keys))
    ours = library.milliseconds(lambda: held(on_device()))
    slow = {
        "our sort on the CPU": lambda: held(dask_gpusort.sort(x)),
        "NumPy": lambda: np.sort(keys),
        "no-op": lambda: no_op((x,)),
    }
    baselines = {name: library.milliseconds(run, 1, 0)[0] for name, run in slow.items()}
    work, taken = f"sort int64, {CHUNKS} NumPy chunks", statistics.median(ours)
    row = Row(work, taken, "ms", "host", keys.size, baselines, verified=right, samples={"ours": ours})
    yield row.aiming(most=120)


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


def on_host(array: Any) -> np.ndarray:
    """The array as a NumPy array."""
    return array.get() if hasattr(array, "get") else array  # type: ignore[no-any-return]


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


def order_rows(library: Library, n: int) -> Iterator[Row]:
    """What a sorted order gives, beside CuPy's functions; the results are compared with CuPy's."""
    module, n = library.module, n // 2
    keys = library.keys("int64", n)
    ordered = module.sort(keys)
    needles = library.keys("int64", n, seed=3)
    positions = module.argsort(needles)
    both = {"return_inverse": True, "return_counts": True}
    calls: dict[str, tuple[tuple[Any, ...], Callable[..., Any], Callable[..., Any]]] = {
        "unique": ((keys,), dask_gpusort.unique, module.unique),
        "unique, counts, inverse": ((keys,), partial(dask_gpusort.unique, **both), partial(module.unique, **both)),
        "rank": ((keys,), dask_gpusort.rank, lambda a: module.argsort(module.argsort(a)) + 1.0),
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


SECTIONS = {
    "chunks": chunk_rows,
    "sizes": size_rows,
    "pairs": pair_rows,
    "large": large_rows,
    "memory": memory_rows,
    "rows": row_rows,
    "small": small_rows,
    "host": host_rows,
    "statistics": statistic_rows,
    "order": order_rows,
}


def main() -> None:
    parser = parser_of("benchmarks.gpu.dask_arrays", __doc__, list(SECTIONS), quick=False)
    parser.add_argument("--keys-log2", type=int, default=28, help="keys of the main rows, as a power of two")
    parser.add_argument("--library", choices=("cupy", "numpy"), default="cupy")
    options = parse(parser, list(SECTIONS))
    if options.library == "numpy" and options.output == RESULTS:
        parser.error("times of NumPy say nothing of a GPU: store them elsewhere with --output")
    settings = {"repeats": REPEATS, "library": options.library, "sections": options.sections}
    record = Record(describe_machine(commit=options.commit), settings)
    run_sections(options, record, FILE, SECTIONS, library_of(options.library), 1 << options.keys_log2)


if __name__ == "__main__":
    main()
