"""Compares predictions of `dask_gpusort.cost` with measurements.

    python -m benchmarks.model.cost [--quick] [--output DIRECTORY]

Writes results/cost_cpu.json: rates, predictions and errors. The rates of this machine are measured one by one, not
on a whole sort: chunks are sorted and groups merged on two threads; one scan reads rank summaries; graphs have empty
tasks; one exchange moves many small pieces, and one few large pieces. The predictions for sorts in 4 to 10,000 chunks
are compared with the stored section "chunks" of `cpu.scaling`, which must come from the same machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import dask.threaded
import numpy as np
from dask._task_spec import List, Task

from dask_gpusort.chunk import numpy_ops
from dask_gpusort.chunk.run import Run
from dask_gpusort.cost import Rates, predict
from dask_gpusort.graph.runs.keep_and_take import keep, take_slices
from dask_gpusort.graph.runs.plugins import ListTask, RunTask, install
from dask_gpusort.graph.runs.store import Handle
from dask_gpusort.graph.sort.scan import first_scan
from dask_gpusort.order import Order
from dask_gpusort.plan import Exchange, InputChunks, Plan, Workers, make_plan
from dask_gpusort.plan.counting import ENTRY_BYTES, FAN_IN

from ..cpu.cluster import two_workers
from ..cpu.scaling import FILE as MEASURED_FILE
from ..cpu.scaling import MANY_CHUNKS_KEYS
from ..harness.command import parse, parser_of
from ..harness.machine import RESULTS, check_one_machine, describe_machine
from ..harness.records import Point, Record, read

FILE = "cost_cpu.json"
ORDER = Order(np.dtype("i8"))
THREADS = 2
REPEATS = 5
ON_THREADS = Workers(THREADS)
#: The scheduler and exchange of each measured sort.
SETUPS: dict[str, Exchange] = {"threads": "gather", "two workers": "runs"}


def quickest(work: Callable[[], Any]) -> float:
    """Least seconds of several runs, which other programs disturb least."""
    took = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def on_threads(work: Callable[[int], Any]) -> None:
    """Run the same work on all threads at once. They share the memory bandwidth, as in a sort."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def random_keys(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(1 << 63), (1 << 63) - 1, n)


def sorted_run(n: int, seed: int) -> Run:
    """A sorted run, as the task of a chunk returns it."""
    return numpy_ops.local_sort(random_keys(n, seed), (), ORDER, positions=False)


def sort_rate(n: int) -> float:
    """Keys per second that a thread sorts in a chunk of n keys."""
    chunks = [random_keys(n, seed) for seed in range(THREADS)]
    return n / quickest(lambda: on_threads(lambda i: numpy_ops.local_sort(chunks[i], (), ORDER, positions=False)))


def merge_seconds(runs: int, n: int) -> float:
    """Seconds that a thread takes to merge runs of n keys each."""
    pieces = [[sorted_run(n, seed * runs + number) for number in range(runs)] for seed in range(THREADS)]
    # A merge may write to its runs, so it gets copies.
    return quickest(lambda: on_threads(lambda i: numpy_ops.merge([Run(run.keys.copy()) for run in pieces[i]], ORDER)))


def scan_rate(n: int) -> float:
    """Bytes of rank summaries per second that a scan reads, from as many chunks as one task reads."""
    plan = plan_of(FAN_IN, FAN_IN * n, "gather")
    summaries = [
        numpy_ops.summarize_run(sorted_run(size, run), None, ORDER, samples=plan.samples, radix_bits=plan.radix_bits)
        for run, size in enumerate(map(int, plan.run_sizes))
    ]
    received = sum(len(summary.keys) for summary in summaries) * (ORDER.transit_dtype.itemsize + ENTRY_BYTES)
    return received / quickest(lambda: first_scan([summaries], plan))


def nothing(*_: Any) -> None:
    """Empty task."""


