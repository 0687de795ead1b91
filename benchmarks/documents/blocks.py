"""Tables inside documents, between `<!-- table: NAME -->` and `<!-- end of table -->`."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from ..figures.catalogue import FIGURES
from ..harness.machine import RESULTS
from ..harness.records import Record, Row, read
from .headlines import headlines
from .markdown import link, number, ratio, short_commit, table, together
from .reports import REPORTS

BLOCK = re.compile(r"^(<!-- table: ([\w.]+) -->\n).*?^(<!-- end of table -->)$", re.DOTALL | re.MULTILINE)


class UnknownTableError(KeyError):
    """A document has a block for which there is no generator."""


#: Rows of the headline tables: a label, the start of the work of each stored row (alternatives in braces), and part of
#: the name of the baseline if several rows have the same work.
Groups = Sequence[tuple[str, str, str]]
CORE: Groups = [
    ("`sort` of 51.2M int64 in 64 chunks, threads", "51.2M int64", "numpy"),
    ("the same", "51.2M int64", "dataframe"),
    ("its peak memory, output consumed by chunks, in sizes of the data", "peak memory of it, consumed", ""),
    ("the same, `compute()` of the whole result", "peak memory of it, `compute()` (", ""),
    ("`sort` of 1,024 chunks of 50,000 int64, two workers / threads", "1,024 chunks of 50,000 int64, {two|thr}", ""),
    ("64 / 128 / 256 such chunks, two workers", "{64|128|256} chunks of 50,000", ""),
    ("stable `argsort` of 2^24 int32 / int64, one chunk", "stable `argsort` of 2^24 {int32|int64},", ""),
    ("merge of 2 / 16 / 256 sorted runs, 2^22 int64", "merge of {2|16|256} runs, 2^22 int64", ""),
    ("4 GiB on two workers of 1 GiB, Zarr to Zarr", "4 GiB of int64", ""),
    ("its peak memory of a worker", "peak memory of a worker", ""),
    (
        "largest / mean output chunk: uniform / Zipf / 90 % equal",
        "largest / mean output chunk, {uniform|zipf|mostly}",
        "",
    ),
]
COMPARISON: Groups = [
    ("`sort` of 2^22 complex128 / of few distinct ones", "`sort` of 2^22 complex128{,| of few}", ""),
    ("`sort` of 2^20 S20 / U12", "`sort` of 2^20 {S20|U12}", ""),
    ("`lexsort` of 2^22, two int32 / two int64", "`lexsort` of 2^22 {two int32|two int64}", ""),
    ("`lexsort` of 2^22, three float64, two of few values", "`lexsort` of 2^22 three", ""),
    ("`argsort` of 2^20 int64 by `less=numpy.less`", "argsort by `less=numpy.less`", ""),
    ("`merge_sorted` of two halves of 2^24 int64", "`merge_sorted`", ""),
]
ORDER_STATISTICS: Groups = [
    ("five quantiles of 51.2M float64 in 64 chunks", "five quantiles of 51,200,000 float64 in 64", "da.percentile"),
    ("the same, exact", "five quantiles of 51,200,000 float64 in 64", "da.quantile"),
    ("the same", "five quantiles of 51,200,000 float64 in 64", "our sort"),
    ("the 1,000 largest of them, and their positions", "the 1,000 largest", ""),
    (
        "xarray's median over time of (730, 300, 400) float32, chunks (73, 100, 100) / (10, 300, 400)",
        "median over time of (730, 300, 400) float32 in chunks {(73|(10}",
        "",
    ),
    (
        "xarray's five quantiles over time of the same",
        "quantile over time of (730, 300, 400) float32 in chunks {(73|(10}",
        "",
    ),
    ("median of 10^9 float32 made by tasks", "median of 1,000,000,000 float32 made by tasks", "our sort"),
    (
        "five quantiles of 4 GiB made by tasks, two workers of 512 MiB",
        "five quantiles of 536,870,912 float64 made by tasks, two workers of 512 MiB",
        "",
    ),
    (
        "five quantiles of 51.2M float64 held in 1,024 chunks, two workers",
        "five quantiles of 51,200,000 float64 held",
        "",
    ),
]
SORTED_ORDER: Groups = [
    ("`unique` of 12.8M distinct int64 in 16 chunks", "unique of 12,800,000 distinct", "da.unique"),
    ("the same", "unique of 12,800,000 distinct", "np.unique"),
    ("1,000 distinct values of 12.8M int64, with counts; ours with the inverse too", "1,000 distinct values", ""),
    ("`isin` of 12.8M int64 in 1M", "isin of 12,800,000", "da.isin"),
    ("the same", "isin of 12,800,000", "np.isin"),
    ("`rank` of 12.8M float64 in 16 chunks", "rank of 12,800,000", ""),
    ("`searchsorted` of 12.8M needles, 64 x 64 chunks", "searchsorted of 12,800,000", "da.searchsorted"),
    ("the same", "searchsorted of 12,800,000", "np.searchsorted"),
    ("`take_along_axis` of 51.2M random positions in 64 chunks", "take_along_axis of 51,200,000", ""),
    ("`take` of 1 GiB at 1 GiB of positions, two workers of 1 GiB", "take at random positions", ""),
]
GPU_TABLE: Groups = [
    ("uint32 / float32, random bits", "{uint32|float32} keys, random", ""),
    ("uint64 / int64 / float64, random bits", "{uint64|int64|float64} keys, random", ""),
    ("int64 below 2^24", "int64 keys below", ""),
    ("float32 uniform / normal", "float32 keys, {uniform|normal}", ""),
    ("float64 uniform / normal", "float64 keys, {uniform|normal}", ""),
    ("uint8 / uint16", "{uint8|uint16} keys", ""),
    ("float16 / complex64", "{float16|complex64} keys", ""),
    ("`argsort` uint32 / uint64, stable", "argsort {uint32, CUB uint32/uint32|uint64, CUB uint64/uint32}", ""),
    ("pairs uint32/uint64, uint64/uint64, stable", "pairs {uint32|uint64}/uint64", ""),
    ("float32 rows 16384 x 16384 / 2^20 x 256 / 256 x 2^20", "rows {16384|1048576|256} ", ""),
    ("uint32: Zipf / and of 2 / and of 4 random words", "uint32 keys, {Zipf|and of 2|and of 4}", ""),
    ("uint64: the same", "uint64 keys, {Zipf|and of 2|and of 4}", ""),
    ("2^16 / 2^20 / 2^24 / 2^30 uint32", "uint32 keys, 2^{16|20|24|30}", ""),
    ("2^16 / 2^20 / 2^24 / 2^30 uint64", "uint64 keys, 2^{16|20|24|30}", ""),
]
GPU_COMPARISON: Groups = [
    ("merge sort of 2^28 uint32 / uint64, any `less`", "merge sort {uint32|uint64}, less='a < b'", ""),
    ("`sort` of 2^24 complex128: normal / 16 distinct real parts", "complex128, {normal|16 distinct}", ""),
    ("merge of two runs of 2^27 uint64 / uint32", "merge 2 runs {uint64|uint32}", ""),
]
GPU_DASK: Groups = [
    ("uint32, 1 / 4 / 16 / 64 / 256 chunks", "sort uint32, {1 chunk|4 chunks|16 chunks|64 chunks|256 chunks}", ""),
    ("int64, the same", "sort int64, {1 chunk|4 chunks|16 chunks|64 chunks|256 chunks}", ""),
    ("float64, 1 / 4 / 16 / 64 chunks", "sort float64, {1 chunk|4 chunks|16 chunks|64 chunks}", ""),
    ("10^9 int64 in 15 chunks", "sort int64, 15 chunks", ""),
    ("`argsort` uint32 / int64, 16 chunks", "argsort {uint32|int64}", ""),
    ("`sort_by_key` uint32 / int64 with int64, 16 chunks", "sort_by_key {uint32|int64}, int64", ""),
    ("`lexsort` of two uint32, 16 chunks", "lexsort two uint32", ""),
    ("2^24 complex128, 16 chunks", "sort complex128", ""),
    (
        "float32 rows 16384 x 16384 in 16 chunks / in 4, axis 0",
        "sort float32 16384 x 16384, {last axis, chunks 4096|axis 0}",
        "",
    ),
    ("10,000 uint32 in 8 chunks", "sort uint32, 8 chunks", ""),
    ("five quantiles of 2^27 float64, 1 / 16 chunks", "five quantiles of float64, {1 chunk|16 chunks}", ""),
    (
        "medians of float32: 4096 rows of 65536 / 524288 columns of 365",
        "median of float32 {4096 x 65536|365 x 524288}",
        "",
    ),
    ("`unique` of 2^27 int64, 1 / 4 chunks", "unique of int64, {1 chunk|4 chunks}", ""),
    ("the same, with counts and inverse", "unique, counts, inverse of int64, {1 chunk|4 chunks}", ""),
    ("`rank` of 2^27 int64; CuPy: argsort twice", "rank of int64, {1 chunk|4 chunks}", ""),
    (
        "`rank` of 64 rows of 2^20 float32, 1 / 4 chunks along them",
        "rank of 64 rows of 1048576 float32, {1|4} chunk",
        "",
    ),
    ("`take` of 2^27 int64 at random positions", "take of int64, {1 chunk|4 chunks}", ""),
    ("`searchsorted` of 2^27 int64 needles in as many keys", "searchsorted of int64, {1 chunk|4 chunks}", ""),
]
#: Rows of `lexsort`, shown once the section has been measured: earlier runs timed a function of the kernels.
GPU_LEXSORT: Groups = [
    (
        "`lexsort` of 2^24: two uint32 / of 16 distinct",
        "lexsort fewer, {two uint32|two uint32 of 16}",
        "",
    ),
    (
        "`lexsort` of 2^24: three float64 / the last of 100 distinct / all of 100 distinct",
        "lexsort fewer, three float64{|, the last| of 100}",
        "",
    ),
]
#: Calls on a GPU that the guide and the gallery show: a label, the start of the stored work, and a baseline.
GPU_CALLS: Groups = [
    ("`sort` of 2^28 int64 in 16 CuPy chunks", "sort int64, 16 chunks", "CuPy"),
    ('`sort` of 2^27 int64 in 16 NumPy chunks, `device="cuda"`', "sort int64, 16 NumPy chunks", "our sort on the CPU"),
    ("the same", "sort int64, 16 NumPy chunks", "NumPy"),
    ("medians of 4,096 rows of 65,536 float32", "median of float32 4096 x 65536", "CuPy"),
]
#: Rows of the table of passes: a label, and the works whose numbers it shows, which are the same or a range.
PASSES = {
    "`sort`": ["sort"],
    "`argsort`": ["argsort"],
    "`sort_by_key`": ["sort_by_key"],
    "`lexsort` of two keys": ["lexsort"],
    "`merge_sorted`": ["merge_sorted"],
    "`is_sorted`": ["is_sorted"],
    "`median`, `quantile`, `percentile` of few long lanes": ["quantile, long lanes"],
    "the same of short lanes in whole rows": ["quantile, short lanes in whole rows"],
    "the same of short lanes in several chunks": ["quantile, short lanes in several chunks"],
    "`topk`, `argtopk`": ["topk", "argtopk"],
    "`partition`, `argpartition`": ["partition", "argpartition"],
    "`rank` of whole lanes": ["rank, whole lanes"],
    "`rank` of a long lane": ["rank, a long lane"],
    "`unique`, `nunique`": ["unique", "nunique"],
    "`unique` with counts": ["unique, counts"],
    "`unique` with counts, index and inverse": ["unique, all"],
    "`union1d`, `intersect1d`, and the other sets": ["union1d", "intersect1d"],
    "`searchsorted`": ["searchsorted"],
    "`isin`": ["isin"],
    "`take`, `take_along_axis`": ["take"],
    "`put_along_axis`": ["put_along_axis"],
}
#: Works of `gpu.multi` that the table of two GPUs shows.
MULTI_GPU = {
    "2^30 uint32": "u32-30",
    "2^29 uint64": "u64-29",
    "2^28 uint32": "u32-28",
    "2^28 uint32, Zipf": "zipf-28",
    "2^28 uint32, all equal": "equal-28",
    "2^28 uint32, sorted": "sorted-28",
    "2^28 uint32 in four chunks": "u32-28-x4",
    "2^29 uint32, each with a companion": "pairs-29",
    "`argsort` of 2^28 uint32": "argsort-28",
    "75 GB of uint64 in 64 chunks, made by tasks": "large-u64",
}


def rows_of(record: Record, works: str, baseline: str) -> list[Row]:
    before, brace, rest = works.partition("{")
    middle, _, after = rest.partition("}")
    starts = [f"{before}{one}{after}" for one in middle.split("|")] if brace else [works]
    return [record.row(start, baseline) for start in starts]


def headline(name: str, groups: Groups, results: Path, _: Path) -> str:
    """Our time, the time of the baseline and the ratio, with a row for each group."""
    record, cells = read(results / f"{name}.json"), []
    for label, works, which in groups:
        rows = rows_of(record, works, which)
        names = list(dict.fromkeys(name for row in rows for name in row.baselines))
        # Baselines whose names differ only in numbers are the same: "a task for each of 4,096 pairs".
        baseline = names[0] if len(names) == 1 else "a task for each pair of chunks"
        theirs = together([next(iter(row.baselines.values()), None) for row in rows], unit=rows[0].unit)
        ours = together([row.ours for row in rows], unit=rows[0].unit)
        cells.append(
            [label, f"{baseline}: {theirs}" if names else "", ours, together([row.ratio for row in rows], ratio)]
        )
    return table(["work", "baseline", "ours", "times faster"], cells, text=2)


def gpu_headline(results: Path, _: Path) -> str:
    record, cells = read(results / "gpu_table.json"), []
    for label, *group in GPU_TABLE:
        rows = rows_of(record, *group)
        times = [together([row.baselines.get(name) for row in rows]) for name in ("CUB", "CuPy")]
        against = "" if "CUB" in rows[0].baselines else " (CuPy)"
        faster = together([row.ratio for row in rows], ratio) + against
        cells.append([label, together([row.ours for row in rows]), *times, faster])
    return table(["keys", "ours, ms", "CUB, ms", "CuPy, ms", "times faster than CUB"], cells)


def gpu_dask_headline(results: Path, _: Path) -> str:
    """The public call on CuPy chunks beside what it replaces, the kernel and Dask's no-op."""
    record, cells = read(results / "gpu_dask_arrays.json"), []
    measured = any(row.section == "lexsort" for row in record.rows)
    for label, *group in [*GPU_DASK, *(GPU_LEXSORT if measured else [])]:
        rows = rows_of(record, *group)
        times = [together([row.baselines.get(name) for row in rows]) for name in ("CuPy", "kernel", "no-op")]
        theirs = [row.baselines.get("CuPy") for row in rows]
        faster = [other / row.ours if other and row.ours else None for row, other in zip(rows, theirs, strict=True)]
        cells.append([label, together([row.ours for row in rows]), *times, together(faster, ratio)])
    return table(["2^28 keys", "ours, ms", "CuPy, one array, ms", "kernel, ms", "no-op, ms", "x CuPy"], cells)


