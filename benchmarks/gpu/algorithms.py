"""Measures every algorithm on one GPU against the number of keys.

    python -m benchmarks.gpu.algorithms [--output DIRECTORY] [--commit COMMIT]

Writes results/algorithms_gpu.json in about a minute. Times are medians by CUDA events; the sorts take turns. The GPU is
kept busy, because after an idle time a sort of 0.46 ms took 0.58 ms. Every result is verified. Needs CuPy, and nvcc to
build CUB's library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import cupy as cp
import numpy as np

from dask_gpusort import kernels
from dask_gpusort.kernels.papers import count_scan_reorder, four_step, odd_even_merge, passes, split

from ..harness import device
from ..harness.device import Table, random_keys, run_table, timed
from ..harness.records import Point
from ..harness.verify import is_sorted_permutation

SIZES = [1 << log2 for log2 in range(10, 30, 2)]

#: Writes the sorted keys to the second array, or returns them.
Sort = Callable[[Any, Any], Any]
PAPERS = {"four_step": four_step, "count_scan_reorder": count_scan_reorder, "split": split}


def of_paper(name: str) -> Sort:
    return lambda keys, out: passes.sort_keys(PAPERS[name].sort, keys, out)


def by_network(name: str) -> Sort:
    def sort(keys: Any, out: Any) -> None:
        out[...] = keys
        getattr(odd_even_merge, name)(out)

    return sort


#: "auto" is the default; for 32- and 64-bit keys it is "msd".
SORTS: dict[str, Sort] = {
    "auto": lambda keys, out: kernels.sort_keys(keys, out=out),
    "lsd": lambda keys, out: kernels.sort_keys(keys, out=out, algorithm="lsd"),
    **{name: of_paper(name) for name in PAPERS},
    "merge": lambda keys, out: kernels.sort_by_comparison(keys, less="a < b", out=out),
    **{name: by_network(name) for name in ("odd_even_merge", "odd_even_transposition")},
    "cupy.sort": lambda keys, _: cp.sort(keys),
}


def points(table: Table, _: int) -> Iterator[Point]:
    """Check the results of the sorts, then time them in turns, for more and more keys."""
    slow: set[str] = set()
    for n in SIZES:
        keys = random_keys(np.uint32, n)
        out, names = cp.empty_like(keys), [name for name in SORTS if name not in slow]
        for name in names:
            out.view(np.uint8).fill(0x5A)
            found = SORTS[name](keys, out)
            # The check uses none of our kernels.
            if not is_sorted_permutation(keys, out if found is None else found):
                raise AssertionError(f"{name}, {n}: the result is not the sorted keys")
        samples = timed({name: partial(SORTS[name], keys, out) for name in names})
        points = [Point("algorithms", name, n, samples[name]) for name in names]
        yield from points
        # The next size, of at least four times the keys, takes at least four times as long.
        slow |= {point.series for point in points if 4 * point.median > device.MOST_SECONDS}
        yield Point("algorithms", "CUB", n, [table.cub.keys(keys) / 1e3])
        cp.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    run_table("gpu.algorithms", __doc__, "algorithms_gpu", {"algorithms": points})
