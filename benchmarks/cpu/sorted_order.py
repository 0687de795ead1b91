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


def alike(work: str, n: int, tested: int = 0) -> Any:
    """Case: a function of keys that Dask and NumPy have by the same name."""
    rng, chunks = np.random.default_rng(0), (CHUNKS,)
    if work == "unique":
        arrays = [rng.permutation(n)]
    elif work == "searchsorted":
        arrays = [np.sort(rng.integers(0, 1 << 40, n)), rng.integers(0, 1 << 40, n)]
        chunks = SEARCHED_CHUNKS, SEARCHED_CHUNKS
    else:
        arrays, chunks = [rng.integers(0, 1 << 40, size) for size in (n, tested)], (CHUNKS, 4)
        arrays[1][: tested // 2] = rng.choice(arrays[0], tested // 2)
    lazy = list(map(in_memory, arrays, chunks))
    works = {
        who: lambda module=module: getattr(module, work)(*lazy).compute()
        for who, module in {"ours": dask_gpusort, f"da.{work}": da}.items()
    }
    return works | {f"np.{work}": lambda: getattr(np, work)(*arrays)}, equal_to(getattr(np, work)(*arrays))


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


def taken_on_workers(_: Any, n: int) -> Any:
    """Case: keys at random positions, larger than two workers."""
    keys = da.arange(n, chunks=-(-n // 64)) * 3
    positions = da.random.default_rng(0).integers(0, n, n, chunks=-(-n // 64))
    return {"ours": lambda: int((dask_gpusort.take(keys, positions) != 3 * positions).sum().compute())}, equal_to(
        np.array(0)
    )


def row(effort: Effort, title: str, work: str, *args: Any) -> Row:
    return compared(effort, work, title, jobs_of(alike, ("ours", f"da.{work}", f"np.{work}"), work, *args))


def sets(effort: Effort) -> Iterator[Row]:
    n, tested = effort.size(KEYS, 50_000), effort.size(TESTED, 1000)
    # Two of these take half a minute.
    yield row(effort.once, f"unique of {n:,} distinct int64 in {CHUNKS} chunks", "unique", n)
    title = f"{FEW_VALUES:,} distinct values of {n:,} int64, their counts and the inverse"
    yield compared(effort, "counts", title, jobs_of(counted, ("ours", COUNTS), n))
    yield row(effort, f"isin of {n:,} int64 in {tested:,}", "isin", n, tested)


def order(effort: Effort) -> Iterator[Row]:
    n = effort.size(KEYS, 50_000)
    yield compared(effort, "rank", f"rank of {n:,} float64 in {CHUNKS} chunks", jobs_of(ranked, ("ours", RANKS), n))
    title = f"searchsorted of {n:,} needles, {SEARCHED_CHUNKS} x {SEARCHED_CHUNKS} chunks"
    yield row(effort, title, "searchsorted", n)
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