def gpu_calls(results: Path, _: Path) -> str:
    """A few calls, each beside one baseline."""
    record, cells = read(results / "gpu_dask_arrays.json"), []
    for label, work, baseline in GPU_CALLS:
        row = record.row(work)
        theirs = row.baselines[baseline]
        assert row.ours
        cells.append([label, f"{baseline}: {number(theirs)}", number(row.ours), ratio(theirs / row.ours)])
    return table(["call", "baseline, ms", "ours, ms", "times faster"], cells, text=2)


def passes(results: Path, _: Path) -> str:
    """Reads of the source, and tasks for each of its chunks, held in memory and exchanged through the disk."""
    counted = {row.work: row.details for row in read(results / "passes.json").rows}
    cells = []
    for label, works in PASSES.items():
        reads = span(counted[work]["reads"] for work in works)
        again = span(counted[work]["reads, not held"] for work in works)
        tasks = span(counted[work][f"tasks a chunk, {where}"] for work in works for where in ("held", "disk"))
        cells.append([label, reads if reads == again else f"{reads}, or {again}", tasks])
    return table(["function", "reads", "tasks a chunk"], cells)


def span(values: Iterable[float]) -> str:
    """The least and the greatest of some numbers, to one decimal."""
    found = [f"{value:.1f}".removesuffix(".0") for value in values]
    ends = min(found, key=float), max(found, key=float)
    return " to ".join(dict.fromkeys(ends))


