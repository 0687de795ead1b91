"""Sorts of Dask arrays of CuPy chunks, beside CuPy, our kernel and Dask's no-op: sections of `gpu.dask_arrays`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

import dask_gpusort

from ..harness.records import Row, slug
from ..harness.verify import is_sorted_permutation, is_stable_order
from .library import SLOW_REPEATS, Library, bits_equal, held, in_chunks, resident, several

CHUNKS = 16
#: Numbers of chunks of the keys of each dtype.
COUNTS = {"uint32": (1, 4, 16, 64, 256), "int64": (1, 4, 16, 64, 256), "float64": (1, 4, 16, 64)}
SMALL = 10_000


@dataclass(frozen=True)
class Call:
    """A public function, our kernel and CuPy's function, and the check of arrays and what is made of them.

    Without a kernel that takes the same arrays, results are compared with CuPy's.
    """

    ours: Callable[..., Any]
    kernel: Callable[..., Any] | None
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

    less = [partial(f, less=library.less) for f in (dask_gpusort.sort, kernels.sort_by_comparison)]
    return {
        "sort": Call(dask_gpusort.sort, kernels.sort_keys, module.sort, is_sorted),
        "argsort": Call(dask_gpusort.argsort, kernels.argsort, module.argsort, is_argsorted),
        "sort_by_key": Call(dask_gpusort.sort_by_key, kernels.sort_pairs, None, is_paired),
        "lexsort": Call(
            lambda *keys: dask_gpusort.lexsort(keys),
            None,
            lambda *keys: module.lexsort(module.stack(keys)),
            is_argsorted,
        ),
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
    """A call with whole arrays: the result of a baseline and the times of all, for several rows."""

    def __init__(self, library: Library, section: str, call: str, *arrays: Any) -> None:
        self.library, self.section, self.arrays = library, section, arrays
        self.call = calls_of(library)[call]
        reference = self.call.kernel or self.call.cupy
        assert reference is not None
        self.wanted = several(reference(*arrays))
        self.verified = self.call.verify(*arrays, *self.wanted)
        self.baselines = {}
        if self.call.cupy is not None:
            self.baselines["CuPy"] = library.seconds(partial(self.call.cupy, *arrays), SLOW_REPEATS, 1)
        if self.call.kernel is not None:
            self.baselines["kernel"] = library.seconds(partial(self.call.kernel, *arrays))

    def row(self, name: str, work: str, chunks: tuple[da.Array, ...], figure: str = "", x: float = 0) -> Row:
        """A row for the keys in chunks, which may be a point of a figure."""
        ours = partial(self.call.ours, *chunks)
        row = self.library.row(self.section, name, work, ours, chunks, self.baselines, self.wanted)
        row.verified, row.details = row.verified and self.verified, {"figure": figure, "x": x} if figure else {}
        return row


def chunk_rows(library: Library, n: int) -> Iterator[Row]:
    for dtype, counts in COUNTS.items():
        keys = library.keys(dtype, n)
        row = Compared(library, "chunks", "sort", keys).row
        for count in counts:
            work = f"sort {dtype}, {count} chunk{'s' * (count > 1)}"
            yield row(slug("sort", dtype, count), work, in_chunks(count, keys), f"chunks {dtype}", count)
        if dtype == "uint32":
            work = f"sort {dtype}, {CHUNKS} chunks that are slices of one array"
            yield row(slug("sort", dtype, CHUNKS, "slices"), work, in_chunks(CHUNKS, keys, slices=True))


def size_rows(library: Library, n: int) -> Iterator[Row]:
    for dtype in ("uint32", "int64"):
        for size in (SMALL, *(1 << log for log in range(16, n.bit_length(), 2))):
            keys, work = library.keys(dtype, size), f"sort {dtype}, {CHUNKS} chunks"
            row = Compared(library, "sizes", "sort", keys).row
            yield row(slug("size", dtype, size), work, in_chunks(CHUNKS, keys), f"sizes {dtype}", size)


def pair_rows(library: Library, n: int) -> Iterator[Row]:
    """Sorts with positions or companions and by comparison, and a merge."""

    def row(call: str, name: str, what: str, *arrays: Any) -> Row:
        return Compared(library, "pairs", call, *arrays).row(name, what, in_chunks(CHUNKS, *arrays))

    for dtype in ("uint32", "int64"):
        yield row("argsort", slug("argsort", dtype), f"argsort {dtype}", library.keys(dtype, n))
    numbers = library.module.arange(n)
    for dtype in ("uint32", "int64"):
        work = f"sort_by_key {dtype}, int64"
        yield row("sort_by_key", slug("sort_by_key", dtype), work, library.keys(dtype, n), numbers)
    del numbers
    yield row("complex", "complex128", "sort complex128", library.keys("complex128", max(1, n >> 4)))
    yield row("less", "less", "sort uint32, less='a < b'", library.keys("uint32", n))
    runs = library.module.sort(library.keys("uint32", n).reshape(CHUNKS, -1)).ravel()
    yield row("merge_sorted", "merge_sorted", "merge_sorted uint32", runs)


def lexsort_rows(library: Library, n: int) -> Iterator[Row]:
    """Sorts by several keys, of which the last one decides first: of as many keys as elsewhere, and of a sixteenth."""
    floor, few = library.module.floor, max(1, n >> 4)

    def row(what: str, *keys: Any) -> Row:
        return Compared(library, "lexsort", "lexsort", *keys).row(
            slug("lexsort", what), f"lexsort {what}", in_chunks(CHUNKS, *keys)
        )

    yield row("two uint32", *(library.keys("uint32", n, seed=seed) for seed in (1, 2)))
    words = [library.keys("uint32", few, seed=seed) for seed in (1, 2)]
    yield row("fewer, two uint32", *words)
    yield row("fewer, two uint32 of 16 distinct", *(word % 16 for word in words))
    numbers = [library.keys("float64", few, seed=seed) for seed in (1, 2, 3)]
    yield row("fewer, three float64", *numbers)
    yield row("fewer, three float64, the last of 100 distinct", *numbers[:2], floor(numbers[2] * 10))
    yield row("fewer, three float64 of 100 distinct", *(floor(number * 10) for number in numbers))


def large_rows(library: Library, n: int) -> Iterator[Row]:
    keys = library.keys("int64", n * 10**9 >> 28)
    yield Compared(library, "large", "sort", keys).row("large", "sort int64, 15 chunks", in_chunks(15, keys))


def memory_rows(library: Library, n: int) -> Iterator[Row]:
    for call, dtype in (("sort", "uint32"), ("sort", "int64"), ("argsort", "uint32"), ("argsort", "int64")):
        keys, function = library.keys(dtype, n), calls_of(library)[call]
        chunks = in_chunks(CHUNKS, keys)
        (found,), grown = library.growth(lambda: held(function.ours(*chunks)))  # noqa: B023 - called at once
        verified = function.verify(keys, found.compute(scheduler="threads"))
        del found
        baselines = {"CuPy": function.cupy, "kernel": function.kernel}
        sizes = {name: library.growth(partial(run, keys))[1] / keys.nbytes for name, run in baselines.items() if run}
        work = f"pool's growth in sizes of the input, {call} {dtype}, {CHUNKS} chunks"
        name, ours = slug("memory", call, dtype), grown / keys.nbytes
        yield Row(name, work, ours, "x", sizes, "memory", n, verified)


def row_rows(library: Library, n: int) -> Iterator[Row]:
    log = n.bit_length() - 1
    shape = (1 << log // 2, 1 << log - log // 2)
    keys = library.keys("float32", *shape)
    quarter = tuple(size // 4 for size in shape)
    for name, call, chunks in (
        ("rows/last/parts", "last axis", quarter),
        ("rows/last/whole", "last axis", shape),
        ("rows/0", "axis 0", (quarter[0], shape[1])),
    ):
        work = f"sort float32 {shape[0]} x {shape[1]}, {call}, chunks {chunks[0]} x {chunks[1]}"
        yield Compared(library, "rows", call, keys).row(name, work, (resident(keys, chunks),))


def small_rows(library: Library, _: int) -> Iterator[Row]:
    keys = library.keys("uint32", SMALL)
    yield Compared(library, "small", "sort", keys).row("small/uint32", "sort uint32, 8 chunks", in_chunks(8, keys))
    keys = library.keys("float32", 40, 13, 11)
    for name, call, chunks in (("small/0", "axis 0", (20, 13, 11)), ("small/last", "last axis", (10, 5, 4))):
        work = f"sort float32 40 x 13 x 11, {call}, chunks {' x '.join(map(str, chunks))}"
        yield Compared(library, "small", call, keys).row(name, work, (resident(keys, chunks),))


def host_rows(library: Library, n: int) -> Iterator[Row]:
    """NumPy chunks sorted on the GPU, against our sort and NumPy's on the host."""
    keys = np.random.default_rng(1).integers(-(1 << 63), (1 << 63) - 1, n // 2)
    (x,) = in_chunks(CHUNKS, keys)
    slow = {"our sort on the CPU": lambda: held(dask_gpusort.sort(x)), "NumPy": lambda: np.sort(keys)}
    baselines = {name: library.seconds(run, 1, 0) for name, run in slow.items()}
    ours = partial(dask_gpusort.sort, x, **library.on_device)
    yield library.row("host", "host", f"sort int64, {CHUNKS} NumPy chunks", ours, (x,), baselines, (np.sort(keys),))
