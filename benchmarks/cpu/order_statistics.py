"""Quantiles, medians and the largest keys against Dask's functions, xarray and our sort, on two threads and workers.

    python -m benchmarks.cpu.order_statistics [section ...] [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/order_statistics_cpu.json. Each job takes turns with its baseline in a separate process, and is timed in
its second run; peaks of memory are those of the process, without what it took before the first run. Exact results are
verified against NumPy, or against counts of all keys.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import xarray as xr

import dask_gpusort

from ..harness.command import run_rows
from ..harness.jobs import Effort, Sample, compare, in_turns, peak_memory, seconds_of, warmed
from ..harness.records import Row
from .cluster import two_workers

Q = [0.05, 0.25, 0.5, 0.75, 0.95]
#: Keys of the arrays in chunks, as in Dask's own issues about percentiles.
KEYS = 51_200_000
CHUNKS = 64
TOP = 1000
#: Shape of a cube of days, rows and columns, of which a tenth is missing.
CUBE = (730, 300, 400)
MISSING = 0.1
WORKER_MEMORY = "512 MiB"


def forget_peak() -> int:
    """Let the peak of this process's memory begin anew; its memory now, in bytes."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")
    return peak_memory()


def on_two_threads() -> Any:
    return dask.config.set(scheduler="threads", num_workers=2)


FLAT: dict[str, Callable[[Any], Any]] = {
    "ours": lambda x: dask_gpusort.quantile(x, Q),
    "da.percentile": lambda x: da.percentile(x, [100 * q for q in Q]),
    "da.quantile": lambda x: da.quantile(x.rechunk(-1), Q),
    "our sort": lambda x: dask_gpusort.sort(x).map_blocks(len, dtype=int, chunks=(1,)),
}


