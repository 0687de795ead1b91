"""Measure the points of the GPU figures on one GPU, in one run of about a minute; every result is verified.

    python benchmarks/gpu_figures.py [--sections ...] [--cub libcub_baseline.so] [--output DIRECTORY] [--commit COMMIT]

Needs CuPy alone (and nvcc where CUB's library is to be built). Times lie between CUDA events, medians of runs that the
sorts take in turns, on a GPU that has been kept busy until then: after idling it took 0.58 ms where it takes 0.46.
`python -m benchmarks.figures` draws from the file it writes, ``results/figures_gpu.json``.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import cupy as cp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks.gpu_table import HERE, Cub, copy_bandwidth, describe_machine, make_keys, random_keys
from benchmarks.points import RESULTS, Point, Record, commit_of
from dask_gpusort import kernels
from dask_gpusort.kernels.comparing import ALGORITHMS as COMPARISONS
from dask_gpusort.kernels.launch import loader
from dask_gpusort.kernels.sorting import ALGORITHMS, PAPER_SORTS

FILE = "figures_gpu.json"
REPEATS = 5
SIZES_LOG2 = range(10, 30, 2)
#: For so long a sort runs before the first one is timed.
WARM_SECONDS = 0.05
#: A series ends where one run takes longer than this; some algorithms here do work of n log^2 n, or of n^2.
MOST_SECONDS = 0.25
ENTROPY_LOG2 = 28
PHASES_LOG2 = 28
#: Keys of the blog post's run: https://magnickolas.github.io, "Parallel Sorting on GPU: Part 2".
BLOG_KEYS = 1_000_000_000
BLOG_FIGURE = "network"

Sort = Callable[[Any, Any], Any]


def sort_with(algorithm: str) -> Sort:
    """One of our algorithms as a function of keys and where they go."""
    if algorithm in COMPARISONS:
        return lambda keys, out: kernels.sort_by_comparison(keys, out=out, algorithm=algorithm)
    return lambda keys, out: kernels.sort_keys(keys, out=out, algorithm=algorithm)


def by_cupy(keys: Any, out: Any) -> None:
    """CuPy's sort, which takes memory for its result itself."""
    cp.sort(keys)


#: "auto" is what a user gets; for 32- and 64-bit keys it is "msd".
SORTS: dict[str, Sort] = {
    **{name: sort_with(name) for name in (*ALGORITHMS, *PAPER_SORTS, *COMPARISONS) if name != "msd"},
    "cupy.sort": by_cupy,
}


def is_sorted_form(keys: Any, out: Any) -> bool:
    """Whether `out` ascends and holds the keys, by their sum and the sum of their squares. Knows no kernel of ours."""
    wide = [array.astype(np.uint64) for array in (keys, out)]
    sums = [(int(array.sum()), int((array * array).sum())) for array in wide]
    return sums[0] == sums[1] and bool((out[1:] >= out[:-1]).all())


def keep_busy(run: Callable[[], Any]) -> None:
    """Run until the GPU has come to its clock rate."""
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_SECONDS:
        run()
        cp.cuda.Device().synchronize()


def seconds_of(run: Callable[[], Any]) -> float:
    """Seconds of a run, between CUDA events."""
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(cp.cuda.get_elapsed_time(begin, end)) / 1e3


