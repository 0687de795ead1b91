"""Comparison sorts, wide keys and merging on one GPU, against CUB, CuPy and our radix sorts.

    python -m benchmarks.gpu.comparison [sort wide merge] [--keys-log2 28] [--output DIRECTORY]

Writes results/gpu_comparison.json. The method is that of `gpu.table`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from dask_gpusort import kernels
from dask_gpusort.kernels.policy import tuning

from ..harness.device import Table, is_argsorted, median_ms, random_keys, run_table
from ..harness.records import Row, slug

WIDE_LOG2 = 24
RUN_COUNTS = (2, 4, 8, 16, 32)


def levels(n: int, width: int) -> int:
    """Number of merge levels for runs of `width` keys."""
    return max(0, math.ceil(math.log2(-(-n // width))))


def equals_our_sort(keys: Any, out: Any) -> bool:
    return bool((out == kernels.sort_keys(keys)).all())


def sort_rows(table: Table, n: int) -> Iterator[Row]:
    """Our merge sort against CUB's, and with positions."""
    for dtype in ("uint32", "uint64"):
        keys = random_keys(dtype, n)
        out = cp.empty_like(keys)
        theirs = table.cub.call(f"cub_merge_{dtype}", keys, out)
        doublings = levels(n, tuning.merge_shape(keys.itemsize, 0).keys)
        out.fill(0x5A)
        ours = median_ms(lambda: kernels.sort_by_comparison(keys, less="a < b", out=out), 3)  # noqa: B023
        traffic, good = 2 * keys.nbytes * (1 + doublings), equals_our_sort(keys, out)
        name, work = slug("merge-sort", dtype, "less"), f"merge sort {dtype}, less='a < b'"
        yield table.row(name, work, n, ours, good, {"CUB merge": theirs}, traffic)
        positions = cp.empty(n, np.int64)
        ours = median_ms(lambda: kernels.argsort_by_comparison(keys, less="a < b", out=positions), 3)  # noqa: B023
        good, name = is_argsorted(keys, positions), slug("merge-argsort", dtype)
        yield table.row(name, f"merge argsort {dtype}", n, ours, good, {})


def wide_rows(table: Table, _: int) -> Iterator[Row]:
    """complex128 against cupy.sort."""
    n = 1 << WIDE_LOG2
    rng = cp.random.default_rng(5)
    for what, keys in (
        ("normal parts", rng.standard_normal(n) + 1j * rng.standard_normal(n)),
        ("equal real parts", 1 + 1j * rng.standard_normal(n)),
        ("16 distinct real parts", rng.integers(0, 16, n) + 1j * rng.standard_normal(n)),
        ("4096 distinct keys", rng.integers(0, 64, n) + 1j * rng.integers(0, 64, n)),
    ):
        out = cp.empty_like(keys)
        ours = median_ms(lambda: kernels.sort_wide(keys, out=out))  # noqa: B023
        theirs = median_ms(lambda: cp.sort(keys), 3)  # noqa: B023
        good = bool((out == cp.sort(keys)).all())
        name = slug("complex128", what)
        yield table.row(name, f"complex128, {what}", n, ours, good, {"cupy.sort": theirs}, 2 * keys.nbytes)


def merge_rows(table: Table, n: int) -> Iterator[Row]:
    for dtype, companions in (("uint64", 0), ("uint32", 0), ("uint64", 1), ("uint32", 1)):
        keys = random_keys(dtype, n)
        values = [cp.arange(n, dtype=np.uint32)][:companions]
        for count in RUN_COUNTS:
            bounds = [n * i // count for i in range(count + 1)]
            runs = [kernels.sort_keys(keys[a:b]) for a, b in itertools.pairwise(bounds)]
            parts = [[value[a:b] for a, b in itertools.pairwise(bounds)] for value in values]
            got, moved = kernels.merge_runs(runs, parts)
            good = equals_our_sort(keys, got)
            if moved:
                good = is_argsorted(cp.concatenate(runs), moved[0].astype(np.int64))
            ours = median_ms(lambda: kernels.merge_runs(runs, parts), 3)  # noqa: B023
            theirs = median_ms(lambda: sort_again(runs, parts), 3)  # noqa: B023
            traffic = 2 * (keys.nbytes + 4 * n * companions) * levels(count, 1)
            what = f"merge {count} runs {dtype}" + ", a companion" * companions
            name = slug("merge", dtype, count, *["companion"] * companions)
            yield table.row(name, what, n, ours, good, {"sort again": theirs}, traffic)


def sort_again(runs: list[Any], companions: list[list[Any]]) -> Any:
    joined = cp.concatenate(runs)
    if not companions:
        return kernels.sort_keys(joined, out=joined)
    return kernels.sort_pairs(joined, cp.concatenate(companions[0]))


SECTIONS = {"sort": sort_rows, "wide": wide_rows, "merge": merge_rows}

if __name__ == "__main__":
    run_table("gpu.comparison", __doc__, "gpu_comparison", SECTIONS)
