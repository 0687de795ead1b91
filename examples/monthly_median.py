"""Exact monthly medians and a 95th percentile of a cube larger than memory, by xarray's own methods.

Daily maps of a surface temperature are stored as most archives store them: few days a chunk, and whole maps. Medians
along time then need parts of every chunk. After ``dask_gpusort.register()``, ``resample(time="1MS").median()`` and
``quantile(0.95, "time")`` of xarray find them in bounded memory. Five steps, each with a progress bar::

    1  write    synthetic maps, with a seasonal cycle, weather and gaps under clouds, to Zarr
    2  compute  the median of each month, of all Julys, and the 95th percentile, on workers with a memory limit
    3  verify   random pixels: read them again with zarr, and compare all their statistics with NumPy's
    4  draw     two maps, and the series of one pixel
    5  report   what was verified, the time, and the peak memory of each worker

The default is 1.25 GiB of float32 and two workers of 512 MiB each; ``--help`` lists the options. All files but the
picture are removed at the end. The exit code is 1 if the verification fails.

Run it with ``python examples/monthly_median.py``.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

try:
    import dask.array as da
    import numpy as np
    import xarray as xr
    import zarr
    from dask.utils import format_bytes, parse_bytes
    from distributed import Client, LocalCluster, SchedulerPlugin
    from matplotlib.colors import BoundaryNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, track
except ImportError as error:
    raise SystemExit(f"{error}: pip install '.[examples]'") from None

import dask_gpusort

if sys.platform == "win32":
    import psutil
else:
    import resource

FIRST_YEAR = 2011
NAME = "surface_temperature"
ZERO_CELSIUS = 273.15
console = Console()


# ---------------------------------------------------------------------------------------------------------------------
# Step 1: the input


def make_grid(gib: float, years: int, days: int) -> xr.Dataset:
    """A lazy cube of zeros with coordinates and attributes: all years, at the resolution that gives the size."""
    dates = np.arange(f"{FIRST_YEAR}-01-01", f"{FIRST_YEAR + years}-01-01", dtype="M8[D]").astype("M8[ns]")
    rows = max(4, round((gib * 2**30 / 4 / len(dates) / 2) ** 0.5))
    step = 180 / rows
    lat, lon = 90 - step * (np.arange(rows) + 0.5), -180 + step * (np.arange(2 * rows) + 0.5)
    cube = xr.DataArray(
        da.zeros((len(dates), rows, 2 * rows), chunks=(days, -1, -1), dtype="f4"),
        dims=("time", "lat", "lon"),
        coords={
            "time": dates,
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": ("lon", lon, {"units": "degrees_east"}),
        },
        attrs={"units": "K", "long_name": "surface temperature (synthetic)"},
    )
    return cube.to_dataset(name=NAME)


def smooth_patterns(lat: np.ndarray, lon: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Random waves on the map, shape (count, lat * lon), of variance 1 at the equator and 0 at the poles."""
    rng = np.random.default_rng([2026, seed])
    y, x = np.meshgrid(np.deg2rad(lat), np.deg2rad(lon), indexing="ij")
    patterns = [
        2 * np.cos(rng.integers(1, 6) * x + rng.uniform(0, 6)) * np.cos(rng.uniform(1, 6) * y + rng.uniform(0, 6))
        for _ in range(count)
    ]
    return (np.stack(patterns) * np.cos(y)).reshape(count, -1).astype("f4")


def weather_of_days(days: int, count: int, seed: int, memory: float) -> np.ndarray:
    """The amplitude of each pattern on each day, shape (days, count): first-order autoregressive, of variance 1."""
    steps = np.random.default_rng([2026, seed]).normal(size=(days, count))
    found = np.empty((days, count), "f4")
    found[0] = steps[0]
    for day in range(1, days):
        found[day] = memory * found[day - 1] + np.sqrt(1 - memory**2) * steps[day]
    return found


