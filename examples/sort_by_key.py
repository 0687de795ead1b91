"""Sort sensor readings by their timestamps.

Five hundred sensors send readings through a network that delays some of them, so they arrive out of order. A reading is
a timestamp, the number of the sensor, and a row of three measurements. `sort_by_key` sorts the timestamps and moves the
other arrays with them, without positions into the whole array.

Run it with ``python examples/sort_by_key.py``.
"""

from __future__ import annotations

import argparse

import dask
import dask.array as da
import numpy as np

import dask_gpusort

SENSORS = 500
START = np.datetime64("2026-03-01T00:00:00", "ms")


def arrivals(readings: int, chunk: int) -> tuple[da.Array, da.Array, da.Array]:
    """Make readings in the order of their arrival.

    Parameters
    ----------
    readings : int
        Number of readings.
    chunk : int
        Number of readings in a chunk.

    Returns
    -------
    times : dask array of datetime64[ms], shape (readings,)
    sensors : dask array of int16, shape (readings,)
    rows : dask array of float32, shape (readings, 3)
        Temperature, pressure and humidity.
    """
    rng = da.random.default_rng(7)
    sent = da.arange(readings, chunks=chunk)
    delay = rng.exponential(2_000, size=readings, chunks=chunk).astype("i8")
    times = START + (sent - delay).astype("m8[ms]")
    sensors = rng.integers(0, SENSORS, size=readings, chunks=chunk, dtype="i2")
    noise = rng.normal(size=(readings, 3), chunks=(chunk, 3))
    rows = (np.array([20.0, 1013.0, 0.5]) + noise * np.array([5.0, 8.0, 0.1])).astype("f4")
    return times, sensors, rows


def main() -> None:
    """Sort the readings and print five of them."""
    parser = argparse.ArgumentParser(description="Sort sensor readings by their timestamps.")
    parser.add_argument("--readings", type=int, default=2_000_000)
    parser.add_argument("--chunk", type=int, default=100_000, help="readings in a chunk")
    options = parser.parse_args()

    times, sensors, rows = arrivals(options.readings, options.chunk)
    sorted_times, sorted_sensors, sorted_rows = dask_gpusort.sort_by_key(times, sensors, rows)

    # Computed together, the three arrays share one sort.
    summary = dask.compute(
        sorted_times[0], sorted_times[-1], (sorted_times[1:] >= sorted_times[:-1]).all(), sorted_rows.mean(axis=0)
    )
    print("first and last:", summary[0], summary[1])
    print("in order:      ", bool(summary[2]))
    print("mean row:      ", *(f"{mean:.2f}" for mean in summary[3]))

    # In sorted readings a period of time is a slice.
    around = slice(options.readings // 2, options.readings // 2 + 5)
    for time, sensor, row in zip(
        *dask.compute(sorted_times[around], sorted_sensors[around], sorted_rows[around]), strict=True
    ):
        print(f"{time}  sensor {sensor:3}  {row[0]:5.1f} C  {row[1]:6.1f} hPa  {100 * row[2]:3.0f} %")
    print("Next: dask_gpusort.searchsorted(sorted_times, times) for periods, or sorted_rows.to_zarr(...)")


if __name__ == "__main__":
    main()