def cores_headline(results: Path, _: Path) -> str:
    """Seconds of NumPy on one thread, of Polars on all, and ours on more and more threads."""
    record, cells = read(results / "cores_cpu.json"), []
    for figure in dict.fromkeys(point.figure for point in record.points):
        lines = record.lines(figure)
        base, polars = lines.pop("NumPy")[0].median, lines.pop("Polars", None)
        ((name, ours),) = lines.items()
        keys = int(name.partition(", ")[2].removesuffix(" keys").replace(",", ""))
        times = [ratio(base / point.median) for point in ours]
        threads = [f"{point.x:.0f}" for point in ours]
        work = f"{figure.removeprefix('threads ')}, 2^{keys.bit_length() - 1}"
        scaling = ratio(ours[0].median / ours[-1].median)
        cells.append([work, f"{number(base)} s", ratio(base / polars[0].median) if polars else "", *times, scaling])
    head = ["64 chunks", "NumPy, 1 thread", f"Polars, {threads[-1]}", *(f"ours, {one}" for one in threads)]
    return table([*head, f"ours, {threads[-1]} to 1"], cells)


def multi_gpu_headline(results: Path, _: Path) -> str:
    rows = {row.work: row for row in read(results / "multi_gpu.json").rows if row.details["gpus"] == 2}
    cells = []
    for label, work in MULTI_GPU.items():
        row = rows[work]
        assert row.ours
        theirs = [number(1e3 * value) for value in row.baselines.values()] or [""]
        cells.append([label, number(1e3 * row.ours), number(row.keys / row.ours / 1e9), *theirs, ratio(row.ratio)])
    return table(["keys on each GPU", "ours, ms", "Gkeys/s", "PyTorch + NCCL, ms", "times faster"], cells)


