"""Measures the radix sorts on one GPU, against CUB and CuPy in the same run.

    python -m benchmarks.gpu.table [main index matrix robust sizes] [--keys-log2 28] [--cub LIBRARY]
                                   [--output DIRECTORY] [--commit COMMIT]

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
from ..harness.records import Row

LOW_ENTROPY_TERMS = (2, 4)  # random keys and-ed together


def sort_row(table: Table, work: str, keys: Any, wanted: float, against: str = "CUB", with_cupy: bool = True) -> Row:
    out = cp.empty_like(keys)
    out.view(np.uint8).fill(0x5A)
    ours = median_ms(lambda: kernels.sort_keys(keys, out=out))
    verified = is_sorted_form(keys, out)
    cub = table.cub.keys(keys) if keys.dtype.name not in ("float16", "complex64", "bool") else None
    cupy = median_ms(lambda: cp.sort(keys), 3) if with_cupy else None
    baselines = {"CUB": cub, "CuPy": cupy} if against == "CUB" else {"CuPy": cupy, "CUB": cub}
    # Number of times each key is read or written: count and fill, or count, two levels of partition and block sort.
    crossings = 2 if keys.itemsize <= 2 else 7
    return table.row(work, keys.size, ours, verified, baselines, wanted, crossings * keys.nbytes)


def main_rows(table: Table, n: int) -> Iterator[Row]:
    for dtype, wanted in (("uint32", 1.6), ("float32", 1.6), ("uint64", 2.8), ("float64", 2.8), ("int64", 2.8)):
        yield sort_row(table, f"{dtype} keys, random bits", random_keys(dtype, n), wanted)
    for dtype, wanted in (("float32", 1.6), ("float64", 2.8)):
        for name in ("uniform [0, 1)", "normal"):
            yield sort_row(table, f"{dtype} keys, {name}", make_keys(name, dtype, n), wanted)
    yield sort_row(table, "int64 keys below 2^24", make_keys("below 2^24", "int64", n), 3.0)
    yield sort_row(table, "uint8 keys", random_keys("uint8", n), 2.0)
    yield sort_row(table, "uint16 keys", random_keys("uint16", n), 2.0)
    yield sort_row(table, "float16 keys", random_keys("float16", n), 8.0, "CuPy")
    yield sort_row(table, "complex64 keys", random_keys("complex64", n), 4.0, "CuPy")


def index_rows(table: Table, n: int) -> Iterator[Row]:
    for dtype, wanted in (("uint32", 1.5), ("uint64", 2.0)):
        keys, values = random_keys(dtype, n), cp.arange(n, dtype=np.uint64)
        out = cp.empty(n, np.int64)
        size = keys.itemsize
        ours = median_ms(lambda: kernels.argsort(keys, out=out))  # noqa: B023 - called at once
        cub = {v: table.cub.pairs(keys, values.astype(v)) for v in ("uint32", "uint64")}
        good = is_argsorted(keys, out)
        cupy = median_ms(lambda: cp.argsort(keys), 3)  # noqa: B023
        traffic = n * (2 * size + 5 * (8 if size == 4 else 12) + 8)
        for value, both in cub.items():
            work = f"argsort {dtype}, CUB {dtype}/{value} pairs"
            yield table.row(work, n, ours, good, {"CUB": both, "CuPy": cupy}, wanted, traffic)
        yield table.row(f"argsort {dtype}, cupy.argsort", n, ours, good, {"CuPy": cupy}, 2.0, traffic)
        keys_out, values_out = cp.empty_like(keys), cp.empty_like(values)
        ours = median_ms(lambda: kernels.sort_pairs(keys, values, keys_out=keys_out, values_out=values_out))  # noqa: B023
        good = is_argsorted(keys, values_out.view(np.int64)) and bool((keys_out == keys[values_out]).all())
        # Count; first level (keys, values); second level (keys, then keys and positions); block sort; gather.
        traffic = n * (size + 2 * (size + 8) + size + 2 * (8 if size == 4 else 12) + size + 4 + 4 + 8 + 8)
        least = 1.8 if size == 8 else 1.0
        yield table.row(f"pairs {dtype}/uint64", n, ours, good, {"CUB": cub["uint64"]}, least, traffic)


def matrix_rows(table: Table, n: int) -> Iterator[Row]:
    log = n.bit_length() - 1
    for rows_log in (log // 2, log - 8, 8):
        shape = (1 << rows_log, 1 << (log - rows_log))
        keys = cp.random.default_rng(5).random(shape, dtype=np.float32)
        out = cp.empty_like(keys)
        ours = median_ms(lambda: kernels.sort_rows(keys, out=out))  # noqa: B023
        good = bool((out[:, 1:] >= out[:, :-1]).all()) and bool(cp.allclose(keys.sum(1), out.sum(1), rtol=1e-3))
        cupy = median_ms(lambda: cp.sort(keys, axis=-1), 1)  # noqa: B023
        work = f"rows {shape[0]} x {shape[1]} float32"
        yield table.row(work, n, ours, good, {"CuPy": cupy}, 30.0, 2 * keys.nbytes)


def robust_rows(table: Table, n: int) -> Iterator[Row]:
    names = ["sorted", "reversed", "all equal", "16 distinct", "Zipf", *(f"and of {k}" for k in LOW_ENTROPY_TERMS)]
    for dtype in ("uint32", "uint64"):
        for name in names:
            yield sort_row(table, f"{dtype} keys, {name}", make_keys(name, dtype, n), 0.9, with_cupy=False)
    for dtype in ("float32", "float64"):
        yield sort_row(table, f"{dtype} keys, nearly equal", make_keys("nearly equal", dtype, n), 0.9, with_cupy=False)


def size_rows(table: Table, n: int) -> Iterator[Row]:
    for dtype in ("uint32", "uint64"):
        for log in range(14, n.bit_length() + 2, 2):
            yield sort_row(table, f"{dtype} keys, 2^{log}", random_keys(dtype, 1 << log), 0.9, with_cupy=False)


SECTIONS = {"main": main_rows, "index": index_rows, "matrix": matrix_rows, "robust": robust_rows, "sizes": size_rows}

if __name__ == "__main__":
    run_table("benchmarks.gpu.table", __doc__, "gpu_table", SECTIONS)
