"""The sort of the same int64 keys with each library, on the host or on a GPU."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

import dask_gpusort

from ..harness.machine import devices
from ..harness.verify import Part, check_parts, checksums, parts_of, summarize

#: Most keys in a Dask chunk.
CHUNK_KEYS = 1 << 20
#: The same on a GPU. A chunk of 512 MiB takes longer to sort than a task takes to start.
DEVICE_CHUNK_KEYS = 1 << 26
#: Keys checked at a time, and made at a time on a GPU. They take little memory compared with all keys.
PIECE_KEYS = 1 << 22
#: Keys made at a time on a CPU. They fit its cache.
CACHED_KEYS = 1 << 16
OURS = "dask_gpusort"
OURS_IN_CHUNKS = f"{OURS}, chunk by chunk"
OUR_KERNELS, OURS_ON_DEVICE = f"{OURS}, kernels", f"{OURS}, CuPy chunks"
CUB_LIBRARY = Path(__file__).parent / "libcub_baseline.so"

#: For a number of keys: what is timed, and the check of its result, which may give seconds of its own.
Sorting = Callable[[int], tuple[Callable[[], Any], Callable[[Any], Any]]]


def make_keys(n: int, module: Any = np) -> Any:
    """Uniform non-negative int64, the same on every device: the numbers of SplitMix64, halved."""
    keys = module.empty(n, np.int64)
    step = CACHED_KEYS if module is np else PIECE_KEYS
    for first in range(0, n, step):
        last = min(first + step, n)
        mixed = module.arange(first + 1, last + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        keys[first:last] = ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).view(np.int64)
    return keys


def checked(keys: Any) -> Callable[[Any], None]:
    """A check that raises unless an array holds these keys in order. Both arrays stay on their device."""
    wanted = checksums(parts(keys))
    return lambda found: check_parts(parts(found), wanted) and None


def parts(keys: Any) -> list[Part]:
    """Summaries of an array of integers, piece by piece."""
    pieces = (keys[first : first + PIECE_KEYS] for first in range(0, len(keys), PIECE_KEYS))
    return list(map(summarize, pieces))


def chunked(keys: Any, chunk_keys: int = CHUNK_KEYS) -> da.Array:
    """A Dask array whose chunks are views of one array."""
    return da.from_array(keys, chunks=min(len(keys), chunk_keys), name=False)


def on_host(prepare: Callable[[Any], Callable[[], Any]], n: int) -> Any:
    """Sort on the host. `prepare` makes the input from the keys."""
    keys = make_keys(n)
    return prepare(keys), checked(keys)


def numpy_sort(keys: Any) -> Any:
    return lambda: np.sort(keys)


def polars_sort(keys: Any) -> Any:
    import polars

    series = polars.Series(keys)
    return lambda: series.sort().to_numpy()


def dataframe_sort(keys: Any) -> Any:
    """Dask DataFrame: quantiles, then a shuffle of partitions."""
    import dask.dataframe as dd

    frame = dd.from_dask_array(chunked(keys).reshape(-1, 1), columns=["key"])
    return lambda: frame.sort_values("key").compute(scheduler="threads")["key"].to_numpy()


def array_api_sort(keys: Any) -> Any:
    """array-api-compat on Dask: one chunk of everything."""
    import array_api_compat.dask.array as xp

    x = chunked(keys)
    return lambda: xp.sort(x).compute(scheduler="threads")


def our_sort(keys: Any) -> Any:
    x = chunked(keys)
    return lambda: dask_gpusort.sort(x).compute(scheduler="threads")


def by_ours_in_chunks(n: int) -> Any:
    """Our sort. The result is consumed chunk by chunk, as for arrays larger than memory."""
    keys = make_keys(n)
    x = chunked(keys)
    wanted = checksums(parts(keys))
    return lambda: parts_of(dask_gpusort.sort(x)).compute(scheduler="threads"), lambda found: check_parts(found, wanted)


def on_device(sort: Callable[[Any], tuple[float, Any]], n: int) -> Any:
    """Sort on a busy GPU, by a function that gives seconds and the result."""
    import cupy

    keys = make_keys(n, cupy)
    check = checked(keys)
    return partial(sort, keys), lambda found: check(found[1]) or found[0]


def timed_sort(sort: Callable[[Any], Any], keys: Any) -> tuple[float, Any]:
    """The median of several runs between CUDA events, and the last result."""
    from ..harness.device import timed

    result: list[Any] = []

    def run() -> None:
        result.clear()  # free its memory for the next result
        result.append(sort(keys))

    return statistics.median(timed({"": run})[""]), result.pop()


def call(module: str, function: str, keys: Any) -> Any:
    return getattr(importlib.import_module(module), function)(keys)


def torch_sort(keys: Any) -> Any:
    """PyTorch. Its sort always computes positions too."""
    import cupy
    import torch

    return cupy.from_dlpack(torch.sort(torch.from_dlpack(keys)).values)


def our_sort_on_device(keys: Any) -> Any:
    return dask_gpusort.sort(chunked(keys, DEVICE_CHUNK_KEYS)).compute(scheduler="synchronous")


def cub_sort(keys: Any) -> tuple[float, Any]:
    """CUB's radix sort with preallocated scratch memory. The library times its runs itself."""
    import cupy

    from ..harness.device import keep_busy
    from .cub import Cub

    found = cupy.empty_like(keys)
    call = partial(Cub(CUB_LIBRARY).call, "cub_keys_int64", keys, found)
    keep_busy(call)
    return call() / 1e3, found


