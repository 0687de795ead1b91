"""The headline numbers of the README: one sentence for each, with its numbers from the stored results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from ..harness.records import Record, Row, read
from .markdown import link, number

WIDTH = 120
#: Kinds of processors by a part of the name that the system gives.
PROCESSORS = {"Xeon": "a Xeon", "EPYC": "an EPYC"}


def processor(record: Record) -> str:
    """The kind of the processor, with its article."""
    return next(kind for part, kind in PROCESSORS.items() if part in record.machine["cpu"])


def times(row: Row) -> str:
    assert row.ratio
    return f"{number(row.ratio, 2)} times"


def seconds(row: Row) -> str:
    assert row.ours
    return f"{number(row.ours / (1000 if row.unit == 'ms' else 1), 2)} s"


def sort_on_threads(record: Record) -> str:
    row = record.row("51.2M int64", "numpy")
    return (
        f"51.2M int64 in 64 chunks, two threads of {processor(record)}: {seconds(row)}, {times(row)} as fast as "
        "`np.sort` of the whole array on one thread"
    )


def larger_than_memory(record: Record) -> str:
    row = record.row("sort int64")
    assert row.ours
    size, cores, workers = record.settings["keys"] >> 27, record.machine["cores"], row.work.partition(", ")[2]
    faster, copies = (number(one, 2) for one in (row.baselines["DuckDB"] / row.ours, row.ours / row.baselines["copy"]))
    return (
        f"{size} GiB of int64 from Zarr to Zarr, {workers}, {cores} cores of {processor(record)}: {seconds(row)}, "
        f"{faster} times as fast as DuckDB with as much memory, and {copies} times what a copy takes"
    )


def quantiles(record: Record) -> str:
    row, lanes = record.row("five quantiles of 51,200,000", "percentile"), "median over time of (730, 300, 400) float32"
    median, peak = (record.row(f"{lanes} in chunks (73, 100, 100), 10% missing{end}") for end in ("", ": peak"))
    assert peak.ratio
    return (
        f"Five quantiles of 51.2M float64 in 64 chunks, two threads of {processor(record)}: {seconds(row)}, exact; "
        f"{times(row)} as fast as the approximate `dask.array.percentile`. xarray's {lanes}, after `register()`: "
        f"{times(median)} as fast, with {100 / peak.ratio:.0f} % of the memory"
    )


def distinct(record: Record) -> str:
    row = record.row("unique of 12,800,000 distinct", "da.unique")
    return (
        f"`unique` of 12.8M distinct int64 in 16 chunks, two threads of {processor(record)}: {times(row)} as fast as "
        "`dask.array.unique`"
    )


def sort_on_cores(record: Record) -> str:
    lines = record.lines("threads sort int64")
    ours = lines["ours, 268,435,456 keys"][-1]
    against = {name: number(lines[name][0].median / ours.median, 2) for name in ("NumPy", "Polars")}
    return (
        f"2^28 int64 in 64 chunks, {ours.x:.0f} threads of {processor(record)}: {number(ours.median, 2)} s, "
        f"{against['NumPy']} times as fast as `np.sort` on one thread, {against['Polars']} times as Polars on as many"
    )


def sort_on_a_gpu(record: Record) -> str:
    row = record.row("sort int64, 16 chunks")
    return (
        f"2^28 int64 in 16 CuPy chunks, one H200: {number(row.ours, 2)} ms, {times(row)} as fast as `cupy.sort` of one "
        "array"
    )


def sort_on_gpus(record: Record) -> str:
    row = next(row for row in record.rows if row.work == "u32-30" and row.details["gpus"] == 2)
    assert row.ours
    return f"2^30 uint32 on each of two H200: {number(1e3 * row.ours, 2)} ms, {times(row)} as fast as NCCL and PyTorch"


#: The report of each sentence.
HEADLINES: dict[str, Callable[[Record], str]] = {
    "core_cpu": sort_on_threads,
    "larger_than_memory_cpu": larger_than_memory,
    "larger_than_memory_many_cores": larger_than_memory,
    "order_statistics_cpu": quantiles,
    "sorted_order_cpu": distinct,
    "cores_cpu": sort_on_cores,
    "gpu_dask_arrays": sort_on_a_gpu,
    "multi_gpu": sort_on_gpus,
}


def headlines(results: Path, document: Path) -> str:
    """A list of the sentences, each with a link to its report."""
    return "\n".join(_lines(results, document))


def _lines(results: Path, document: Path) -> Iterator[str]:
    for name, sentence in HEADLINES.items():
        text = f"{sentence(read(results / f'{name}.json'))} ({link(f'`{name}`', results / f'{name}.md', document)})."
        yield textwrap.fill(
            text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
