"""Runs a sort from edited kernel sources. It is a separate process, because broken kernels may write anywhere.

``python -m support.host_cuda.mutant ALGORITHM SOURCES CACHE`` exits with 0 if the result is right for every order of
threads; otherwise it exits with `BROKEN` or by a signal.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dask_gpusort.kernels import merging
from dask_gpusort.kernels.launch import loader
from dask_gpusort.kernels.merge import merge_sort
from dask_gpusort.kernels.papers import sampled_merge_sort
from dask_gpusort.kernels.papers.passes import KeyValueArrays
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.kernels.primitives import scan

from .device import HostDevice, KernelFault

#: Exit status of a wrong result; Python itself exits with 1 or 2.
BROKEN = 3
#: Every launch draws a new order of threads, so a sort of 16-bit keys in 4 passes tries at least 4 x 12 orders.
ATTEMPTS = 12
#: Five tiles of 16-bit keys; the last is not full.
KEYS = 9001
#: Enough for two levels of the scan.
COUNTS = scan.ONE_BLOCK_VALUES + 5


def scans_right(device: HostDevice, rng: np.random.Generator) -> bool:
    counts = rng.integers(0, 1 << 40, COUNTS, dtype=np.uint64)
    by_tiles, by_one_block = device.array(counts), device.array(counts)
    scan.exclusive_scan(by_tiles)
    scan.scan_in_one_block(by_one_block)
    expected = np.cumsum(counts) - counts
    return bool((by_tiles == expected).all() and (by_one_block == expected).all())


def sorts_right(algorithm: str, device: HostDevice, rng: np.random.Generator) -> bool:
    keys = rng.integers(0, 1 << 16, KEYS, dtype=np.uint16)
    out = KeyValueArrays(device.empty(KEYS, np.uint16), device.empty(KEYS, np.uint32))
    import_module(f"dask_gpusort.kernels.papers.{algorithm}").sort(KeyValueArrays(device.array(keys)), out)
    positions = np.argsort(keys, kind="stable")
    return bool((out.values == positions).all() and (out.keys == keys[positions]).all())


#: A tile has four warps, so runs are merged within one warp, across two, and across all four.
TILE = tuning.MergeShape(128, 5)
#: Several tiles; the last is not full.
MERGED_KEYS = 7 * TILE.keys // 2


def merges_right(device: HostDevice, rng: np.random.Generator) -> bool:
    keys = rng.integers(0, 1 << 16, MERGED_KEYS, dtype=np.uint16)
    wanted = np.argsort(keys, kind="stable")
    for sort in (merge_sort.sort, sampled_merge_sort.sort):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(merge_sort, "sort", sort)
            if (merging.argsort_by_comparison(device.array(keys), less="a < b") != wanted).any():
                return False
    runs = [device.array(np.sort(part)) for part in np.split(keys, [1000, 1100])]
    return bool((merging.merge_runs(runs)[0] == np.sort(keys)).all())


RUNS_RIGHT = {"scan": scans_right, "merge": merges_right}


def main(algorithm: str, sources: Path, cache: Path) -> int:
    device, rng = HostDevice(sources, cache), np.random.default_rng(0)
    patch = pytest.MonkeyPatch()
    device.replace_cupy(patch)
    # Kernels with an expression are compiled from what the loader has read.
    texts = {path.relative_to(sources).as_posix(): path.read_text() for path in sources.rglob("*.cu*")}
    patch.setattr(loader, "SOURCE_TEXTS", texts)
    loader.whole_text.cache_clear()
    patch.setattr(tuning, "MERGE", dict.fromkeys(tuning.MERGE, TILE))
    try:
        for _ in range(ATTEMPTS):
            run = RUNS_RIGHT.get(algorithm, partial(sorts_right, algorithm))
            if not run(device, rng):
                return BROKEN
            device.check()
    except KernelFault:
        return BROKEN
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
