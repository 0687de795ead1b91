"""Measurements on one GPU: CUDA events, keys, verification, and the command line of the tables. Needs CuPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cupy as cp
import numpy as np

from dask_gpusort import kernels

from ..baselines.cub import Cub
from .command import arguments, measure
from .records import Row
from .verify import is_sorted_permutation, is_stable_order

#: Number of runs; a table shows their median.
REPEATS = 7
#: Number of runs; a figure shows their median.
TURNS = 5
#: Seconds that a sort runs before the first timed run.
WARM_SECONDS = 0.05
#: Most seconds of a run; longer ones end their series. Some algorithms take time n log^2 n or n^2.
MOST_SECONDS = 0.25


def seconds_of(run: Callable[[], Any]) -> float:
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(cp.cuda.get_elapsed_time(begin, end)) / 1e3


def median_ms(run: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median milliseconds of a run, after one warm-up."""
    run()
    return float(np.median([1e3 * seconds_of(run) for _ in range(repeats)]))


def keep_busy(run: Callable[[], Any]) -> None:
    """Run until the GPU has reached its clock rate."""
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_SECONDS:
        run()
        cp.cuda.Device().synchronize()


def timed(runs: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of runs that take turns on a busy GPU. A slow run is not repeated."""
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for run in list(runs.values())[:1]:
        keep_busy(run)
    for _ in range(TURNS):
        for name, run in runs.items():
            if sum(samples[name]) < MOST_SECONDS:
                samples[name].append(seconds_of(run))
    return samples


def copy_bandwidth() -> float:
    """Bandwidth of a device-to-device copy in bytes per second; reads and writes both count."""
    source = cp.ones(1 << 30, np.uint32)
    target = cp.empty_like(source)
    milliseconds = median_ms(lambda: cp.copyto(target, source))
    return 2 * source.nbytes / milliseconds * 1e3


def random_keys(dtype: Any, n: int, seed: int = 1) -> Any:
    """Keys of uniform random bits. Floats include NaN and infinities."""
    words = cp.random.default_rng(seed).integers(0, 1 << 32, -(-n * np.dtype(dtype).itemsize // 4), dtype=cp.uint32)
    return words.view(dtype)[:n]


def make_keys(name: str, dtype: Any, n: int) -> Any:
    rng = cp.random.default_rng(3)
    dtype = np.dtype(dtype)
    if name.startswith("and of"):  # random keys and-ed together
        keys = random_keys(dtype, n)
        for term in range(1, int(name.split()[-1])):
            keys &= random_keys(dtype, n, seed=term + 10)
        return keys
    makers: dict[str, Callable[[], Any]] = {
        "random": lambda: random_keys(dtype, n),
        "sorted": lambda: cp.sort(random_keys(dtype, n)),
        "reversed": lambda: cp.ascontiguousarray(cp.sort(random_keys(dtype, n))[::-1]),
        "all equal": lambda: cp.full(n, 12345678, dtype),
        "16 distinct": lambda: random_keys(dtype, 16)[rng.integers(0, 16, n)],
        # P(k >= x) ~ x^-0.2
        "Zipf": lambda: cp.minimum(cp.exp(rng.exponential(5.0, n)), 2.0**30).astype(dtype),
        "uniform": lambda: rng.random(n, dtype=dtype),
        "normal": lambda: rng.standard_normal(n, dtype=dtype),
        "nearly equal": lambda: 1 + dtype.type(1e-9 if dtype.itemsize == 8 else 1e-3) * rng.random(n, dtype=dtype),
        "below 2^24": lambda: rng.integers(0, 1 << 24, n, dtype=cp.uint32).astype(dtype),
    }
    return makers[name]()


def is_sorted_form(keys: Any, out: Any) -> bool:
    """Whether an array holds the keys in the order of their codes."""
    return is_sorted_permutation(kernels.encode(keys), kernels.encode(out))


def is_argsorted(keys: Any, positions: Any) -> bool:
    """Whether positions sort the keys stably."""
    return is_stable_order([kernels.encode(keys)], positions)


class Table:
    """Makes the rows of a table. `copy` is the copy bandwidth in bytes per second."""

    def __init__(self, cub: Cub):
        self.cub, self.copy = cub, copy_bandwidth()

    def row(
        self,
        name: str,
        work: str,
        keys: int,
        ours: float,
        verified: bool,
        baselines: Mapping[str, float | None],
        traffic: int = 0,
    ) -> Row:
        """A row of milliseconds. `traffic` is the least bytes that must move, for their rate beside that of a copy."""
        cp.get_default_memory_pool().free_all_blocks()
        measured = {name: value for name, value in baselines.items() if value is not None}
        details = {"share of copy bandwidth, %": 100 * traffic / (ours * 1e-3) / self.copy} if traffic else {}
        return Row(name, work, ours, "ms", measured, keys=keys, verified=verified, details=details)


def run_table(
    name: str, document: str | None, file: str, sections: Mapping[str, Callable[[Table, int], Iterator[Any]]]
) -> None:
    """Run a command that measures one GPU. Each section yields rows or points for a number of keys."""
    more = {"--keys-log2": {"type": int, "default": 28, "help": "keys of the main rows, as a power of two"}}
    options = arguments(name, document, list(sections), more, quick=False)
    table = Table(Cub())
    machine = {"copy bandwidth": f"{table.copy / 1e12:.2f} TB/s", "CUB": table.cub.version}
    measure(options, file, sections, table, 1 << options.keys_log2, machine=machine, repeats=REPEATS, turns=TURNS)
