"""CuPy or NumPy, and Dask arrays of their chunks in memory: what the benchmarks of Dask arrays on a GPU share."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks, slices_from_chunks
from tlz import identity

from ..harness.records import Row, timed_row

REPEATS, WARM_UPS, SLOW_REPEATS = 7, 2, 3
_NAMES = (f"resident-{number}" for number in itertools.count())


@dataclass(frozen=True)
class Library:
    """CuPy and our kernels, or NumPy in their stead. `on_device`: options that sort NumPy chunks on the GPU."""

    module: Any
    kernels: Any
    pool: Any
    synchronize: Callable[[], Any]
    on_device: dict[str, Any]

    def keys(self, dtype: str, *shape: int, seed: int = 1) -> Any:
        """Random bits, or normal floats."""
        rng, n, kind = self.module.random.default_rng(seed), math.prod(shape), np.dtype(dtype)
        if kind.kind == "c":
            return rng.standard_normal(n) + 1j * rng.standard_normal(n)
        if kind.kind == "f":
            return rng.standard_normal(n, dtype=kind).reshape(shape)
        return rng.integers(0, 1 << 32, n * kind.itemsize // 4, dtype=np.uint32).view(kind).reshape(shape)

    def on_host(self, function: Callable[..., Any], **options: Any) -> Callable[[Any], Any]:
        """NumPy's function of an array on the device; its result is there again."""
        host = self.module.asnumpy if hasattr(self.module, "asnumpy") else np.asarray
        return lambda array: self.module.asarray(function(host(array), **options))

    def seconds(self, run: Callable[[], Any], repeats: int = REPEATS, warm_ups: int = WARM_UPS) -> list[float]:
        samples = []
        for _ in range(warm_ups + repeats):
            start = time.perf_counter()
            found = run()
            self.synchronize()
            samples.append(time.perf_counter() - start)
            del found
        return samples[warm_ups:]

    def is_wanted(self, found: Any, wanted: tuple[Any, ...]) -> bool:
        """Whether Dask arrays have the bits of arrays."""
        results = dask.compute(*several(found), scheduler="threads")
        return all(bits_equal(one, array) for one, array in zip(results, wanted, strict=True))

    def row(
        self,
        section: str,
        name: str,
        work: str,
        ours: Callable[[], Any],
        chunks: tuple[da.Array, ...],
        baselines: dict[str, list[float]],
        wanted: tuple[Any, ...],
    ) -> Row:
        """A row for what is made of chunks: its result has the bits of the wanted arrays. Dask's no-op comes last."""
        right = self.is_wanted(ours(), wanted)
        samples = {"ours": self.seconds(lambda: held(ours())), **baselines}
        samples["no-op"] = self.seconds(lambda: no_op(chunks))
        self.pool.free_all_blocks()
        return timed_row(name, work, samples, section=section, keys=chunks[0].size, verified=right)


def library_of(name: str) -> Library:
    if name == "numpy":
        from ..harness import numpy_kernels

        pool = SimpleNamespace(free_all_blocks=lambda: None)
        return Library(np, numpy_kernels, pool, lambda: None, {})
    import cupy

    from dask_gpusort import kernels

    pool, synchronize = cupy.get_default_memory_pool(), cupy.cuda.Device().synchronize
    return Library(cupy, kernels, pool, synchronize, {"device": "cuda"})


def resident(array: Any, chunks: Any) -> da.Array:
    """A Dask array of chunks in memory, which are copies of the parts of an array."""
    grid, name = normalize_chunks(chunks, array.shape), next(_NAMES)
    keys = itertools.product([name], *(range(len(sizes)) for sizes in grid))
    parts = (array[part].copy() for part in slices_from_chunks(grid))
    return da.Array(dict(zip(keys, parts, strict=True)), name, grid, meta=array[(slice(0),) * array.ndim])


def in_chunks(count: int, *arrays: Any) -> tuple[da.Array, ...]:
    return tuple(resident(array, -(-len(array) // count)) for array in arrays)


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
