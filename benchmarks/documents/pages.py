"""The stored files of results, what each shows, and their pages: every row of a file, and its machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..figures.catalogue import FIGURES
from ..harness.machine import ROOT
from ..harness.records import SECONDS, Row, read
from .markdown import link, number, ratio, short_commit, table, together

Column = Callable[[Row], str]


def detail(name: str, row: Row, scale: float = 1, form: str = "{:,.0f}") -> str:
    """A detail of a row, divided by a scale; empty without it."""
    value = row.details.get(name)
    return "" if value is None else form.format(value / scale)


def rate(row: Row) -> str:
    if not (row.ours and row.keys and row.unit in SECONDS):
        return ""
    return number(row.keys / row.ours / SECONDS[row.unit] / 1e9)


def peak_of_workers(row: Row) -> str:
    return f"{max(row.details['peaks']) / 2**20:.0f} MiB" if "peaks" in row.details else ""


def after_a_pause(row: Row) -> str:
    return number(statistics.median(taken)) if (taken := row.samples.get("after a pause")) else ""


def peak_of_gpus(row: Row) -> str:
    return f"{row.details['peak_bytes'] * row.details['gpus'] / row.details['data_bytes']:.2f} x" if row.ours else ""


def phases(row: Row) -> str:
    """The tasks of each phase, and the milliseconds that the busiest worker computes and transfers."""
    found = row.details.get("phases", {}).items()
    return "; ".join(f"{n} {p['tasks']:.0f}: {1e3 * p['compute']:.1f} + {1e3 * p['transfer']:.1f}" for n, p in found)


def projected(name: str, row: Row, scale: float = 1) -> str:
    """A detail of a row, marked if it is projected."""
    return "~" * bool(row.details.get("projected")) + number(max(row.details[name], 0) / scale, 2)


def memory(row: Row) -> str:
    return "; ".join(f"{name}: {number(value)}" for name, value in row.details.get("memory", {}).items())


MIB, GIB = 1 << 20, 1 << 30
MEMORY: Mapping[str, Column] = {"memory, MiB": memory}
GPU: Mapping[str, Column] = {"Gkeys/s": rate}
COPY: Mapping[str, Column] = {
    **GPU,
    "share of copy bandwidth": partial(detail, "copy_share", scale=0.01, form="{:.0f} %"),
}
DISK: Mapping[str, Column] = {
    "read": partial(detail, "read", scale=GIB, form="{:.1f} GiB"),
    "written": partial(detail, "written", scale=GIB, form="{:.1f} GiB"),
    "spilled by Dask": partial(detail, "spilled", scale=GIB, form="{:.1f} GiB"),
    "peak of a worker": peak_of_workers,
    "paused": partial(detail, "paused"),
}
GPUS: Mapping[str, Column] = {
    "GPUs": partial(detail, "gpus"),
    "after a pause": after_a_pause,
    **GPU,
    "peak": peak_of_gpus,
    "commit": lambda row: short_commit(row.details["commit"]),
    "phases, ms": phases,
}
LOAD: Mapping[str, Column] = {
    **{name: partial(detail, name) for name in ("runs", "groups", "rounds")},
    "scheduler, s": partial(projected, "scheduler_seconds"),
    "its longest stop, s": partial(projected, "longest_stop"),
    "its memory, MiB": partial(projected, "memory", scale=MIB),
    "list of runs, MiB": lambda row: number(row.details["list_bytes"] / MIB, 2),
    "all cuts, MiB": lambda row: number(row.details["cut_bytes"] / MIB, 2),
    "summary, of a run": partial(detail, "summary_share", scale=0.01, form="{:.1f} %"),
    "table, of a thread's memory": partial(detail, "table_share", scale=0.01, form="{:.1f} %"),
    "slices of a worker": partial(detail, "slices_of_a_worker"),
    "KiB of a slice": lambda row: number(row.details["slice_bytes"] / 1024, 2),
    "messages": partial(detail, "messages"),
}


@dataclass(frozen=True)
class Result:
    """A stored file of results: its title, the command that measures it, and what its page says and shows besides.

    A file without a `note` has no page: its rows or points are in a figure, or in a table of a document.
    """

    title: str
    command: str
    note: str = ""
    columns: Mapping[str, Column] = field(default_factory=dict)


TURNS = "Medians, in turns. Memory is the growth of the process, or the peak of a worker."
KERNELS = "Medians, without Dask."
FILES: Mapping[str, Result] = {
    "core_cpu": Result("The core on a CPU", "cpu.core", TURNS, MEMORY),
    "comparison_cpu": Result("Compared keys and several keys on a CPU", "cpu.comparison", TURNS, MEMORY),
    "order_statistics_cpu": Result(
        "Order statistics on a CPU", "cpu.order_statistics", f"{TURNS} `da.percentile` is approximate.", MEMORY
    ),
    "sorted_order_cpu": Result(
        "Distinct keys, ranks, searches and gathers on a CPU", "cpu.sorted_order", TURNS, MEMORY
    ),
    "cores_cpu": Result("More and more threads", "cpu.cores", "Medians."),
    "larger_than_memory_cpu": Result(
        "Sorts larger than memory",
        "cpu.larger_than_memory",
        "Measured once. Bytes read and written include what the page cache serves.",
        DISK,
    ),
    "larger_than_memory_many_cores": Result(
        "Sorts larger than memory on a host with many cores",
        "cpu.larger_than_memory",
        "Measured once. Bytes read and written include what the page cache serves.",
        DISK,
    ),
    "scheduler_load": Result(
        "Sorts of up to 100 TB on 1,000 workers, counted",
        "cpu.scheduler_load",
        "int64 on workers of 64 GiB; bytes in chunks of a size. A figure with ~ is projected from the largest graph "
        "that was driven: by tasks, the stop by runs x workers. Seconds are those of the processor, and no work is "
        "stolen. Each worker receives the list of runs once. Table: what a counting task receives at most. Messages: "
        "between workers, at most.",
        LOAD,
    ),
    "passes": Result("Reads of the source and tasks of each function, counted", "cpu.passes"),
    "baselines_cpu": Result("The same keys by every library", "baselines"),
    "baselines_gpu": Result("The same keys by every library on a GPU", "baselines"),
    "gpu_table": Result("Radix sorts on a GPU", "gpu.table", KERNELS, COPY),
    "gpu_comparison": Result("Comparison sorts, wide keys and merging on a GPU", "gpu.comparison", KERNELS, COPY),
    "algorithms_gpu": Result("Algorithms of the papers and a network on a GPU", "gpu.algorithms"),
    "gpu_dask_arrays": Result(
        "Dask arrays of CuPy chunks on a GPU",
        "gpu.dask_arrays",
        "Medians of wall times; CuPy and kernels: one array.",
        GPU,
    ),
    "multi_gpu": Result(
        "Sorts on several GPUs of one host",
        "gpu.multi",
        "Medians of 7 warm runs, one right after another, wall time from the call to the last chunk; then the same "
        "after a pause of 0.1 s. Rows without the second figure are medians of 5 after a pause. Peak: most device "
        "memory that a GPU had allocated at a time, without the input, as a multiple of its share of the data. Phases: "
        "tasks, and compute + transfer of the busiest worker.",
        GPUS,
    ),
}


def facts(machine: Mapping[str, Any]) -> str:
    versions = {"versions": ", ".join(f"{name} {version}" for name, version in machine.get("versions", {}).items())}
    return "\n".join(f"- {name}: {value}" for name, value in {**machine, **versions}.items() if value)


def row_table(rows: list[Row], columns: Mapping[str, Column]) -> str:
    """A table of rows: baselines, ours, ratios, and more columns."""
    cells = []
    for row in rows:
        theirs = "; ".join(f"{name}: {number(value)}" for name, value in row.baselines.items())
        failed = row.details.get("error") or ("" if row.verified else "**wrong**")
        ours = f"{row.ours:,}" if isinstance(row.ours, int) else number(row.ours)
        keys = [f"{row.keys:,}" if row.keys else ""] if any(row.keys for row in rows) else []
        more = [column(row) for column in columns.values()]
        cells.append(
            [row.work, theirs, *keys, f"{ours} {row.unit}", together(row.ratios.values(), ratio), *more, failed]
        )
    head = ["work", "baseline", *["keys"] * any(row.keys for row in rows), "ours", "times", *columns, ""]
    # A column without content is left out.
    kept = [at for at in range(len(head)) if any(row[at] for row in cells)]
    return table([head[at] for at in kept], [[row[at] for at in kept] for row in cells])


def page(name: str, results: Path) -> str:
    """The page of a stored file."""
    result, record = FILES[name], read(results / f"{name}.json")
    sections = {row.section: [one for one in record.rows if one.section == row.section] for row in record.rows}
    tables = []
    for section in sections:
        tables += [f"## {section}"] * bool(section) + [row_table(sections[section], result.columns)]
    note = f"{result.note} Every result was verified. Times: the baselines over ours."
    measured = f"Measured by `python -m benchmarks.{result.command}`, generated by `python -m benchmarks.documents`.\n"
    return "\n\n".join([f"# {result.title}", facts(record.machine), note, *tables, measured])


def overview(results: Path, document: Path) -> str:
    """Every stored file with its command, its page and figures, and its machine."""
    cells = []
    for name, result in FILES.items():
        if (results / f"{name}.json").exists():
            machine = read(results / f"{name}.json").machine
            shown = [link(name, results / f"{name}.md", document)] if result.note else []
            drawn = [figure for figure, one in FIGURES.items() if one.data == name]
            shown += [link(figure, results / f"{figure}.svg", document) for figure in drawn]
            gpus = [] if result.command.startswith("cpu.") else machine.get("device", "").split(", ")
            where = f"{'2 ' * (len(gpus) > 1)}{gpus[0]}" if any(gpus) else ""
            where = where or f"{processor(machine)}, {machine['cores']} cores"
            shown = shown or [link(name, ROOT / "docs" / f"{name}.md", document)]
            cells.append([f"`{result.command}`", ", ".join(shown), where, machine["commit"][:7]])
    return table(["`python -m benchmarks.`", "measures", "on", "commit"], cells, text=4)


def processor(machine: Mapping[str, Any]) -> str:
    """The kind of the processor."""
    name: str = machine.get("cpu", "")
    return next((kind for kind in ("Xeon", "EPYC") if kind in name), name)
