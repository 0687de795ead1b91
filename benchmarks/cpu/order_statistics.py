"""Quantiles, medians and the largest keys against Dask's functions, xarray and our sort, on two threads and workers.

    python -m benchmarks.cpu.order_statistics [flat cubes stored large] [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/order_statistics_cpu.json. Each job takes turns with its baselines in a separate process, and is timed in
its second run; its memory is the growth of the process since before the first run, or the peak of a worker. Exact
results are verified against NumPy, or against counts of all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr

import dask_gpusort

from ..harness.command import arguments, measure
from ..harness.jobs import Effort, compared, jobs_of, on_workers
from ..harness.records import Row, slug
from .keys import chunked

Q = [0.05, 0.25, 0.5, 0.75, 0.95]
#: Keys of the arrays in chunks, as in Dask's own issues about percentiles.
KEYS, CHUNKS = 51_200_000, 64
TOP = 1000
#: Shape of a cube of days, rows and columns, of which a tenth is missing.
CUBE = (730, 300, 400)
MISSING = 0.1
#: Shape and chunks of a cube that is read from Zarr.
STORED, STORED_CHUNKS = (3650, 200, 200), (365, 50, 200)
WORKER_MEMORY = "512 MiB"
OTHERS = ("da.percentile", "da.quantile", "our sort")


def quantiles(n: int) -> Any:
    """Case: quantiles of normal float64 in memory. Approximate ones must be near; of a sort, sizes are checked."""
    keys = np.random.default_rng(0).standard_normal(n)
    x = chunked(keys, CHUNKS).persist()

    def check(found: np.ndarray, name: str) -> None:
        if name == "our sort":
            assert found.sum() == n
        else:
            near = 0.2 if name == "da.percentile" else 0
            np.testing.assert_allclose(found, np.quantile(keys, Q), rtol=0, atol=near)

    return {
        "ours": lambda: dask_gpusort.quantile(x, Q).compute(),
        "da.percentile": lambda: da.percentile(x, [100 * q for q in Q]).compute(),
        "da.quantile": lambda: da.quantile(x.rechunk(-1), Q).compute(),
        "our sort": lambda: dask_gpusort.sort(x).map_blocks(len, dtype=int, chunks=(1,)).compute(),
    }, check


def largest(n: int) -> Any:
    """Case: the largest keys and their positions."""
    keys = np.random.default_rng(0).standard_normal(n)
    x = chunked(keys, CHUNKS).persist()

    def check(found: tuple[np.ndarray, np.ndarray], _: str) -> None:
        expected = np.argsort(keys)[::-1][:TOP]
        np.testing.assert_array_equal(found[1], expected)
        np.testing.assert_array_equal(found[0], keys[expected])

    modules = {"ours": dask_gpusort, "da.topk and da.argtopk": da}
    return {
        name: lambda module=module: dask.compute(module.topk(x, TOP), module.argtopk(x, TOP))
        for name, module in modules.items()
    }, check


CUBES: dict[str, Callable[[Any], Any]] = {
    "median": lambda cube: cube.median("time"),
    "quantile": lambda cube: cube.quantile(Q, "time"),
}


def of_a_cube(work: str, chunks: tuple[int, ...], quick: bool) -> Any:
    """Case: a method of xarray along time, with this package registered or without."""
    shape = (73, 30, 40) if quick else CUBE
    rng = np.random.default_rng(0)
    keys = rng.standard_normal(shape, dtype="f4")
    keys[rng.random(shape, dtype="f4") < MISSING] = np.nan
    cube = xr.DataArray(da.from_array(keys, chunks=chunks), dims=("time", "y", "x"))

    def ours() -> Any:
        with dask_gpusort.register():
            return CUBES[work](cube).compute()

    def check(found: Any, name: str) -> None:
        with np.errstate(invalid="ignore"):
            lanes = keys[:, ::29, ::31]
            expected = np.nanmedian(lanes, 0) if work == "median" else np.nanquantile(lanes, Q, 0)
        # Dask interpolates in another order of operations than NumPy.
        np.testing.assert_allclose(found.values[..., ::29, ::31], expected, rtol=0 if name == "ours" else 1e-6)

    return {"ours": ours, "xarray": lambda: CUBES[work](cube).compute()}, check


STORED_WORKS: dict[str, Callable[[Any], Any]] = {
    "median": lambda cube: cube.median("time"),
    "90th percentile": lambda cube: cube.quantile(0.9, "time"),
    "medians of months": lambda cube: cube.groupby("time.month").median("time"),
    "90th percentiles of months": lambda cube: cube.groupby("time.month").quantile(0.9, "time"),
}


def of_a_stored_cube(work: str, quick: bool) -> Any:
    """Case: the same of a cube of days in Zarr, also with chunks that hold all days."""
    shape, chunks = ((730, 20, 20), (73, 5, 20)) if quick else (STORED, STORED_CHUNKS)
    keys = np.random.default_rng(0).standard_normal(shape, dtype="f4")
    days = {"time": pd.date_range("2001", periods=shape[0])}
    held = xr.DataArray(keys, days, ("time", "y", "x"), name="t")
    directory = TemporaryDirectory()
    held.chunk(dict(zip(held.dims, chunks, strict=True))).to_zarr(directory.name, consolidated=False)
    some = {"y": slice(None, None, 7), "x": slice(None, None, 7)}
    expected = STORED_WORKS[work](held.isel(some))

    def found(whole: bool = False) -> Any:
        cube = xr.open_dataarray(directory.name, engine="zarr", chunks={}, consolidated=False)
        with xr.set_options(use_flox=False):  # flox needs all of a group in one chunk
            return STORED_WORKS[work](cube.chunk(time=-1) if whole else cube).compute()

    def ours() -> Any:
        with dask_gpusort.register():
            return found()

    def check(result: Any, _: str) -> None:
        xr.testing.assert_allclose(result.isel(some), expected, rtol=1e-6)

    return {"ours": ours, "xarray": found, "xarray, chunk(time=-1)": lambda: found(whole=True)}, check


def of_made_keys(n: int) -> Any:
    """Case: the median of float32 that tasks make."""
    x = da.random.default_rng(0).random(n, chunks=-(-n // 256), dtype="f4")

    def ours() -> float:
        with dask.config.set({"gpusort.held_share": 0}):
            return float(dask_gpusort.median(x).compute())

    def check(found: float, _: str) -> None:
        less, most = dask.compute((x < np.float32(found)).sum(), (x <= np.float32(found)).sum())
        assert less <= n // 2 <= most, (less, most)

    middle = slice(n // 2 - 1, n // 2 + 1)
    return {"ours": ours, "our sort, indexed": lambda: float(dask_gpusort.sort(x)[middle].mean().compute())}, check


def on_small_workers(_: Any, n: int) -> Any:
    """Case: five quantiles of float64 that tasks make, larger than two workers."""
    x = da.random.default_rng(0).standard_normal(n, chunks=-(-n // 64))

    def check(found: np.ndarray, _: str) -> None:
        below = dask.compute(*((x <= q).sum() for q in found))
        # An interpolated quantile is between two neighbouring ranks.
        assert [one - 1 for one in below] == [int(q * (n - 1)) for q in Q], below

    return {"ours": lambda: dask_gpusort.quantile(x, Q).compute()}, check


def of_many_chunks(client: Any, n: int, chunks: int) -> Any:
    """Case: five quantiles of held float64 in many chunks, on two workers."""
    x = client.persist(da.random.default_rng(0).standard_normal(n, chunks=-(-n // chunks)))
    wanted = np.quantile(x.compute(), Q)
    return {"ours": lambda: dask_gpusort.quantile(x, Q).compute()}, lambda found, _: np.testing.assert_array_equal(
        found, wanted
    )


def flat(effort: Effort) -> Iterator[Row]:
    n = effort.size(KEYS, 200_000)
    title = f"five quantiles of {n:,} float64 in {CHUNKS} chunks"
    yield compared(effort, "quantiles", title, jobs_of(quantiles, ("ours", *OTHERS), n))
    title = f"the {TOP:,} largest of {n:,} float64 in {CHUNKS} chunks, and their positions"
    yield compared(effort, "largest", title, jobs_of(largest, ("ours", "da.topk and da.argtopk"), n))


def cubes(effort: Effort) -> Iterator[Row]:
    for chunks in ((73, 100, 100), (10, 300, 400)):
        for work in CUBES:
            title = f"{work} over time of {CUBE} float32 in chunks {chunks}, {MISSING:.0%} missing"
            jobs = jobs_of(of_a_cube, ("ours", "xarray"), work, chunks, effort.quick)
            yield compared(effort, slug(work, chunks[0]), title, jobs)


def stored(effort: Effort) -> Iterator[Row]:
    for work in STORED_WORKS:
        title = f"{work} over time of {STORED} float32 from Zarr in chunks {STORED_CHUNKS}"
        jobs = jobs_of(of_a_stored_cube, ("ours", "xarray", "xarray, chunk(time=-1)"), work, effort.quick)
        yield compared(effort, slug("stored", work), title, jobs, "s")


def large(effort: Effort) -> Iterator[Row]:
    n = effort.size(10**9, 100_000)
    jobs = jobs_of(of_made_keys, ("ours", "our sort, indexed"), n)
    yield compared(effort.once, "median/made", f"median of {n:,} float32 made by tasks", jobs, "s")
    n, on = effort.size(1 << 29, 100_000), partial(on_workers, memory=WORKER_MEMORY, warm=False)
    title = f"five quantiles of {n:,} float64 made by tasks, two workers of {WORKER_MEMORY}"
    yield compared(effort.once, "quantiles/workers", title, jobs_of(on_small_workers, ["ours"], n, on=on), "s")
    n, chunks = effort.size(KEYS, 100_000), effort.size(1024, 32)
    title = f"five quantiles of {n:,} float64 held in {chunks:,} chunks, two workers"
    jobs = jobs_of(of_many_chunks, ["ours"], n, chunks, on=on_workers)
    yield compared(effort, "quantiles/many-chunks", title, jobs, "s")


SECTIONS = {"flat": flat, "cubes": cubes, "stored": stored, "large": large}

if __name__ == "__main__":
    options = arguments("cpu.order_statistics", __doc__, list(SECTIONS))
    measure(options, "order_statistics_cpu", SECTIONS, options.effort, packages=["numbagg", "flox"])
