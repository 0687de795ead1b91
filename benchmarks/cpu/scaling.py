"""How the sort on a CPU depends on threads, chunks and entropy; its phases; and a sorting network.

    python -m benchmarks.cpu.scaling [threads chunks phases entropy network] [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/scaling_cpu.json. Each measurement takes turns with its baseline in a separate process, after a warm-up.
Every result is verified. The points of a section replace the stored ones if both come from the same machine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.diagnostics import Profiler
from dask.utils import key_split

import dask_gpusort
from dask_gpusort.network import apply, odd_even_merge_layers

from ..baselines.libraries import checked, make_keys, on_host
from ..harness.command import parse, parser_of
from ..harness.jobs import Effort, in_turns, measured_points, quiet_rounds
from ..harness.machine import check_one_machine, describe_machine
from ..harness.records import Point, Record, read
from .cluster import build, sort_on_cluster, two_workers
from .jobs import by_numpy, by_ours, sort_held

FILE = "scaling_cpu.json"
CHUNKS = 16
THREADS = (1, 2)
#: Keys of the section "chunks": 160 MB, so that each of 10,000 chunks has 2,048 keys.
MANY_CHUNKS_KEYS = 20_480_000
#: Most chunks for a sort on a cluster.
CLUSTER_CHUNKS = 1_024
#: Numbers k of random words that are and-ed together (Thearling and Smith): each bit is set in 2**-k of the keys.
WORDS = (1, 2, 3, 4, 6, 8, 12)
#: Prefixes of the tasks of each phase.
PHASES = {
    "sort": ("sort-local",),
    "count": ("sort-count", "sort-sum"),
    "find the cuts": ("sort-scan", "sort-cut", "sort-list"),
    "scatter": ("sort-scatter",),
    "merge": ("sort-merge",),
}
#: Numbers of keys for the network, as powers of two. It has about (log2 n)**2 / 2 layers.
NETWORK_LOG2 = (10, 13, 16, 19)


def threads_points(effort: Effort) -> Iterator[Point]:
    for n in (1 << 12, 1 << 14) if effort.quick else [1 << bits for bits in (14, 16, 18, 20, 22, 24, 25)]:
        for work in ("sort", "argsort"):
            ours = (by_ours, work, "uniform", n, CHUNKS)
            jobs = {f"ours, {threads} thread{'s' * (threads > 1)}": (*ours, threads, False) for threads in THREADS}
            yield from measured_points(effort, f"threads {work}", n, {**jobs, "NumPy": (by_numpy, work, "uniform", n)})


def chunks_points(effort: Effort) -> Iterator[Point]:
    """Number of tasks, seconds to build the graph and seconds to run it, for more and more chunks of the same keys."""
    counts = (4, 16) if effort.quick else (4, 16, 64, 256, 1_024, 4_096, 10_000)
    for chunks in counts:
        with two_workers(processes=False):
            for where, exchange in (("threads", "gather"), ("two workers", "runs")):
                built, others = quiet_rounds(effort, partial(build, chunks, exchange))
                yield Point("chunks tasks", where, chunks, [built[0][1]], "tasks")
                yield Point("chunks build", where, chunks, [took for took, _ in built], "s", others)
        n = 64_000 if effort.quick else MANY_CHUNKS_KEYS // chunks * chunks
        jobs: dict[str, tuple[Any, ...]] = {"threads": (sort_held, n, chunks)}
        if chunks <= CLUSTER_CHUNKS:
            jobs["two workers"] = (sort_on_cluster, n, chunks, True)
        yield from measured_points(effort, "chunks wall", chunks, jobs)


@contextmanager
def profiled_sort(method: str, n: int) -> Iterator[Any]:
    """Our sort on threads. Its check returns the total seconds of the tasks of each phase."""
    keys = make_keys(n)
    y = dask_gpusort.sort(da.from_array(keys, chunks=-(-n // CHUNKS), name=False), method=method)
    check = checked(keys)

    def work() -> tuple[Any, Profiler]:
        with Profiler() as profiler:
            # Without fusion each phase has separate tasks.
            found = y.persist(scheduler="threads", optimize_graph=False)
        return found, profiler

    def seconds_of_phases(result: tuple[Any, Profiler]) -> dict[str, float]:
        check(result[0].compute(scheduler="synchronous"))
        seconds: Counter[str] = Counter()
        for task in result[1].results:
            seconds[key_split(task.key)] += task.end_time - task.start_time
        unknown = {name for name in seconds if name.startswith("sort-")} - {
            name for names in PHASES.values() for name in names
        }
        if unknown:
            raise AssertionError(f"tasks of no known phase: {unknown}")
        return {phase: sum(seconds[name] for name in names) for phase, names in PHASES.items()}

    work()
    yield work, seconds_of_phases


def phases_points(effort: Effort) -> Iterator[Point]:
    for n in (1 << 12,) if effort.quick else (1 << 18, 1 << 20, 1 << 22, 1 << 24):
        for method in ("radix", "merge"):
            job = {method: (profiled_sort, method, n)}
            rounds, others = quiet_rounds(effort, partial(in_turns, Effort(effort.quick, 1), job))
            samples = [found[method][0].found for found in rounds]
            for phase in PHASES:
                yield Point(f"phases {method}", phase, n, [seconds[phase] for seconds in samples], "s", others)


def entropy_points(effort: Effort) -> Iterator[Point]:
    """Keys per second by entropy, for random words and-ed together."""
    n = 1 << effort.size(24, 12)
    for dtype in ("u4", "u8"):
        for words in WORDS:
            kind, entropy = f"{dtype} and of {words}", entropy_bits(words, 8 * np.dtype(dtype).itemsize)
            ours = (by_ours, "sort", kind, n, CHUNKS, THREADS[-1], False)
            jobs = {"ours": ours, "NumPy": (by_numpy, "sort", kind, n)}
            yield from measured_points(effort, f"entropy {dtype}", entropy, jobs)


def entropy_bits(words: int, bits: int) -> float:
    """Entropy, in bits, of keys in which each bit is set with probability ``2**-words``."""
    ones = 2.0**-words
    return -bits * (ones * math.log2(ones) + (1 - ones) * math.log2(1 - ones))


def by_network(n: int) -> Any:
    """Batcher's odd-even merge sort of the whole array, layer by layer, in NumPy."""
    return on_host(lambda keys: lambda: apply(odd_even_merge_layers(n), keys), n)