def projection(results: Path, _: Path) -> str:
    """100 TB on 800 GPUs: counts of plans, in bold if the graph was built, and predicted seconds."""
    stored, cells = json.loads((results / "projection.json").read_text()), []
    for exchange, rates in stored["settings"]["rates"].items():
        name = f"`{exchange}`, {rates['threads']:,} {'GPUs' if exchange == 'device' else 'cores'}"
        for row in stored["rows"]:
            if row["exchange"] == exchange and row["chunks"] > 1_000:
                cost, seconds = row["cost"], row["seconds"]
                tasks = f"**{cost['tasks']:,}**" if row["built_tasks"] else f"{cost['tasks']:,}"
                counts = f"{row['chunks']:,}", f"{row['groups']:,}", tasks, f"{cost['messages']:,}"
                times = seconds["sort"] + seconds["merge"], seconds["exchange"], seconds["tasks"]
                cells.append([name, *counts, *(f"{number(time)} s" for time in times)])
    return table(["exchange", "chunks", "groups", "tasks", "messages", "sorts", "exchange", "tasks alone"], cells)


def needs(results: Path, _: Path) -> str:
    """The network and storage that a sort of 100 TB needs."""
    settings = json.loads((results / "projection.json").read_text())["settings"]
    needed = settings["network_bytes_a_host"]
    assumed = max(rates["exchange_bytes"] for rates in settings["rates"].values())  # that of the cores' exchange
    rows = [
        ["network of a host, needed to exchange as fast as its GPUs sort", f"{needed / 1e9:,.0f} GB/s"],
        ["network of a host, assumed", f"{assumed / 1e9:,.0f} GB/s"],
        ["reading and writing storage", f"{settings['storage_seconds']:.0f} s"],
    ]
    return table(["100 TB on 800 GPUs", ""], rows)