class Maps:
    """Daily maps of a temperature, in kelvin, with NaN under clouds."""

    waves = 12
    cloudy = 0.65  # for about one pixel in eight

    def __init__(self, grid: xr.Dataset) -> None:
        lat, lon = grid.lat.values, grid.lon.values
        days = grid.sizes["time"]
        self.shape = (len(lat), len(lon))
        # Land warms and cools more than the sea.
        land = 1 / (1 + np.exp(-8 * smooth_patterns(lat, lon, 6, seed=1).sum(axis=0) / 6**0.5))
        south, latitude = np.repeat(np.sign(lat), len(lon)), np.repeat(np.abs(lat), len(lon))
        mean = 301 - 48 * np.sin(np.deg2rad(latitude)) ** 2 + 2 * land
        season = south * latitude / 90 * (4 + 28 * land)
        storms = (1 + 5 * latitude / 90) * (0.5 + 0.5 * land)
        waves = smooth_patterns(lat, lon, self.waves, seed=4) / self.waves**0.5
        # A map is the sum of these fields, each times its amplitude on that day.
        self.fields = np.vstack([mean, season, storms * waves]).astype("f4")
        since_july = 2 * np.pi * (grid.time.dt.dayofyear.values - 200) / 365.25
        weather = weather_of_days(days, self.waves, seed=2, memory=0.8)
        self.amplitudes = np.column_stack([np.ones(days), np.cos(since_july), weather]).astype("f4")
        self.cloud_fields = waves.astype("f4")
        self.clouds = weather_of_days(days, self.waves, seed=3, memory=0.5)

    def between(self, start: int, stop: int) -> np.ndarray:
        """The maps of some days, shape (stop - start, lat, lon); the same for the same days."""
        rng = np.random.default_rng([2026, start])
        maps = rng.standard_normal((stop - start, self.fields.shape[1]), dtype="f4")
        maps += self.amplitudes[start:stop] @ self.fields
        np.copyto(maps, np.nan, where=self.clouds[start:stop] @ self.cloud_fields > self.cloudy)
        return maps.reshape(-1, *self.shape)


def write_input(path: Path, grid: xr.Dataset) -> None:
    """Write the cube, with one chunk in memory at a time."""
    grid.to_zarr(path, compute=False, consolidated=False, encoding={NAME: {"compressors": None}})
    array = zarr.open_array(path / NAME, mode="r+")
    maps = Maps(grid)
    step = array.chunks[0]
    for start in track(range(0, array.shape[0], step), "Write the maps  ", console=console):
        stop = min(start + step, array.shape[0])
        array[start:stop] = maps.between(start, stop)


# ---------------------------------------------------------------------------------------------------------------------
# Step 2: the statistics


def statistics(cube: xr.DataArray) -> xr.Dataset:
    """The statistics, lazily, by xarray's own methods."""
    return xr.Dataset(
        {
            "monthly_median": cube.resample(time="1MS").median(),
            "july_median": cube.sel(time=cube.time.dt.month == 7).median("time"),
            "percentile_95": cube.quantile(0.95, "time").drop_vars("quantile").astype("f4"),
        }
    )


class Tasks(SchedulerPlugin):
    """A progress bar that the scheduler advances as tasks finish."""

    name = "tasks"

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.bar = progress.add_task("Compute         ", total=0)
        self.finished: set[Any] = set()

    def update_graph(self, scheduler: Any, *, tasks: Any, **kwargs: Any) -> None:
        """Count the tasks of a graph that arrives."""
        self.progress.update(self.bar, total=len(tasks))

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Count a task that has finished; one that runs again is not counted twice."""
        if finish == "memory" and key not in self.finished:
            self.finished.add(key)
            self.progress.advance(self.bar)


def peak_memory() -> int:
    """Return the peak memory of this process, in bytes."""
    if sys.platform == "win32":
        return psutil.Process().memory_info().peak_wset
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def compute_on_cluster(source: Path, target: Path, cluster: LocalCluster) -> list[int]:
    """Compute the statistics of one Zarr store into another; return the peak memory of each worker, in bytes."""
    with Client(cluster) as client:
        dask_gpusort.register()
        cube = xr.open_zarr(source, consolidated=False)[NAME]
        console.print(str(dask_gpusort.explain_quantile(cube.data, 0.95, 0)), style="dim", highlight=False)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=console) as progress:
            cluster.scheduler.add_plugin(Tasks(progress))
            try:
                client.compute(statistics(cube).to_zarr(target, compute=False, consolidated=False)).result()
            finally:
                cluster.scheduler.remove_plugin(Tasks.name)
                dask_gpusort.unregister()
        return list(client.run(peak_memory).values())


# ---------------------------------------------------------------------------------------------------------------------
# Step 3: the verification


def read_pixels(source: Path, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The series of some pixels, shape (time, pixels), with zarr alone."""
    array = zarr.open_array(source / NAME, mode="r")
    steps = range(0, array.shape[0], array.chunks[0])
    parts = [
        np.asarray(array[start : start + steps.step])[:, rows, columns]
        for start in track(steps, "Read some pixels", console=console)
    ]
    return np.concatenate(parts)


