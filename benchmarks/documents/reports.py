"""Writes results/*.md: every row of a stored table, and its machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from ..harness.phases import AFTER_PAUSE, PHASES
from ..harness.records import Record, Row, read
from .markdown import facts, number, ratio, short_commit, table


def mark(row: Row) -> str:
    wrong = "" if row.verified else "**wrong** "
    return wrong + {None: "", True: "reached", False: "**missed**"}[row.reached]


def on_cpu(record: Record) -> list[str]:
    """A table measured on a CPU."""
    rows = []
    for row in record.rows:
        baseline = "; ".join(f"{name}: {number(value)} {row.unit}" for name, value in row.baselines.items())
        rows.append((row.work, row.wanted, baseline, mark(row), f"{number(row.ours)} {row.unit}", ratio(row.ratio)))
    return [
        f"Medians of {record.settings['repeat']}, in turns; every result was verified. Times: the baseline over ours.",
        table(["work", "wanted", "baseline", "", "ours", "times"], rows, text=4),
    ]


def from_disk_to_disk(record: Record) -> list[str]:
    """A table of sorts from Zarr to Zarr, with what they read, wrote and held."""
    cells = []
    for row in record.rows:
        details = row.details
        others = [f"{name} {number(value / row.ours)} x" for name, value in row.baselines.items()]
        moved = [f"{details[what] / 2**30:.1f} GiB" if details else "" for what in ("read", "written", "spilled")]
        peak = f"{max(details['peaks']) / 2**20:.0f} MiB" if details else ""
        paused = f"{details['paused']}" if details else ""
        cells.append([row.work, f"{number(row.ours)} s", ", ".join(others), *moved, peak, paused, mark(row)])
    return [
        f"{record.settings['keys']:,} keys, measured once; the results of sorts were verified. Times: the others over "
        "ours. Bytes read and written include what the page cache serves.",
        table(
            ["work", "seconds", "times", "read", "written", "spilled by Dask", "peak of a worker", "paused", ""], cells
        ),
    ]


def at_scale(record: Record) -> list[str]:
    """The load of sorts on a scheduler, its workers and their disks."""
    cells = []
    for row in record.rows:
        details, about = row.details, "~" * bool(row.details.get("projected"))
        counts = [f"{details[what]:,.0f}" for what in ("runs", "groups", "rounds", "tasks")]
        busy = [f"{about}{number(details[what], 2)}" for what in ("scheduler_seconds", "longest_stop")]
        busy.append(f"{about}{number(max(details['memory'], 0) / 2**20, 2)}")
        sizes = [number(details[what] / 2**20, 2) for what in ("list_bytes", "cut_bytes")]
        shares = [f"{100 * details[what]:.1f} %" for what in ("summary_share", "table_share")]
        slices = [f"{details['slices_of_a_worker']:,.0f}", number(details["slice_bytes"] / 2**10, 2)]
        cells.append([row.work, *counts, *busy, *sizes, *shares, *slices, f"{details['messages']:,.0f}"])
    head = ["bytes in chunks of", "runs", "groups", "rounds", "tasks", "scheduler, s", "its longest stop, s"]
    head += [
        "its memory, MiB",
        "list of runs, MiB",
        "all cuts, MiB",
        "summary, of a run",
        "table, of a thread's memory",
    ]
    return [
        "int64 on workers of 64 GiB. A figure with ~ is projected from the largest graph that was driven: by tasks, "
        "the stop by runs x workers. Seconds are those of the processor, and no work is stolen. Each worker receives "
        "the list of runs once. Table: what a counting task receives at most. Messages: between workers, at most.",
        table([*head, "slices of a worker", "KiB of a slice", "messages"], cells),
    ]


def on_gpu(record: Record) -> list[str]:
    """Tables measured on one GPU, one for each section."""
    good = sum(row.verified for row in record.rows)
    texts = [
        f"Medians, milliseconds; {good} of {len(record.rows)} results verified. Times: the baseline over ours; of two "
        "baselines, the one that the goal names."
    ]
    for section in dict.fromkeys(row.section for row in record.rows):
        texts += [f"## {section}"] * bool(section)
        texts.append(gpu_table([row for row in record.rows if row.section == section]))
    return texts


def gpu_table(rows: list[Row]) -> str:
    names = sorted({name: 0 for row in rows for name in row.baselines})
    one = all(len(row.baselines) < 2 for row in rows)  # one column for their names instead of one for each
    shared, cells = any(row.copy_share for row in rows), []
    for row in rows:
        ms = {name: f"{value:.3f}" for name, value in row.baselines.items()}
        theirs = [next(iter(ms), ""), next(iter(ms.values()), "")] if one else [ms.get(name, "") for name in names]
        rate = f"{row.keys / row.ours / 1e6:.1f}" if row.ours and row.unit == "ms" else ""
        shares = [f"{100 * row.copy_share:.0f} %" if row.copy_share else ""] * shared
        # Of many baselines, the first one is named.
        times = ratio(row.ratio) + f" x {next(iter(ms), '')}" * (len(names) > 2 and not one and row.ratio is not None)
        numbers = [f"{row.keys:,}", f"{row.ours:.3f}", *theirs, times, row.wanted, rate, *shares, mark(row)]
        cells.append([row.work, *numbers])
    head = ["work", "keys", "ours", *(["baseline", "theirs"] if one else names), "times", "wanted", "Gkeys/s"]
    return table([*head, *["share of copy bandwidth"] * shared, ""], cells)


def on_gpus(record: Record) -> list[str]:
    """A table measured on several GPUs, with phases."""
    rows, phases = [], []
    for row in record.rows:
        details, commit = row.details, short_commit(row.details["commit"])
        first = [row.work, str(details["gpus"])]
        if row.ours is None:
            rows.append([*first, *[""] * 7, details["error"], commit])
            continue
        theirs = [f"{1e3 * value:.1f}" for value in row.baselines.values()] or [""]
        paused = row.samples.get(AFTER_PAUSE)
        peak = f"{details['peak_bytes'] * details['gpus'] / details['data_bytes']:.2f} x"
        cells = [
            f"{row.keys:,}",
            f"{1e3 * row.ours:.1f}",
            f"{1e3 * statistics.median(paused):.1f}" if paused else "",
            f"{row.keys / row.ours / 1e9:.1f}",
            *theirs,
            ratio(row.ratio),
        ]
        rows.append([*first, *cells, peak, "yes" if row.verified else "**no**", commit])
        found = [details["phases"].get(name) for name in (*PHASES, "scheduler")]
        texts = [f"{p['tasks']:.0f}: {1e3 * p['compute']:.1f} + {1e3 * p['transfer']:.1f}" if p else "" for p in found]
        phases += [[*first, *texts]] if details["phases"] else []
    head = ["work", "GPUs", "keys", "ours, ms", AFTER_PAUSE, "Gkeys/s", "PyTorch + NCCL, ms"]
    head += ["times", "peak", "verified", "commit"]
    return [
        "Medians of 7 warm runs, one right after another, wall time from the call to the last chunk; then the same "
        "after a pause of 0.1 s. Rows without the second figure are medians of 5 after a pause. Peak: most device "
        "memory that a GPU had allocated at a time, without the input, as a multiple of its share of the data.",
        table(head, rows),
        "Phases: tasks, and compute + transfer of the busiest worker, ms.",
        table(["work", "GPUs", *PHASES, "scheduler"], phases),
    ]


#: The paragraphs, the title and the command of each report.
REPORTS: dict[str, tuple[Callable[[Record], list[str]], str, str]] = {
    "core_cpu": (on_cpu, "The core on a CPU", "benchmarks.cpu.core"),
    "comparison_cpu": (on_cpu, "Compared keys and several keys on a CPU", "benchmarks.cpu.comparison"),
    "order_statistics_cpu": (on_cpu, "Order statistics on a CPU", "benchmarks.cpu.order_statistics"),
    "sorted_order_cpu": (on_cpu, "Distinct keys, ranks, searches and gathers on a CPU", "benchmarks.cpu.sorted_order"),
    "cores_cpu": (on_cpu, "Few keys, one chunk and clusters on a host with many cores", "benchmarks.cpu.cores"),
    "larger_than_memory_cpu": (from_disk_to_disk, "Sorts larger than memory", "benchmarks.cpu.larger_than_memory"),
    "larger_than_memory_many_cores": (
        from_disk_to_disk,
        "Sorts larger than memory on a host with many cores",
        "benchmarks.cpu.larger_than_memory",
    ),
    "scheduler_load": (at_scale, "Sorts of up to 100 TB on 1,000 workers, counted", "benchmarks.cpu.scheduler_load"),
    "gpu_table": (on_gpu, "Radix sorts on a GPU", "benchmarks.gpu.table"),
    "gpu_comparison": (on_gpu, "Comparison sorts, wide keys and merging on a GPU", "benchmarks.gpu.comparison"),
    "gpu_dask_arrays": (on_gpu, "Dask arrays of CuPy chunks on a GPU", "benchmarks.gpu.dask_arrays"),
    "multi_gpu": (on_gpus, "Sorts on several GPUs of one host", "benchmarks.gpu.multi"),
}


def report(name: str, results: Path) -> str:
    make, title, command = REPORTS[name]
    record = read(results / f"{name}.json")
    measured = f"Measured by `python -m {command}`, generated by `python -m benchmarks.documents`.\n"
    return "\n\n".join([f"# {title}", facts(record.machine), *make(record), measured])