def cost_errors(results: Path, _: Path) -> str:
    settings = read(results / "cost_cpu.json").settings
    cells = []
    for position in ("threads", "two workers"):
        errors = [100 * error for error in settings[f"errors, {position}"].values()]
        middle = statistics.median(map(abs, errors))
        cells.append([position, f"{min(errors):+.0f} %", f"{max(errors):+.0f} %", f"{middle:.0f} %"])
    return table(["sorts on", "least error", "greatest error", "median of the absolute errors"], cells)


def machines(results: Path, _: Path) -> str:
    """The machine and commit of every file of results."""
    cells = []
    for path in sorted(results.glob("*.json")):
        machine = json.loads(path.read_text())["machine"]
        gpu = machine.get("GPUs", machine.get("device", ""))
        count = len(gpu.split(";")) if gpu else 0
        gpu = f"{f'{count} ' if count > 1 else ''}{gpu.partition(',')[0].partition(';')[0]}"
        host = "{cpu}, {cores} cores".format(**machine) if "cpu" in machine else ""
        cells.append([f"`{path.name}`", gpu, host, f"`{short_commit(machine['commit'])}`"])
    return table(["data", "GPU", "host", "commit"], cells, text=4)


def figures(results: Path, document: Path) -> str:
    """Every figure whose data are stored, with its data and command, and with a link if it is drawn."""
    cells = []
    for name, figure in FIGURES.items():
        path = RESULTS / f"{name}.svg"
        if (RESULTS / figure.data).exists():
            shown = link(f"`{name}`", path, document) if path.exists() else f"`{name}`"
            cells.append([shown, figure.shows, f"`{figure.data}`", f"`python -m {figure.command}`"])
    return table(["figure", "shows", "data", "measured by"], cells, text=4)


