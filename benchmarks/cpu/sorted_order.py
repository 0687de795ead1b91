"""Distinct keys, ranks, searches and gathers against NumPy's, SciPy's and Dask's functions, on two threads and workers.

    python -m benchmarks.cpu.sorted_order [sets order large] [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/sorted_order_cpu.json. Each job takes turns with its baselines in a separate process, and is timed in its
second run; its memory is the growth of the process since before the first run, or the peak of a worker. All results are
verified against NumPy or SciPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy.stats import rankdata

import dask_gpusort

from ..harness.command import arguments, measure
from ..harness.jobs import Effort, compared, jobs_of, on_workers
from ..harness.records import Row
from .keys import chunked

#: Keys of most rows, and their chunks, as in dask#10510.
KEYS, CHUNKS = 12_800_000, 16
FEW_VALUES = 1000
POSITIONS, POSITION_CHUNKS = 51_200_000, 64
SEARCHED_CHUNKS = 64
TESTED = 1_000_000
WORKER_MEMORY = "1 GiB"
#: Baselines of the rows that have one.
COUNTS, RANKS, TAKE = "da.unique without the inverse", "scipy.stats.rankdata", "np.take of the whole"


def in_memory(keys: np.ndarray, chunks: int = CHUNKS) -> Any:
    return chunked(keys, chunks).persist()


def equal_to(wanted: np.ndarray) -> Any:
    return lambda found, _: np.testing.assert_array_equal(found, wanted)


def distinct(n: int) -> Any:
    """Case: the distinct keys of keys that are all distinct."""
    keys = np.random.default_rng(0).permutation(n)
    x = in_memory(keys)
    return {
        "ours": lambda: dask_gpusort.unique(x).compute(),
        "da.unique": lambda: da.unique(x).compute(),
        "np.unique": lambda: np.unique(keys),
    }, equal_to(np.arange(n))


def counted(n: int) -> Any:
    """Case: few distinct values and their counts; ours gives the inverse too."""
    keys = np.random.default_rng(0).integers(0, FEW_VALUES, n)
    x = in_memory(keys)

    def check(found: tuple[np.ndarray, ...], name: str) -> None:
        values, counts = np.unique(keys, return_counts=True)
        np.testing.assert_array_equal(found[0], values)
        np.testing.assert_array_equal(found[-1], counts)
        if name == "ours":
            np.testing.assert_array_equal(values[found[1]], keys)

    return {
        "ours": lambda: dask.compute(*dask_gpusort.unique(x, return_inverse=True, return_counts=True)),
        COUNTS: lambda: dask.compute(*da.unique(x, return_counts=True)),
    }, check


def ranked(n: int) -> Any:
    """Case: average ranks of normal float64."""
    keys = np.random.default_rng(0).standard_normal(n)
    x, expected = in_memory(keys), np.empty(n)
    expected[np.argsort(keys)] = np.arange(1, n + 1)
    return {"ours": lambda: dask_gpusort.rank(x).compute(), RANKS: lambda: rankdata(keys)}, equal_to(expected)


def taken(n: int) -> Any:
    """Case: keys at random positions, which are a permutation."""
    rng = np.random.default_rng(0)
    keys, positions = rng.random(n), rng.permutation(n)
    x, at = in_memory(keys, POSITION_CHUNKS), in_memory(positions, POSITION_CHUNKS)

    def check(found: Any, name: str) -> None:
        np.testing.assert_array_equal(np.concatenate(found) if name == "ours" else found, keys[positions])

    def take() -> list[Any]:
        # The chunks, as a following step would have them: one array of them would be one more copy.
        found = dask_gpusort.take_along_axis(x, at, 0).persist()
        return [part.compute() for part in found.blocks]

    return {"ours": take, TAKE: lambda: np.take(keys, positions)}, check


def searched(n: int) -> Any:
    """Case: positions of random needles among sorted keys, both in many chunks."""
    rng = np.random.default_rng(0)
    keys, needles = np.sort(rng.integers(0, 1 << 40, n)), rng.integers(0, 1 << 40, n)
    x, v = (in_memory(array, SEARCHED_CHUNKS) for array in (keys, needles))
    return {
        "ours": lambda: dask_gpusort.searchsorted(x, v).compute(),
        "da.searchsorted": lambda: da.searchsorted(x, v).compute(),
        "np.searchsorted": lambda: np.searchsorted(keys, needles),
    }, equal_to(np.searchsorted(keys, needles))


def contained(n: int, tested: int) -> Any:
    """Case: whether each of many keys is one of fewer."""
    rng = np.random.default_rng(0)
    keys, few = rng.integers(0, 1 << 40, n), rng.integers(0, 1 << 40, tested)
    few[: tested // 2] = rng.choice(keys, tested // 2)
    x, test = in_memory(keys), in_memory(few, 4)
    return {
        "ours": lambda: dask_gpusort.isin(x, test).compute(),
        "da.isin": lambda: da.isin(x, test).compute(),
        "np.isin": lambda: np.isin(keys, few),
    }, equal_to(np.isin(keys, few))


def taken_on_workers(_: Any, n: int) -> Any:
    """Case: keys at random positions, larger than two workers."""
    keys = da.arange(n, chunks=-(-n // 64)) * 3
    positions = da.random.default_rng(0).integers(0, n, n, chunks=-(-n // 64))
    return {"ours": lambda: int((dask_gpusort.take(keys, positions) != 3 * positions).sum().compute())}, equal_to(
        np.array(0)
    )


def sets(effort: Effort) -> Iterator[Row]:
    n, tested = effort.size(KEYS, 50_000), effort.size(TESTED, 1000)
    # Two of these take half a minute.
    jobs, title = jobs_of(distinct, ("ours", "da.unique", "np.unique"), n), f"unique of {n:,} distinct int64"
    yield compared(effort.once, "unique", f"{title} in {CHUNKS} chunks", jobs)
    title = f"{FEW_VALUES:,} distinct values of {n:,} int64, their counts and the inverse"
    yield compared(effort, "counts", title, jobs_of(counted, ("ours", COUNTS), n))
    jobs = jobs_of(contained, ("ours", "da.isin", "np.isin"), n, tested)
    yield compared(effort, "isin", f"isin of {n:,} int64 in {tested:,}", jobs)


def order(effort: Effort) -> Iterator[Row]:
    n = effort.size(KEYS, 50_000)
    yield compared(effort, "rank", f"rank of {n:,} float64 in {CHUNKS} chunks", jobs_of(ranked, ("ours", RANKS), n))
    title = f"searchsorted of {n:,} needles, {SEARCHED_CHUNKS} x {SEARCHED_CHUNKS} chunks"
    jobs = jobs_of(searched, ("ours", "da.searchsorted", "np.searchsorted"), n)
    yield compared(effort, "searchsorted", title, jobs)
    n = effort.size(POSITIONS, 100_000)
    title = f"take_along_axis of {n:,} random positions in {POSITION_CHUNKS} chunks"
    yield compared(effort, "take_along_axis", title, jobs_of(taken, ("ours", TAKE), n))


def large(effort: Effort) -> Iterator[Row]:
    n, on = effort.size(1 << 27, 100_000), partial(on_workers, memory=WORKER_MEMORY, warm=False)
    title = f"take at random positions, {n:,} int64 made by tasks, two workers of {WORKER_MEMORY}"
    yield compared(effort.once, "take/workers", title, jobs_of(taken_on_workers, ["ours"], n, on=on), "s")


SECTIONS = {"sets": sets, "order": order, "large": large}

if __name__ == "__main__":
    options = arguments("cpu.sorted_order", __doc__, list(SECTIONS))
    measure(options, "sorted_order_cpu", SECTIONS, options.effort)
