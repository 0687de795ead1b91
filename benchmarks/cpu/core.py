"""Measures the goals of the package on a CPU, against the alternatives.

    python -m benchmarks.cpu.core [threads cluster chunk larger graph balance] [--repeat 3] [--quick] [--output PATH]

Writes results/core_cpu.json. Each section is a function that yields rows: the goal, our time, and the ratio to a
baseline of the same run. Every result is verified.

    threads    time and memory of a large sort
    cluster    many small chunks, where the exchange takes most of the time
    chunk      the steps on one chunk and one thread
    larger     the example that sorts more data than the memory of the cluster holds
    graph      construction of the graph
    balance    sizes of the output chunks
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dask_gpusort

from ..asv.data import dask_keys
from ..harness.command import run_rows
from ..harness.jobs import Effort, compare, in_turns, seconds_of
from ..harness.machine import ROOT
from ..harness.records import Row
from ..harness.verify import check_sorted, parts_of
from . import cluster
from .jobs import (
    by_numpy,
    by_ours,
    dataframe_parts,
    dataframe_sort,
    fresh_sort,
    numpy_sort,
    our_merge,
    sort_computed,
    sort_held,
    sort_streamed,
)

CHUNKS, QUICK_CHUNKS = 64, 8
#: Makes glibc return freed memory to the system. distributed sets it for its workers; plain Python does not.
TRIMMED = {"MALLOC_TRIM_THRESHOLD_": "65536"}
#: Most memory that a sort may take, as a multiple of its data.
MOST_MEMORY = 2.5
DATAFRAME = "`dask.dataframe` sort_values"
CLUSTER_KEYS = 50_000
#: Numbers of chunks for the baseline with a task for each pair. Each doubling takes about four times as long.
PAIRED_CHUNKS = (64, 128, 256)
GRAPH_CHUNKS = (64, 1_024, 10_000)
#: The goal for a graph of 1,024 chunks.
MOST_SECONDS, MOST_TASKS = 1.5, 20_000
EXAMPLE = ROOT / "examples" / "larger_than_memory.py"
#: Most memory, in MiB, that a worker of 1 GiB may use.
MOST_WORKER_MEMORY = 900


def threads_rows(effort: Effort) -> Iterator[Row]:
    n, chunks = effort.size(51_200_000, 64_000), effort.size(CHUNKS, QUICK_CHUNKS)
    baselines = {
        "`numpy.sort` on one thread": (numpy_sort, 1, "faster"),
        DATAFRAME: (dataframe_sort, 5, "5 times faster"),
    }
    jobs = {"ours": (sort_held, n, chunks)} | {name: (job, n, chunks) for name, (job, *_) in baselines.items()}
    jobs |= {"consumed by chunks": (sort_streamed, n, chunks), "`compute()`": (sort_computed, n, chunks)}
    found = in_turns(effort, jobs)
    title = f"{n / 1e6:g}M int64 in {chunks} chunks, threads"
    for name, (_, least, wanted) in baselines.items():
        yield compare(found["ours"], found[name], name, least, "s", section="threads", work=title, wanted=wanted)
    trimmed = "`compute()`, `MALLOC_TRIM_THRESHOLD_=65536`"
    found |= in_turns(effort, {trimmed: (sort_computed, n, chunks)}, TRIMMED)
    for name in ("consumed by chunks", "`compute()`", trimmed):
        shares = [sample.peak / (8 * n) for sample in found[name]]
        work, wanted = (
            f"peak memory of it, {name} ({seconds_of(found[name]):.3g} s)",
            f"at most {MOST_MEMORY} times the data",
        )
        good = max(shares) <= MOST_MEMORY
        yield Row(work, max(shares), "x", "threads", wanted=wanted, reached=good, samples={name: shares})


def cluster_rows(effort: Effort) -> Iterator[Row]:
    chunks, keys = effort.size(1024, 16), effort.size(CLUSTER_KEYS, 500)
    jobs = {"two workers": cluster.sort_on_cluster, "threads": sort_streamed}
    found = in_turns(effort, {name: (job, chunks * keys, chunks) for name, job in jobs.items()})
    for (name, samples), most in zip(found.items(), (16, 3), strict=True):
        work, seconds = f"{chunks:,} chunks of {keys:,} int64, {name}", seconds_of(samples)
        goal = {"wanted": f"at most {most} s", "reached": seconds <= most}
        yield Row(work, seconds, "s", "cluster", **goal, samples={name: [sample.seconds for sample in samples]})
    for count in (4, 8) if effort.quick else PAIRED_CHUNKS:
        pair = {"ours": cluster.sort_on_cluster, "pairs": cluster.sort_by_pairs}
        found = in_turns(Effort(effort.quick, 1), {name: (job, count * keys, count) for name, job in pair.items()})
        work, baseline = f"{count:,} chunks of {keys:,} int64, two workers", f"a task for each of {count**2:,} pairs"
        yield compare(*found.values(), baseline, unit="s", section="cluster", work=work)


def chunk_rows(effort: Effort) -> Iterator[Row]:
    bits, baseline = effort.size(24, 12), '`numpy.argsort(kind="stable")`'
    for kind, least in (("int32", 5), ("int64", 3), ("int64 below 2**32", None)):
        found = in_turns(effort, {job.__name__: (job, "argsort", kind, 1 << bits) for job in (by_ours, by_numpy)})
        work, wanted = f"stable `argsort` of 2^{bits} {kind}, one chunk", f"{least} times faster" if least else ""
        yield compare(*found.values(), baseline, least, section="chunk", work=work, wanted=wanted)
    bits, baseline = effort.size(22, 10), "a fresh `numpy.sort`"
    for kind in ("int32", "int64"):
        for runs in (2, 4, 16, 64, 256):
            found = in_turns(effort, {job.__name__: (job, kind, 1 << bits, runs) for job in (our_merge, fresh_sort)})
            work = f"merge of {runs} runs, 2^{bits} {kind}"
            yield compare(*found.values(), baseline, 1, section="chunk", work=work, wanted="no slower")


def larger_rows(effort: Effort) -> Iterator[Row]:
    """Run the example once; it verifies its result itself."""
    size, chunk = ("16 MiB", "1 MiB") if effort.quick else ("4 GiB", "32 MiB")
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        command = [sys.executable, str(EXAMPLE), "--size", size, "--chunk", chunk, "--report", str(report)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        found = json.loads(report.read_text())
    seconds, peaks, restarts = found["seconds"], [peak / 2**20 for peak in found["peaks"]], found["restarts"]
    title = f"{size} of int64 in chunks of {chunk}, Zarr to Zarr, two workers of 1 GiB"
    yield Row(title, seconds, "s", "larger", wanted="finishes", reached=restarts == 0, samples={"ours": [seconds]})
    wanted, good = (
        f"under {MOST_WORKER_MEMORY} MiB, none started again",
        max(peaks) < MOST_WORKER_MEMORY and not restarts,
    )
    title = "peak memory of a worker in it"
    yield Row(title, max(peaks), "MiB", "larger", wanted=wanted, reached=good, samples={"workers": peaks})


def graph_rows(effort: Effort) -> Iterator[Row]:
    with cluster.two_workers(processes=False):  # nothing runs on them, but "runs" is planned only for a cluster
        for exchange in ("gather", "tasks", "runs"):
            for chunks in (4, 32) if effort.quick else GRAPH_CHUNKS:
                built = [cluster.build(chunks, exchange) for _ in range(effort.repeat)]
                seconds, tasks = statistics.median(seconds for seconds, _ in built), built[0][1]
                row = Row(f"graph of {chunks:,} chunks, `{exchange}`: {tasks:,} tasks", seconds, "s", "graph")
                if chunks == 1_024:
                    row.wanted = f"at most {MOST_SECONDS} s, {MOST_TASKS:,} tasks"
                    row.reached = seconds <= MOST_SECONDS and tasks <= MOST_TASKS
                row.samples = {"seconds": [seconds for seconds, _ in built], "tasks": [float(tasks)]}
                yield row


def balance_rows(effort: Effort) -> Iterator[Row]:
    """Ratio of the largest chunk to the mean. Sizes do not vary between runs, so each is measured once."""
    n, chunks = effort.size(6_400_000, 64_000), effort.size(CHUNKS, QUICK_CHUNKS)
    for distribution in ("uniform", "zipf", "mostly equal", "equal"):
        x = dask_keys(distribution, n, chunks).persist(scheduler="threads")
        spreads = []
        for parts in (parts_of(dask_gpusort.sort(x)), dataframe_parts(x)):
            sizes = check_sorted(parts.compute(scheduler="threads"), distribution, n, chunks)
            spreads.append(max(sizes) * len(sizes) / sum(sizes))
        row = Row(f"largest / mean output chunk, {distribution} keys in {chunks} chunks", spreads[0], "x", "balance")
        row.wanted, row.reached = "1", spreads[0] == 1.0
        row.baselines = {DATAFRAME: spreads[1]}
        row.samples = {"ours": spreads[:1], "dask.dataframe": spreads[1:]}
        yield row


SECTIONS = {
    "threads": threads_rows,
    "cluster": cluster_rows,
    "chunk": chunk_rows,
    "larger": larger_rows,
    "graph": graph_rows,
    "balance": balance_rows,
}

if __name__ == "__main__":
    run_rows("benchmarks.cpu.core", __doc__, "core_cpu", SECTIONS)