def reports(results: Path, document: Path) -> str:
    """Every report whose data are stored."""
    cells = []
    for name, (_, title, command) in REPORTS.items():
        if (RESULTS / f"{name}.json").exists():
            cells.append([link(f"`{name}`", RESULTS / f"{name}.md", document), title, f"`python -m {command}`"])
    return table(["table", "shows", "measured by"], cells, text=3)


TABLES: dict[str, Callable[[Path, Path], str]] = {
    "headlines": headlines,
    "core_cpu.headline": partial(headline, "core_cpu", CORE),
    "comparison_cpu.headline": partial(headline, "comparison_cpu", COMPARISON),
    "order_statistics_cpu.headline": partial(headline, "order_statistics_cpu", ORDER_STATISTICS),
    "sorted_order_cpu.headline": partial(headline, "sorted_order_cpu", SORTED_ORDER),
    "gpu_table.headline": gpu_headline,
    "gpu_comparison.headline": partial(headline, "gpu_comparison", GPU_COMPARISON),
    "gpu_dask_arrays.headline": gpu_dask_headline,
    "gpu_dask_arrays.calls": gpu_calls,
    "cores_cpu.headline": cores_headline,
    "passes": passes,
    "multi_gpu.headline": multi_gpu_headline,
    "projection": projection,
    "projection.needs": needs,
    "cost.errors": cost_errors,
    "machines": machines,
    "figures": figures,
    "reports": reports,
}


def filled(text: str, results: Path, document: Path) -> dict[str, tuple[str, str]]:
    """For each block of a document, by name, its text and the text that it should have."""
    found = {}
    for match in BLOCK.finditer(text):
        if match[2] not in TABLES:
            raise UnknownTableError(f"{document}: no table {match[2]!r}; there are {', '.join(TABLES)}")
        found[match[2]] = match[0], f"{match[1]}{TABLES[match[2]](results, document)}\n{match[3]}"
    return found