@contextmanager
def quantiles(how: str, n: int, chunks: int) -> Iterator[Any]:
    """Five quantiles of normal float64 in memory. Approximate ones must be near; of a sort, the sizes are checked."""
    keys = np.random.default_rng(0).standard_normal(n)
    x = da.from_array(keys, chunks=-(-n // chunks)).persist()

    def check(found: np.ndarray) -> None:
        if how == "our sort":
            assert found.sum() == n
        else:
            np.testing.assert_allclose(found, np.quantile(keys, Q), rtol=0, atol=0.2 if how == "da.percentile" else 0)

    with on_two_threads():
        yield FLAT[how](x).compute, check


@contextmanager
def largest(ours: bool, n: int, chunks: int) -> Iterator[Any]:
    """The largest keys and their positions."""
    keys = np.random.default_rng(0).standard_normal(n)
    x = da.from_array(keys, chunks=-(-n // chunks)).persist()
    module = dask_gpusort if ours else da

    def check(found: tuple[np.ndarray, np.ndarray]) -> None:
        expected = np.argsort(keys)[::-1][:TOP]
        np.testing.assert_array_equal(found[1], expected)
        np.testing.assert_array_equal(found[0], keys[expected])

    with on_two_threads():
        yield lambda: dask.compute(module.topk(x, TOP), module.argtopk(x, TOP)), check


CUBES: dict[str, Callable[[Any], Any]] = {
    "median": lambda cube: cube.median("time"),
    "quantile": lambda cube: cube.quantile(Q, "time"),
}


@contextmanager
def of_a_cube(work: str, ours: bool, chunks: tuple[int, ...], quick: bool) -> Iterator[Any]:
    """A method of xarray along time, with this package registered or without."""
    shape = (73, 30, 40) if quick else CUBE
    rng = np.random.default_rng(0)
    keys = rng.standard_normal(shape, dtype="f4")
    keys[rng.random(shape, dtype="f4") < MISSING] = np.nan
    cube = xr.DataArray(da.from_array(keys, chunks=chunks), dims=("time", "y", "x"))
    before = forget_peak()

    def check(found: Any) -> float:
        peak = (peak_memory() - before) / 2**20
        with np.errstate(invalid="ignore"):
            lanes = keys[:, ::29, ::31]
            expected = np.nanmedian(lanes, 0) if work == "median" else np.nanquantile(lanes, Q, 0)
        # Dask interpolates in another order of operations than NumPy.
        np.testing.assert_allclose(found.values[..., ::29, ::31], expected, rtol=0 if ours else 1e-6)
        return peak

    if ours:
        dask_gpusort.register()
    try:
        with on_two_threads():
            yield lambda: CUBES[work](cube).compute(), check
    finally:
        dask_gpusort.unregister()


@contextmanager
def of_made_keys(sort: bool, n: int, chunks: int) -> Iterator[Any]:
    """The median of float32 that tasks make, and the peak of memory in MiB."""
    x = da.random.default_rng(0).random(n, chunks=-(-n // chunks), dtype="f4")
    before = forget_peak()

    def middle() -> Any:
        if sort:
            return float(dask_gpusort.sort(x)[n // 2 - 1 : n // 2 + 1].mean().compute())
        with dask.config.set({"gpusort.held_share": 0}):
            return float(dask_gpusort.median(x).compute())

    def check(found: float) -> float:
        peak = (peak_memory() - before) / 2**20
        less, most = dask.compute((x < np.float32(found)).sum(), (x <= np.float32(found)).sum())
        assert less <= n // 2 <= most, (less, most)
        return peak

    with on_two_threads():
        yield middle, check


def peak_of_worker() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def on_small_workers(n: int, chunks: int) -> Iterator[Any]:
    """Five quantiles of float64 that tasks make, larger than two workers, and the peak of a worker in MiB."""
    with two_workers(memory=WORKER_MEMORY) as client:
        x = da.random.default_rng(0).standard_normal(n, chunks=-(-n // chunks))

        def check(found: np.ndarray) -> float:
            peak = max(client.run(peak_of_worker).values()) / 1024
            below = dask.compute(*((x <= q).sum() for q in found))
            # An interpolated quantile is between two neighbouring ranks.
            assert [one - 1 for one in below] == [int(q * (n - 1)) for q in Q], below
            return peak

        yield lambda: dask_gpusort.quantile(x, Q).compute(), check


@contextmanager
def of_many_chunks(n: int, chunks: int) -> Iterator[Any]:
    """Five quantiles of held float64 in many chunks, on two workers."""
    with two_workers() as client:
        x = client.persist(da.random.default_rng(0).standard_normal(n, chunks=-(-n // chunks)))
        keys = x.compute()

        def check(found: np.ndarray) -> None:
            np.testing.assert_array_equal(found, np.quantile(keys, Q))

        yield lambda: dask_gpusort.quantile(x, Q).compute(), check


def flat(effort: Effort) -> Iterator[Row]:
    n = effort.size(KEYS, 200_000)
    found = in_turns(effort, {how: (warmed, quantiles, how, n, CHUNKS) for how in FLAT})
    title = f"five quantiles of {n:,} float64 in {CHUNKS} chunks"
    for baseline, least in (("da.percentile", 1.5), ("da.quantile", 6), ("our sort", 5)):
        note = f"{title}, {'approximate' if baseline == 'da.percentile' else 'exact'}"
        yield compare(found["ours"], found[baseline], baseline, least, work=note, wanted=f"{least} x {baseline}")
    both = in_turns(effort, {name: (warmed, largest, name == "ours", n, CHUNKS) for name in ("ours", "theirs")})
    title = f"the {TOP:,} largest of {n:,} float64 in {CHUNKS} chunks, and their positions"
    yield compare(*both.values(), "da.topk and da.argtopk", 1.2, work=title, wanted="1.2 x")


def cubes(effort: Effort) -> Iterator[Row]:
    for chunks, wanted in (((73, 100, 100), {"median": 6, "quantile": 1.5}), ((10, 300, 400), dict.fromkeys(CUBES, 3))):
        for work, least in wanted.items():
            jobs = {name: (of_a_cube, work, name == "ours", chunks, effort.quick) for name in ("ours", "xarray")}
            found = in_turns(effort, jobs)
            title = f"{work} over time of {CUBE} float32 in chunks {chunks}, {MISSING:.0%} missing"
            yield compare(*found.values(), "xarray", least, work=title, wanted=f"{least} x")
            yield _peaks(found, f"{title}: peak", least=2 if chunks[0] == 73 else None)


def _peaks(found: dict[str, list[Sample]], work: str, least: float | None) -> Row:
    peaks = {name: [sample.own_seconds for sample in samples] for name, samples in found.items()}
    ours, theirs = (float(np.median(one)) for one in peaks.values())
    row = Row(work, ours, "MiB", baselines={"xarray": theirs}, samples=peaks)
    return row if least is None else row.aiming(least=least)


def large(effort: Effort) -> Iterator[Row]:
    once = Effort(effort.quick, 1)
    n = effort.size(10**9, 100_000)
    found = in_turns(once, {name: (of_made_keys, name == "sort", n, 256) for name in ("ours", "sort")})
    title = f"median of {n:,} float32 made by tasks"
    yield compare(*found.values(), "our sort, indexed", 5, "s", work=title, wanted="5 x")
    yield Row(f"{title}: peak", found["ours"][0].own_seconds, "MiB").aiming(most=1024)
    n = effort.size(1 << 29, 100_000)
    small = in_turns(once, {"ours": (on_small_workers, n, 64)})["ours"]
    title = f"five quantiles of {n:,} float64 made by tasks, two workers of {WORKER_MEMORY}"
    yield Row(title, seconds_of(small), "s")
    yield Row(f"{title}: peak of a worker", small[0].own_seconds, "MiB").aiming(most=400)
    n, chunks = effort.size(KEYS, 100_000), effort.size(1024, 32)
    many = in_turns(effort, {"ours": (warmed, of_many_chunks, n, chunks)})["ours"]
    yield Row(f"five quantiles of {n:,} float64 held in {chunks:,} chunks, two workers", seconds_of(many), "s").aiming(
        most=6
    )


if __name__ == "__main__":
    sections = {"flat": flat, "cubes": cubes, "large": large}
    run_rows("benchmarks.cpu.order_statistics", __doc__, "order_statistics_cpu", sections)
