"""Distinct keys, ranks, searches and gathers against NumPy's, SciPy's and Dask's functions, on two threads and workers.

    python -m benchmarks.cpu.sorted_order [section ...] [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/sorted_order_cpu.json. Each job takes turns with its baselines in a separate process, and is timed in its
second run. `dask.array.unique` and NumPy's of distinct keys take half a minute: these two run once. Peaks of memory are
those of the process, without what it took before. All results are verified against NumPy or SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy.stats import rankdata

import dask_gpusort

from ..harness.command import run_rows
from ..harness.jobs import Effort, compare, in_turns, peak_memory, seconds_of, warmed
from ..harness.records import Row
from .cluster import two_workers
from .order_statistics import forget_peak, on_two_threads, peak_of_worker

#: Keys of most rows, and their chunks, as in dask#10510.
KEYS, CHUNKS = 12_800_000, 16
FEW_VALUES = 1000
POSITIONS, POSITION_CHUNKS = 51_200_000, 64
SEARCHED_CHUNKS = 64
TESTED = 1_000_000
WORKER_MEMORY = "1 GiB"


def in_memory(keys: np.ndarray, chunks: int) -> Any:
    return da.from_array(keys, chunks=-(-len(keys) // chunks)).persist()


@contextmanager
def distinct(how: str, n: int) -> Iterator[Any]:
    """The distinct keys of keys that are all distinct."""
    keys = np.random.default_rng(0).permutation(n)
    x = in_memory(keys, CHUNKS)
    work: dict[str, Callable[[], Any]] = {
        "ours": lambda: dask_gpusort.unique(x).compute(),
        "da.unique": lambda: da.unique(x).compute(),
        "np.unique": lambda: np.unique(keys),
    }

    def check(found: np.ndarray) -> None:
        np.testing.assert_array_equal(found, np.arange(n))

    with on_two_threads():
        yield work[how], check


@contextmanager
def counted(ours: bool, n: int) -> Iterator[Any]:
    """Few distinct values and their counts; ours gives the inverse too. The peak of memory in bytes of the keys."""
    keys = np.random.default_rng(0).integers(0, FEW_VALUES, n)
    x = in_memory(keys, CHUNKS)
    before = forget_peak()

    def count() -> tuple[np.ndarray, ...]:
        module = dask_gpusort if ours else da
        extra = {"return_inverse": True} if ours else {}
        found: tuple[np.ndarray, ...] = dask.compute(*module.unique(x, return_counts=True, **extra))
        return found

    def check(found: tuple[np.ndarray, ...]) -> float:
        peak = (peak_memory() - before) / keys.nbytes
        values, counts = np.unique(keys, return_counts=True)
        np.testing.assert_array_equal(found[0], values)
        np.testing.assert_array_equal(found[-1], counts)
        if ours:
            np.testing.assert_array_equal(values[found[1]], keys)
        return peak

    with on_two_threads():
        yield count, check


@contextmanager
def ranked(ours: bool, n: int) -> Iterator[Any]:
    """Average ranks of normal float64."""
    keys = np.random.default_rng(0).standard_normal(n)
    x = in_memory(keys, CHUNKS)

    def check(found: np.ndarray) -> None:
        expected = np.empty(n)
        expected[np.argsort(keys)] = np.arange(1, n + 1)
        np.testing.assert_array_equal(found, expected)

    with on_two_threads():
        yield (lambda: dask_gpusort.rank(x).compute()) if ours else (lambda: rankdata(keys)), check


@contextmanager
def taken(ours: bool, n: int) -> Iterator[Any]:
    """Keys at random positions, which are a permutation."""
    rng = np.random.default_rng(0)
    keys, positions = rng.random(n), rng.permutation(n)
    x, at = in_memory(keys, POSITION_CHUNKS), in_memory(positions, POSITION_CHUNKS)

    def check(found: Any) -> None:
        np.testing.assert_array_equal(np.concatenate(found) if ours else found, keys[positions])

    def take() -> list[Any]:
        # The chunks, as a following step would have them: one array of them would be one more copy.
        found = dask_gpusort.take_along_axis(x, at, 0).persist()
        return [part.compute() for part in found.blocks]

    with on_two_threads():
        yield take if ours else (lambda: np.take(keys, positions)), check


@contextmanager
def searched(how: str, n: int) -> Iterator[Any]:
    """Positions of random needles among sorted keys, both in many chunks."""
    rng = np.random.default_rng(0)
    keys, needles = np.sort(rng.integers(0, 1 << 40, n)), rng.integers(0, 1 << 40, n)
    x, v = (in_memory(array, SEARCHED_CHUNKS) for array in (keys, needles))
    work: dict[str, Callable[[], Any]] = {
        "ours": lambda: dask_gpusort.searchsorted(x, v).compute(),
        "da.searchsorted": lambda: da.searchsorted(x, v).compute(),
        "np.searchsorted": lambda: np.searchsorted(keys, needles),
    }

    def check(found: np.ndarray) -> float:
        np.testing.assert_array_equal(found, np.searchsorted(keys, needles))
        return float(len(dict(dask_gpusort.searchsorted(x, v).__dask_graph__())))

    with on_two_threads():
        yield work[how], check


@contextmanager
def contained(how: str, n: int, tested: int) -> Iterator[Any]:
    """Whether each of many keys is one of fewer."""
    rng = np.random.default_rng(0)
    keys, few = rng.integers(0, 1 << 40, n), rng.integers(0, 1 << 40, tested)
    few[: tested // 2] = rng.choice(keys, tested // 2)
    x, test = in_memory(keys, CHUNKS), in_memory(few, 4)
    work: dict[str, Callable[[], Any]] = {
        "ours": lambda: dask_gpusort.isin(x, test).compute(),
        "da.isin": lambda: da.isin(x, test).compute(),
        "np.isin": lambda: np.isin(keys, few),
    }

    def check(found: np.ndarray) -> None:
        np.testing.assert_array_equal(found, np.isin(keys, few))

    with on_two_threads():
        yield work[how], check


@contextmanager
def taken_on_workers(n: int, chunks: int) -> Iterator[Any]:
    """Keys at random positions, larger than two workers; and the peak of a worker in MiB."""
    with two_workers(memory=WORKER_MEMORY) as client:
        size = -(-n // chunks)
        keys = da.arange(n, chunks=size) * 3
        positions = da.random.default_rng(0).integers(0, n, n, chunks=size)

        def take() -> int:
            return int((dask_gpusort.take(keys, positions) != 3 * positions).sum().compute())

        def check(found: int) -> float:
            assert found == 0
            return max(client.run(peak_of_worker).values()) / 1024

        yield take, check


def aim(least: float | None) -> dict[str, str]:
    return {} if least is None else {"wanted": f"{least} x"}


def sets(effort: Effort) -> Iterator[Row]:
    n, once = effort.size(KEYS, 50_000), Effort(effort.quick, 1)
    found = in_turns(once, {how: (distinct, how, n) for how in ("da.unique", "np.unique")})
    found |= in_turns(effort, {"ours": (warmed, distinct, "ours", n)})
    title = f"unique of {n:,} distinct int64 in {CHUNKS} chunks"
    for baseline, least in (("da.unique", 10), ("np.unique", 6)):
        ours = found["ours"][: len(found[baseline])]
        yield compare(ours, found[baseline], baseline, least, work=title, wanted=f"{least} x {baseline}")
    both = in_turns(effort, {name: (warmed, counted, name == "ours", n) for name in ("ours", "theirs")})
    title = f"{FEW_VALUES:,} distinct values of {n:,} int64, their counts and the inverse"
    yield compare(*both.values(), "da.unique without the inverse", 5, work=title, wanted="5 x")
    yield Row(f"{title}: peak", both["ours"][0].own_seconds, "x the keys")
    tested = effort.size(TESTED, 1000)
    hows = ("ours", "da.isin", "np.isin")
    members = in_turns(effort, {how: (warmed, contained, how, n, tested) for how in hows})
    for baseline, wanted in (("da.isin", 5), ("np.isin", None)):
        title = f"isin of {n:,} int64 in {tested:,}"
        yield compare(members["ours"], members[baseline], baseline, wanted, work=title, **aim(wanted))


def order(effort: Effort) -> Iterator[Row]:
    n = effort.size(KEYS, 50_000)
    both = in_turns(effort, {name: (warmed, ranked, name == "ours", n) for name in ("ours", "theirs")})
    title = f"rank of {n:,} float64 in {CHUNKS} chunks"
    yield compare(*both.values(), "scipy.stats.rankdata", 2, work=title, wanted="2 x")
    hows = ("ours", "da.searchsorted", "np.searchsorted")
    found = in_turns(effort, {how: (warmed, searched, how, n) for how in hows})
    title = f"searchsorted of {n:,} needles, {SEARCHED_CHUNKS} x {SEARCHED_CHUNKS} chunks"
    for baseline, least in (("da.searchsorted", 5), ("np.searchsorted", None)):
        yield compare(found["ours"], found[baseline], baseline, least, work=title, **aim(least))
    yield Row(f"{title}: tasks", found["ours"][0].own_seconds, "").aiming(most=1000)
    n = effort.size(POSITIONS, 100_000)
    both = in_turns(effort, {name: (warmed, taken, name == "ours", n) for name in ("ours", "theirs")})
    title = f"take_along_axis of {n:,} random positions in {POSITION_CHUNKS} chunks"
    yield compare(*both.values(), "np.take of the whole", 0.25, work=title, wanted="0.25 x")


def large(effort: Effort) -> Iterator[Row]:
    n = effort.size(1 << 27, 100_000)
    (sample,) = in_turns(Effort(effort.quick, 1), {"ours": (taken_on_workers, n, 64)})["ours"]
    title = f"take at random positions, {n:,} int64 made by tasks, two workers of {WORKER_MEMORY}"
    yield Row(title, seconds_of([sample]), "s")
    yield Row(f"{title}: peak of a worker", sample.own_seconds, "MiB").aiming(most=1024)


if __name__ == "__main__":
    sections = {"sets": sets, "order": order, "large": large}
    run_rows("benchmarks.cpu.sorted_order", __doc__, "sorted_order_cpu", sections)