def network_points(effort: Effort) -> Iterator[Point]:
    for n in (1 << 8, 1 << 10) if effort.quick else [1 << bits for bits in NETWORK_LOG2]:
        jobs = {
            "network, a layer at a time": (by_network, n),
            "ours": (by_ours, "sort", "uniform", n, CHUNKS, THREADS[-1], False),
            "NumPy": (by_numpy, "sort", "uniform", n),
        }
        yield from measured_points(effort, "network", n, jobs)


SECTIONS = {
    "threads": threads_points,
    "chunks": chunks_points,
    "phases": phases_points,
    "entropy": entropy_points,
    "network": network_points,
}


def main() -> None:
    parser = parser_of("benchmarks.cpu.scaling", __doc__, list(SECTIONS))
    options = parse(parser, list(SECTIONS))
    if not options.output:
        parser.error("--quick says nothing of speed: store its results elsewhere with --output")
    effort, path = options.effort, options.output / FILE
    machine = describe_machine("polars", commit=options.commit)
    record = Record(machine, {"quick": effort.quick, "repeat": effort.repeat, "commits": {}})
    if path.exists():
        before = read(path)
        check_one_machine(before.machine, record.machine)
        record.points.extend(before.points)
        record.settings["commits"] |= before.settings["commits"]
    for name in options.sections:
        record.points[:] = [point for point in record.points if point.figure.split()[0] != name]
        record.add(SECTIONS[name](effort))
        record.settings["commits"][name] = machine["commit"]
        record.write(path)


if __name__ == "__main__":
    main()