def seconds_here(sorting: Sorting, n: int) -> float:
    """Seconds of the second run, or those that its check returns."""
    work, check = sorting(n)
    work()
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    found = check(result)
    return found if isinstance(found, float) else seconds


@contextmanager
def turn(name: str, sizes: list[int]) -> Iterator[Any]:
    """Job: seconds of a library for each size."""
    yield lambda: {n: seconds_here(LIBRARIES[name].sorting, n) for n in sizes}, lambda found: found


@dataclass(frozen=True)
class Library:
    """A library: its sort, the modules it needs, whether it uses a GPU, and what nvcc builds."""

    sorting: Sorting
    needs: tuple[str, ...] = ()
    device: bool = False
    built: Path | None = None

    def missing(self) -> str:
        """Why the library cannot sort here; empty if it can."""
        absent = [name for name in self.needs if importlib.util.find_spec(name) is None]
        if absent:
            return f"needs {', '.join(absent)}"
        if self.device and not devices():
            return "needs a GPU"
        if self.built and not self.built.exists() and shutil.which("nvcc") is None:
            return "needs nvcc"
        return ""


def library_on_gpu(sort: Callable[[Any], Any], *needs: str) -> Library:
    return Library(partial(on_device, partial(timed_sort, sort)), ("cupy", *needs), device=True)


LIBRARIES = {
    OURS: Library(partial(on_host, our_sort)),
    OURS_IN_CHUNKS: Library(by_ours_in_chunks),
    "numpy.sort": Library(partial(on_host, numpy_sort)),
    "Polars": Library(partial(on_host, polars_sort), ("polars",)),
    "array-api-compat": Library(partial(on_host, array_api_sort), ("array_api_compat",)),
    "dask.dataframe": Library(partial(on_host, dataframe_sort), ("pandas", "pyarrow")),
    OUR_KERNELS: library_on_gpu(partial(call, "dask_gpusort.kernels", "sort_keys")),
    OURS_ON_DEVICE: library_on_gpu(our_sort_on_device),
    "cupy.sort": library_on_gpu(partial(call, "cupy", "sort")),
    "torch.sort": library_on_gpu(torch_sort, "torch"),
    "CUB": Library(partial(on_device, cub_sort), ("cupy",), device=True, built=CUB_LIBRARY),
}
