"""The stored files of results, what each shows, and their pages: every row of a file, and its machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..figures.catalogue import FIGURES
from ..harness.machine import ROOT
from ..harness.records import SECONDS, Row, read
from .markdown import link, number, ratio, short_commit, table, together


@dataclass(frozen=True)
class Result:
    """A stored file of results: its title, the command that measures it, and what its page says besides.

    A file without a `note` has no page: its rows or points are in a figure, or in a table of a document.
    """

    title: str
    command: str
    note: str = ""


TURNS = "Medians, in turns. Memory is the growth of the process, or the peak of a worker."
KERNELS = "Medians, without Dask."
ONCE = "Measured once. Bytes read and written include what the page cache serves."
FILES: Mapping[str, Result] = {
    "core_cpu": Result("The core on a CPU", "cpu.core", TURNS),
    "comparison_cpu": Result("Compared keys and several keys on a CPU", "cpu.comparison", TURNS),
    "order_statistics_cpu": Result(
        "Order statistics on a CPU", "cpu.order_statistics", f"{TURNS} `da.percentile` is approximate."
    ),
    "sorted_order_cpu": Result("Distinct keys, ranks, searches and gathers on a CPU", "cpu.sorted_order", TURNS),
    "cores_cpu": Result("More and more threads", "cpu.cores", "Medians."),
    "larger_than_memory_cpu": Result("Sorts larger than memory", "cpu.larger_than_memory", ONCE),
    "larger_than_memory_many_cores": Result(
        "Sorts larger than memory on a host with many cores", "cpu.larger_than_memory", ONCE
    ),
    "scheduler_load": Result(
        "Sorts of up to 100 TB on 1,000 workers, counted",
        "cpu.scheduler_load",
        "int64 on workers of 64 GiB; bytes in chunks of a size. The scheduler's figures of projected rows are those of "
        "the largest graph that was driven, by tasks, and the stop by runs x workers. Seconds are those of the "
        "processor, and no work is stolen. Each worker receives the list of runs once. Table: what a counting task "
        "receives at most. Messages: between workers, at most.",
    ),
    "passes": Result("Reads of the source and tasks of each function, counted", "cpu.passes"),
    "gpu_table": Result("Radix sorts on a GPU", "gpu.table", KERNELS),
    "gpu_comparison": Result("Comparison sorts, wide keys and merging on a GPU", "gpu.comparison", KERNELS),
    "algorithms_gpu": Result("Algorithms of the papers and a network on a GPU", "gpu.algorithms"),
    "gpu_dask_arrays": Result(
        "Dask arrays of CuPy chunks on a GPU",
        "gpu.dask_arrays",
        "Medians of wall times; CuPy and kernels: one array.",
    ),
    "multi_gpu": Result(
        "Sorts on several GPUs of one host",
        "gpu.multi",
        "Medians of 7 warm runs, one right after another, wall time from the call to the last chunk; then the same "
        "after a pause of 0.1 s. A row without the second figure ran once. Peak: most device memory that a GPU had "
        "allocated at a time, without the input, as a multiple of its share of the data.",
    ),
}
#: Details of rows that are for figures, or for the last column.
NOT_SHOWN = ("figure", "x", "stages")


def rate(row: Row) -> str:
    """Billions of keys a second."""
    if not (row.keys and row.unit in SECONDS):
        return ""
    return number(row.keys / row.ours / SECONDS[row.unit] / 1e9)


def shown(value: Any) -> str:
    """A detail of a row: a number, several, or a commit."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {shown(one)}" for name, one in value.items())
    if isinstance(value, list):
        return " / ".join(map(shown, value))
    if isinstance(value, bool | str | None):
        return short_commit(value) if isinstance(value, str) else "yes" if value else ""
    return f"{value:,}" if isinstance(value, int) else number(value)


def row_table(rows: list[Row]) -> str:
    """A table of rows: baselines, ours, ratios, and their details by name."""
    details = [name for name in dict.fromkeys(name for row in rows for name in row.details) if name not in NOT_SHOWN]
    cells = []
    for row in rows:
        columns = {
            "work": row.work,
            "baseline": shown(row.baselines),
            "keys": f"{row.keys:,}" if row.keys else "",
            "ours": f"{shown(row.ours)} {row.unit}",
            "times": together(row.ratios.values(), ratio),
            "Gkeys/s": rate(row),
            **{name: shown(row.details.get(name)) for name in details},
            "": "" if row.verified else "**wrong**",
        }
        cells.append(columns)
    # A column without content is left out.
    kept = [name for name in cells[0] if any(row[name] for row in cells)]
    return table(kept, [[row[name] for name in kept] for row in cells])


def page(name: str, results: Path) -> str:
    """The page of a stored file."""
    result, record = FILES[name], read(results / f"{name}.json")
    versions = {"versions": ", ".join(f"{one} {two}" for one, two in record.machine.get("versions", {}).items())}
    facts = "\n".join(f"- {what}: {value}" for what, value in {**record.machine, **versions}.items() if value)
    tables = []
    for section in dict.fromkeys(row.section for row in record.rows):
        tables += [f"## {section}"] * bool(section)
        tables.append(row_table([row for row in record.rows if row.section == section]))
    note = f"{result.note} Every result was verified. Times: the baselines over ours."
    measured = f"Measured by `python -m benchmarks.{result.command}`, generated by `python -m benchmarks.documents`.\n"
    return "\n\n".join([f"# {result.title}", facts, note, *tables, measured])


#: What has neither a page nor figures of its own is a table there.
PAGE_OF_PASSES = ROOT / "docs" / "guide" / "larger_than_memory.md"


def overview(results: Path, document: Path) -> str:
    """Every stored file with its command, its page and figures, and its machine."""
    cells = []
    for name, result in FILES.items():
        if (results / f"{name}.json").exists():
            machine = read(results / f"{name}.json").machine
            paths = {name: results / f"{name}.md"} if result.note else {}
            paths |= {figure: results / f"{figure}.svg" for figure, one in FIGURES.items() if one.data == name}
            links = [link(*one, document) for one in (paths or {name: PAGE_OF_PASSES}).items()]
            gpus = [] if result.command.startswith("cpu.") else machine.get("device", "").split(", ")
            where = f"{'2 ' * (len(gpus) > 1)}{gpus[0]}" if any(gpus) else ""
            where = where or f"{processor(machine)}, {machine['cores']} cores"
            cells.append([f"`{result.command}`", ", ".join(links), where, machine["commit"][:7]])
    return table(["`python -m benchmarks.`", "measures", "on", "commit"], cells, text=4)


def processor(machine: Mapping[str, Any]) -> str:
    """The kind of the processor."""
    name: str = machine.get("cpu", "")
    return next((kind for kind in ("Xeon", "EPYC") if kind in name), name)
