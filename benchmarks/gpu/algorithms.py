"""Measures every algorithm on one GPU, and a sorting network on a billion keys.

    python -m benchmarks.gpu.algorithms [algorithms network] [--cub LIBRARY] [--output DIRECTORY] [--commit COMMIT]

Writes results/algorithms_gpu.json in about a minute. Times are medians by CUDA events; the sorts take turns. The GPU is
kept busy, because after an idle time a sort of 0.46 ms took 0.58 ms. Every result is verified. Needs CuPy, and nvcc to
build CUB's library.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import cupy as cp
import numpy as np

from dask_gpusort import kernels
from dask_gpusort.kernels.papers import count_scan_reorder, four_step, odd_even_merge, passes, split

from ..baselines.cub import Cub
from ..harness import device
from ..harness.device import Table, random_keys, run_table, timed
from ..harness.records import Point
from ..harness.verify import is_sorted_permutation

SIZES_LOG2 = range(10, 30, 2)
#: Number of keys in the blog post's measurement: https://magnickolas.github.io, "Parallel Sorting on GPU: Part 2".
BLOG_KEYS = 1_000_000_000

Sort = Callable[[Any, Any], Any]


PAPERS = {"four_step": four_step, "count_scan_reorder": count_scan_reorder, "split": split}


def of_paper(name: str) -> Sort:
    return lambda keys, out: passes.sort_keys(PAPERS[name].sort, keys, out)


def by_network(name: str) -> Sort:
    def sort(keys: Any, out: Any) -> None:
        out[...] = keys
        getattr(odd_even_merge, name)(out)

    return sort


def by_cupy(keys: Any, out: Any) -> None:
    cp.sort(keys)


#: "auto" is the default; for 32- and 64-bit keys it is "msd".
SORTS: dict[str, Sort] = {
    "auto": lambda keys, out: kernels.sort_keys(keys, out=out),
    "lsd": lambda keys, out: kernels.sort_keys(keys, out=out, algorithm="lsd"),
    **{name: of_paper(name) for name in PAPERS},
    "merge": lambda keys, out: kernels.sort_by_comparison(keys, less="a < b", out=out),
    **{name: by_network(name) for name in ("odd_even_merge", "odd_even_transposition")},
    "cupy.sort": by_cupy,
}


def checked(what: str, keys: Any, out: Any) -> None:
    """Raise unless `out` holds the sorted keys. Uses none of our kernels."""
    if not is_sorted_permutation(keys, out):
        raise AssertionError(f"{what}: the result is not the sorted keys")


def measure(figure: str, x: float, keys: Any, series: Iterable[str]) -> list[Point]:
    """Check the results of several sorts, then time the sorts in turns."""
    out = cp.empty_like(keys)
    for name in series:
        out.view(np.uint8).fill(0x5A)
        SORTS[name](keys, out)
        checked(f"{name}, {x:g}", keys, cp.sort(keys) if SORTS[name] is by_cupy else out)
    samples = timed({name: partial(SORTS[name], keys, out) for name in series})
    return [Point(figure, name, x, samples[name]) for name in series]


def measure_cub(figure: str, x: float, keys: Any, cub: Cub) -> Point:
    return Point(figure, "CUB", x, [cub.keys(keys) / 1e3])


def algorithm_points(table: Table, _: int) -> Iterator[Point]:
    slow: set[str] = set()
    for log2 in SIZES_LOG2:
        keys = random_keys(np.uint32, 1 << log2)
        points = measure("algorithms", keys.size, keys, [series for series in SORTS if series not in slow])
        yield from points
        # Four times the keys take at least four times as long.
        slow |= {point.series for point in points if 4 * point.median > device.MOST_SECONDS}
        yield measure_cub("algorithms", keys.size, keys, table.cub)
        cp.get_default_memory_pool().free_all_blocks()


def network_points(table: Table, _: int) -> Iterator[Point]:
    """The blog post's measurement: 10^9 keys by a network, by CUB, by our sort, and on one thread of the host."""
    keys = random_keys(np.uint32, BLOG_KEYS)
    yield from measure("network", BLOG_KEYS, keys, ("odd_even_merge", "auto"))
    yield measure_cub("network", BLOG_KEYS, keys, table.cub)
    on_host = cp.asnumpy(keys)
    start = time.perf_counter()
    on_host.sort()
    yield Point("network", "numpy.sort, one thread of the host", BLOG_KEYS, [time.perf_counter() - start])


SECTIONS = {
    "algorithms": algorithm_points,
    "network": network_points,
}

if __name__ == "__main__":
    run_table("gpu.algorithms", __doc__, "algorithms_gpu", SECTIONS)