def task_seconds(get: Callable[[dict[Any, Task], Any], Any], tasks: int) -> float:
    """Seconds that a scheduler takes for each of many empty tasks, in two stages."""
    token = f"{time.perf_counter_ns()}"
    first = [Task((f"first-{token}", number), nothing) for number in range(tasks // 2)]
    second = [Task((f"second-{token}", number), nothing, task.ref()) for number, task in enumerate(first)]
    graph = {task.key: task for task in (*first, *second)}
    start = time.perf_counter()
    get(graph, [task.key for task in second])
    return (time.perf_counter() - start) / len(graph)


def keep_pieces(chunk: int, n: int) -> Handle:
    """Task: keep a run of n keys on its worker."""
    (handle,) = keep([Run(np.full(n, chunk, np.uint64))])
    return handle


def count_taken(handles: list[Handle], group: int, piece: int) -> int:
    """Task: take the pieces of a group, and count their keys."""
    bounds = (group * piece, (group + 1) * piece)
    return sum(map(len, take_slices(handles, [bounds] * len(handles))))


def exchange_seconds(client: Any, chunks: int, groups: int, piece: int) -> float:
    """Seconds that an exchange takes for pieces of `piece` keys, one from each chunk to each group."""
    name = f"cost-{time.perf_counter_ns()}"
    kept = [RunTask((f"keep-{name}", chunk), keep_pieces, chunk, groups * piece) for chunk in range(chunks)]
    listed = ListTask((f"list-{name}", 0), list, List(*(task.ref() for task in kept)))
    takes = [Task((f"take-{name}", group), count_taken, listed.ref(), group, piece) for group in range(groups)]
    start = time.perf_counter()
    found = client.get({task.key: task for task in (*kept, listed, *takes)}, [task.key for task in takes])
    took = time.perf_counter() - start
    if found != [piece * chunks] * groups:
        raise AssertionError("the exchange lost keys")
    return took


def plan_of(chunks: int, keys: int, exchange: Exchange, workers: Workers = ON_THREADS) -> Plan:
    sizes = (keys // chunks,) * chunks
    return make_plan(ORDER, InputChunks(sizes), sizes, method="auto", exchange=exchange, workers=workers, groups=None)


def measure_rates(quick: bool) -> dict[str, Rates]:
    """Measure the rates of this machine, for its threads and for two workers."""
    keys, runs, tasks = (1 << 12, 1 << 6, 200) if quick else (1 << 20, 1 << 12, 10_000)
    common: dict[str, Any] = {
        "threads": THREADS,
        "sort_keys": sort_rate(keys),
        "merge_keys": keys / merge_seconds(16, keys // 16),
        "scan_bytes": scan_rate(1 << (15 if quick else 20)),
        "piece_seconds": merge_seconds(runs, 8) / runs,
    }
    alone = least(task_seconds, dask.threaded.get, tasks)
    threads = Rates(workers=1, exchange_bytes=float("inf"), task_seconds=alone, message_seconds=0.0, **common)
    many, few, piece = (8, 4, 1 << 10) if quick else (64, 16, 1 << 16)
    with two_workers() as client:
        task = least(task_seconds, client.get, tasks)
        install(client)
        exchange_seconds(client, few, few, 8)  # opens connections
        small = least(exchange_seconds, client, many, many, 8)
        large = least(exchange_seconds, client, few, few, piece)
    message = max(0.0, small - (2 * many + 1) * task) * THREADS / many**2
    leaving = few * few * piece * 8 / 2
    wire = leaving / max(large - (2 * few + 1) * task - few**2 * message / THREADS, 1e-3) / 2
    workers = Rates(workers=2, exchange_bytes=wire, task_seconds=task, message_seconds=message, **common)
    return {"threads": threads, "two workers": workers}


def least(seconds: Callable[..., float], *args: Any) -> float:
    """The least of three measurements."""
    return min(seconds(*args) for _ in range(3))


def compare(rates: dict[str, Rates], measured: Record, memory: int) -> list[Point]:
    """Measured and predicted seconds of sorts, in total and for each stage."""
    points = []
    for setup, exchange in SETUPS.items():
        for found in measured.lines("chunks wall")[setup]:
            chunks = int(found.x)
            keys = MANY_CHUNKS_KEYS // chunks * chunks
            limit = ON_THREADS if setup == "threads" else Workers(THREADS, memory // THREADS)
            stages = predict(plan_of(chunks, keys, exchange, limit), rates[setup])
            figure = f"cost {setup}"
            points.append(Point(figure, "measured", chunks, found.samples))
            points.append(Point(figure, "predicted", chunks, [sum(stages.values())]))
            points += [Point(figure, stage, chunks, [seconds]) for stage, seconds in stages.items()]
    return points


def errors(points: list[Point], setup: str) -> dict[float, float]:
    """Relative errors of the predicted seconds, by number of chunks."""
    lines = Record({}, {}, points).lines(f"cost {setup}")
    pairs = zip(lines["predicted"], lines["measured"], strict=True)
    return {ours.x: ours.median / theirs.median - 1 for ours, theirs in pairs}


def main() -> None:
    options = parse(parser_of("benchmarks.model.cost", __doc__))
    output = options.output or RESULTS
    machine = describe_machine(commit=options.commit)
    measured = read(output / MEASURED_FILE)
    check_one_machine(measured.machine, machine)
    rates = measure_rates(options.quick)
    points = compare(rates, measured, machine["memory_bytes"])
    settings: dict[str, Any] = {"quick": options.quick, "rates": {setup: asdict(rates[setup]) for setup in SETUPS}}
    for setup in SETUPS:
        by_chunks = errors(points, setup)
        settings[f"errors, {setup}"] = {f"{chunks:.0f}": error for chunks, error in by_chunks.items()}
        texts = ", ".join(f"{chunks:,.0f}: {100 * error:+.0f} %" for chunks, error in by_chunks.items())
        middle = statistics.median(map(abs, by_chunks.values()))
        print(f"{setup}: error of the prediction by chunks: {texts}; median {100 * middle:.0f} %; {rates[setup]}")
    if options.output:
        Record(machine, settings, points).write(output / FILE)


if __name__ == "__main__":
    main()