def timed(runs: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of runs, in turns; one that is slow is not repeated."""
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for run in list(runs.values())[:1]:
        keep_busy(run)
    for _ in range(REPEATS):
        for name, run in runs.items():
            if sum(samples[name]) < MOST_SECONDS:
                samples[name].append(seconds_of(run))
    return samples


def checked(what: str, keys: Any, out: Any) -> None:
    """Raise unless a result is right."""
    if not is_sorted_form(keys, out):
        raise AssertionError(f"{what}: the result is not the sorted keys")


def measure(figure: str, x: float, keys: Any, series: Iterable[str]) -> list[Point]:
    """Check what some sorts give, then time them in turns."""
    out = cp.empty_like(keys)
    for name in series:
        out.view(np.uint8).fill(0x5A)
        SORTS[name](keys, out)
        checked(f"{name}, {x:g}", keys, cp.sort(keys) if SORTS[name] is by_cupy else out)
    samples = timed({name: partial(SORTS[name], keys, out) for name in series})
    return [Point(figure, name, x, samples[name]) for name in series]


def measure_cub(figure: str, x: float, keys: Any, cub: Cub) -> Point:
    """CUB's radix sort, by its own events."""
    return Point(figure, "CUB", x, [cub.keys(keys) / 1e3])


def algorithm_points(cub: Cub) -> Iterator[Point]:
    """Keys a second against n, for every algorithm."""
    slow: set[str] = set()
    for log2 in SIZES_LOG2:
        keys = random_keys(np.uint32, 1 << log2)
        points = measure("algorithms", keys.size, keys, [series for series in SORTS if series not in slow])
        yield from points
        # Four times the keys take at least four times as long.
        slow |= {point.series for point in points if 4 * point.median > MOST_SECONDS}
        yield measure_cub("algorithms", keys.size, keys, cub)
        cp.get_default_memory_pool().free_all_blocks()


def entropy_points(cub: Cub) -> Iterator[Point]:
    """Keys a second against the number of random words that are and-ed together."""
    for dtype in ("uint32", "uint64"):
        for words in (1, 2, 3, 4, 6, 8, 12):
            n = 1 << ENTROPY_LOG2
            keys = random_keys(dtype, n) if words == 1 else make_keys(f"and of {words}", dtype, n)
            yield from measure(f"entropy {dtype}", words, keys, ("auto", "lsd"))
            yield measure_cub(f"entropy {dtype}", words, keys, cub)
            del keys
            cp.get_default_memory_pool().free_all_blocks()


@contextmanager
def timed_kernels() -> Iterator[list[tuple[str, Any, Any]]]:
    """Events around every launch: name of the kernel, before, after."""
    found: list[tuple[str, Any, Any]] = []
    plain = loader.kernel

    def kernel(source: str, name: str, *options: Any) -> Any:
        function = plain(source, name, *options)

        def launch(*args: Any, **options: Any) -> None:
            begin, end = cp.cuda.Event(), cp.cuda.Event()
            begin.record()
            function(*args, **options)
            end.record()
            found.append((name.partition("<")[0], begin, end))

        return launch

    with patch.object(loader, "kernel", kernel):
        yield found
    cp.cuda.Device().synchronize()


def phase_points(_: Cub) -> Iterator[Point]:
    """Time of each kernel of an algorithm, all its launches together."""
    keys = random_keys(np.uint32, 1 << PHASES_LOG2)
    out = cp.empty_like(keys)
    for algorithm in ("auto", "merge", *PAPER_SORTS):
        keep_busy(partial(SORTS[algorithm], keys, out))
        samples: dict[str, list[float]] = {}
        for _run in range(REPEATS):
            with timed_kernels() as launches:
                SORTS[algorithm](keys, out)
            seconds: dict[str, float] = {}
            for name, begin, end in launches:
                seconds[name] = seconds.get(name, 0.0) + cp.cuda.get_elapsed_time(begin, end) / 1e3
            for name, taken in seconds.items():
                samples.setdefault(name, []).append(taken)
        checked(algorithm, keys, out)
        yield from (Point(f"phases {algorithm}", name, keys.size, taken) for name, taken in samples.items())


def network_points(cub: Cub) -> Iterator[Point]:
    """The blog post's run: 10^9 keys by a network, by CUB, by us, and on one thread of this host."""
    keys = random_keys(np.uint32, BLOG_KEYS)
    yield from measure(BLOG_FIGURE, BLOG_KEYS, keys, ("odd_even_merge", "auto"))
    yield measure_cub(BLOG_FIGURE, BLOG_KEYS, keys, cub)
    on_host = cp.asnumpy(keys)
    start = time.perf_counter()
    on_host.sort()
    yield Point(BLOG_FIGURE, "numpy.sort, one thread of the host", BLOG_KEYS, [time.perf_counter() - start])


SECTIONS: dict[str, Callable[[Cub], Iterator[Point]]] = {
    "algorithms": algorithm_points,
    "entropy": entropy_points,
    "phases": phase_points,
    "network": network_points,
}


def main() -> None:
    """Measure the sections that were asked for; a wrong result raises, and what was measured before it is kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--cub", type=pathlib.Path, default=HERE / "libcub_baseline.so", help="built if not there")
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS, help="directory for the results")
    parser.add_argument("--commit", default=commit_of(HERE), help="what is measured, where there is no git")
    options = parser.parse_args()
    machine = describe_machine(copy_bandwidth(), options.commit)
    record = Record(machine, {"repeats": REPEATS, "sections": options.sections})
    cub = Cub(options.cub)
    start = time.perf_counter()
    try:
        for section in options.sections:
            for point in SECTIONS[section](cub):
                record.points.append(point)
                rate = f"{point.x / point.median / 1e9:9.3f} Gkeys/s" if section in ("algorithms", "network") else ""
                print(f"{point.figure:16} {point.series:36} {point.x:14,.0f} {1e3 * point.median:10.3f} ms {rate}")
            print(f"{section}: done after {time.perf_counter() - start:.0f} s", flush=True)
    finally:
        record.write(options.output / FILE)


if __name__ == "__main__":
    main()