def verify(source: Path, found: xr.Dataset, pixels: int) -> list[str]:
    """Compare random pixels with NumPy's functions, bit by bit; return a list of errors, empty if there is none."""
    rng = np.random.default_rng()
    rows, columns = rng.integers(0, found.sizes["lat"], pixels), rng.integers(0, found.sizes["lon"], pixels)
    series = read_pixels(source, rows, columns)
    months = found.time.values.astype("M8[M]")
    start = found.time.values[0].astype("M8[D]")
    month_of_day = (start + np.arange(len(series))).astype("M8[M]")
    july = (month_of_day - month_of_day.astype("M8[Y]")).astype(int) == 6
    expected = {
        "monthly_median": np.stack([np.nanmedian(series[month_of_day == month], axis=0) for month in months]),
        "july_median": np.nanmedian(series[july], axis=0),
        "percentile_95": np.nanquantile(series, np.array([0.95]), axis=0)[0].astype("f4"),
    }
    wrong = []
    for name, values in expected.items():
        different = found[name].values[..., rows, columns] != values
        if different.any():
            wrong.append(f"{name} differs from NumPy's in {different.sum()} of {different.size} values")
    return wrong


# ---------------------------------------------------------------------------------------------------------------------
# Step 4: the picture


def degrees(letters: str) -> FuncFormatter:
    """Labels of an axis of degrees, such as 30°N and 60°S."""
    return FuncFormatter(lambda value, _: f"{abs(value):.0f}°{letters[int(value < 0)] if value else ''}")


def draw(source: Path, found: xr.Dataset, picture: Path) -> None:
    """Draw the July median and the 95th percentile as maps, and the last years of one pixel as a series."""
    figure = Figure(figsize=(11, 6.8), layout="constrained")
    panels = figure.subplot_mosaic([["july", "high"], ["series", "series"]], height_ratios=[1, 1])
    last = int(str(found.time.values[-1])[:4])
    years = f"{str(found.time.values[0])[:4]} to {last}"
    # The pixel of the middle latitudes whose months differ most.
    ranges = found.monthly_median.max("time") - found.monthly_median.min("time")
    pixel = ranges.where(abs(ranges.lat) < 60, 0).argmax(["lat", "lon"])
    lat, lon = float(found.lat[pixel["lat"]]), float(found.lon[pixel["lon"]])

    maps = {
        "july": ("july_median", "a  Median of all days in July"),
        "high": ("percentile_95", "b  95th percentile of all days"),
    }
    celsius = found - ZERO_CELSIUS
    for panel, (name, title) in maps.items():
        axes = panels[panel]
        norm = BoundaryNorm(np.arange(-45, 46, 5), 256, extend="both")
        image = axes.pcolormesh(found.lon, found.lat, celsius[name], norm=norm, cmap="RdYlBu_r", rasterized=True)
        axes.plot(lon, lat, marker="o", markersize=7, markerfacecolor="none", markeredgecolor="black")
        axes.set_title(f"{title}, {years}", loc="left", fontsize=11)
        axes.set(aspect="equal", xticks=range(-120, 121, 60), yticks=range(-60, 61, 30))
        axes.xaxis.set_major_formatter(degrees("EW"))
        axes.yaxis.set_major_formatter(degrees("NS"))
    bar = figure.colorbar(image, ax=[panels["july"], panels["high"]], fraction=0.04, pad=0.01, ticks=range(-40, 41, 10))
    bar.set_label("surface temperature (°C)")

    days = xr.open_zarr(source, consolidated=False)[NAME].isel(pixel).sel(time=slice(str(last - 2), None))
    months = celsius.monthly_median.isel(pixel).sel(time=slice(str(last - 2), None))
    axes = panels["series"]
    axes.plot(days.time, days.compute() - ZERO_CELSIUS, ".", color="0.65", markersize=3, label="days without clouds")
    edges = np.append(months.time.values, days.time.values[-1] + np.timedelta64(1, "D"))
    axes.stairs(months, edges, baseline=None, color="tab:blue", linewidth=2, label="median of each month")
    high = float(celsius.percentile_95.isel(pixel))
    axes.axhline(high, color="tab:red", linestyle="--", linewidth=1.2, label=f"95th percentile, {years}")
    label = f"{abs(lat):.1f}°{'NS'[int(lat < 0)]}, {abs(lon):.1f}°{'EW'[int(lon < 0)]}"
    axes.set_title(f"c  The pixel at {label} (circle)", loc="left", fontsize=11)
    axes.set_ylabel("surface temperature (°C)")
    axes.set_xlim(days.time.values[0], edges[-1])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    figure.suptitle("Exact order statistics of synthetic daily maps")
    figure.savefig(picture, dpi=150)


