"""Measures the radix sorts on one GPU, against CUB and CuPy in the same run.

    python -m benchmarks.gpu.table [main index matrix robust sizes] [--keys-log2 28] [--output DIRECTORY]

Writes results/gpu_table.json. Times are medians of 7 runs between CUDA events. Scratch memory comes from CuPy's warm
pool. CUB is called through its public API. The traffic of a row is the least that our algorithm can read and write. Its
rate is compared with the bandwidth of a copy. Every result is verified. Needs CuPy, and nvcc for CUB's library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from dask_gpusort import kernels

from ..harness.device import Table, is_argsorted, is_sorted_form, make_keys, median_ms, random_keys, run_table
from ..harness.records import Row, slug

LOW_ENTROPY_TERMS = (2, 4)  # random keys and-ed together


def sort_row(table: Table, dtype: str, what: str, keys: Any, with_cupy: bool = True) -> Row:
    out = cp.empty_like(keys)
    out.view(np.uint8).fill(0x5A)
    ours = median_ms(lambda: kernels.sort_keys(keys, out=out))
    verified = is_sorted_form(keys, out)
    cub = table.cub.keys(keys) if dtype not in ("float16", "complex64") else None
    cupy = median_ms(lambda: cp.sort(keys), 3) if with_cupy else None
    # Number of times each key is read or written: count and fill, or count, two levels of partition and block sort.
    traffic = (2 if keys.itemsize <= 2 else 7) * keys.nbytes
    name, work = slug(dtype, what), f"{dtype} keys, {what}"
    return table.row(name, work, keys.size, ours, verified, {"CUB": cub, "CuPy": cupy}, traffic)


def main_rows(table: Table, n: int) -> Iterator[Row]:
    names = {dtype: ["random"] for dtype in ("uint32", "float32", "uint64", "float64", "int64")}
    names["float32"] = names["float64"] = ["random", "uniform", "normal"]
    names["int64"] = ["random", "below 2^24"]
    names |= {dtype: ["random"] for dtype in ("uint8", "uint16", "float16", "complex64")}
    for dtype, name in ((dtype, name) for dtype, several in names.items() for name in several):
        yield sort_row(table, dtype, name, make_keys(name, dtype, n))


def index_rows(table: Table, n: int) -> Iterator[Row]:
    for dtype in ("uint32", "uint64"):
        keys, values = random_keys(dtype, n), cp.arange(n, dtype=np.uint64)
        out = cp.empty(n, np.int64)
        size = keys.itemsize
        ours = median_ms(lambda: kernels.argsort(keys, out=out))  # noqa: B023 - called at once
        cub, wide = (table.cub.pairs(keys, values.astype(v)) for v in ("uint32", "uint64"))
        baselines = {"CUB": cub, "CUB, values of 64 bits": wide, "CuPy": median_ms(lambda: cp.argsort(keys), 3)}  # noqa: B023
        traffic = n * (2 * size + 5 * (8 if size == 4 else 12) + 8)
        good = is_argsorted(keys, out)
        yield table.row(slug("argsort", dtype), f"argsort {dtype}", n, ours, good, baselines, traffic)
        keys_out, values_out = cp.empty_like(keys), cp.empty_like(values)
        ours = median_ms(lambda: kernels.sort_pairs(keys, values, keys_out=keys_out, values_out=values_out))  # noqa: B023
        good = is_argsorted(keys, values_out.view(np.int64)) and bool((keys_out == keys[values_out]).all())
        # Count; first level (keys, values); second level (keys, then keys and positions); block sort; gather.
        traffic = n * (size + 2 * (size + 8) + size + 2 * (8 if size == 4 else 12) + size + 4 + 4 + 8 + 8)
        yield table.row(slug("pairs", dtype), f"pairs {dtype}/uint64", n, ours, good, {"CUB": wide}, traffic)


def matrix_rows(table: Table, n: int) -> Iterator[Row]:
    log = n.bit_length() - 1
    for rows_log in (log // 2, log - 8, 8):
        shape = (1 << rows_log, 1 << (log - rows_log))
        keys = cp.random.default_rng(5).random(shape, dtype=np.float32)
        out = cp.empty_like(keys)
        ours = median_ms(lambda: kernels.sort_rows(keys, out=out))  # noqa: B023
        good = bool((out[:, 1:] >= out[:, :-1]).all()) and bool(cp.allclose(keys.sum(1), out.sum(1), rtol=1e-3))
        cupy, work = median_ms(lambda: cp.sort(keys, axis=-1), 1), f"rows {shape[0]} x {shape[1]} float32"  # noqa: B023
        yield table.row(slug("rows", shape[0]), work, n, ours, good, {"CuPy": cupy}, 2 * keys.nbytes)


def robust_rows(table: Table, n: int) -> Iterator[Row]:
    names = ["sorted", "reversed", "all equal", "16 distinct", "Zipf", *(f"and of {k}" for k in LOW_ENTROPY_TERMS)]
    for dtype in ("uint32", "uint64"):
        for name in names:
            yield sort_row(table, dtype, name, make_keys(name, dtype, n), with_cupy=False)
    for dtype in ("float32", "float64"):
        yield sort_row(table, dtype, "nearly equal", make_keys("nearly equal", dtype, n), with_cupy=False)


def size_rows(table: Table, n: int) -> Iterator[Row]:
    for dtype in ("uint32", "uint64"):
        for log in range(14, n.bit_length() + 2, 2):
            yield sort_row(table, dtype, f"2^{log}", random_keys(dtype, 1 << log), with_cupy=False)


SECTIONS = {"main": main_rows, "index": index_rows, "matrix": matrix_rows, "robust": robust_rows, "sizes": size_rows}

if __name__ == "__main__":
    run_table("gpu.table", __doc__, "gpu_table", SECTIONS)