# ---------------------------------------------------------------------------------------------------------------------
# The whole example


def run(options: argparse.Namespace, directory: Path) -> bool:
    """Make a cube, compute and verify its statistics and draw them; return whether they are right."""
    source, target = directory / "maps.zarr", directory / "statistics.zarr"
    grid = make_grid(options.gib, options.years, options.days)
    size, memory = grid[NAME].nbytes, options.workers * options.memory_limit
    console.print(
        f"{format_bytes(size)} of {dict(grid.sizes)} in chunks of {options.days} days, on {options.workers} workers of "
        f"{format_bytes(options.memory_limit)}: {size / memory:.1f} times their memory. In {directory}",
        highlight=False,
    )
    if shutil.disk_usage(directory).free < 2.5 * size:
        raise SystemExit(f"{directory} needs {format_bytes(int(2.5 * size))}: choose another --directory or less --gib")
    write_input(source, grid)
    with LocalCluster(
        n_workers=options.workers,
        threads_per_worker=1,
        memory_limit=options.memory_limit,
        local_directory=str(directory / "workers"),
        dashboard_address=":0",
        silence_logs=logging.ERROR,  # each rechunk is logged as a warning
    ) as cluster:
        start = time.perf_counter()
        peaks = compute_on_cluster(source, target, cluster)
        seconds = time.perf_counter() - start

    found = xr.open_zarr(target, consolidated=False).load()
    wrong = verify(source, found, options.pixels)
    draw(source, found, options.picture)
    console.print(f"\ncomputed in   {seconds:.1f} s, from disk to disk")
    console.print(f"worker peak   {', '.join(map(format_bytes, peaks))}")
    console.print(f"picture       {options.picture}", highlight=False, soft_wrap=True)
    if wrong:
        console.print("[bold red]WRONG[/]         " + "; ".join(wrong))
    else:
        console.print(f"[bold green]verified[/]      all statistics of {options.pixels} random pixels are NumPy's")
        console.print("next          your own cube: xr.open_zarr(...), in any chunks, and dask_gpusort.register()")
    return not wrong


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Exact monthly medians of a cube larger than memory, by xarray.")
    parser.add_argument("--gib", type=float, default=1.25, help="size of the cube in GiB (default: %(default)s)")
    parser.add_argument("--years", type=int, default=10, help="years of daily maps (default: %(default)s)")
    parser.add_argument("--days", type=int, default=10, help="days in a chunk (default: %(default)s)")
    parser.add_argument(
        "--memory-limit", type=parse_bytes, default="512 MiB", help="memory of one worker (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=2, help="number of workers (default: %(default)s)")
    parser.add_argument("--pixels", type=int, default=64, help="pixels to verify (default: %(default)s)")
    picture = Path(tempfile.gettempdir(), "monthly_median.png")
    parser.add_argument("--picture", type=Path, default=picture, help="where to draw (default: %(default)s)")
    parser.add_argument("--directory", type=Path, help="where to write the arrays (default: a temporary directory)")
    return parser.parse_args(arguments)


def main() -> int:
    """Run the example in a new directory and return the exit code."""
    options = parse()
    if options.directory:
        options.directory.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="monthly-median-", dir=options.directory))
    try:
        return 0 if run(options, directory) else 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
