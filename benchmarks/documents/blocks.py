"""Tables inside documents, between `<!-- table: NAME -->` and `<!-- end of table -->`, of rows by their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..harness.records import SECONDS, Row, read
from .markdown import link, ratio, table, together
from .pages import overview, rate

BLOCK = re.compile(r"^(<!-- table: ([\w.]+) -->\n).*?^(<!-- end of table -->)$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A table of rows of a stored file.

    A line of `lines` is a label, names or patterns of rows whose figures share cells, and the baselines that it shows,
    if not all: each has a line. With `columns`, which are baselines, each has a column instead, and the ratio is that
    to the first one that the row has. `rate`: also billions of keys a second.
    """

    data: str
    lines: str
    columns: tuple[str, ...] = ()
    head: str = "work"
    rate: bool = False

    def parts(self) -> Iterator[tuple[str, list[str], list[str]]]:
        for line in self.lines.strip().splitlines():
            label, names, *baselines = (part.strip() for part in line.split("|"))
            yield label, names.split(), [one.strip() for text in baselines for one in text.split(";")]

    def text(self, results: Path, _: Path) -> str:
        record = read(results / f"{self.data}.json")
        found = [
            (label, [row for name in names for row in record.named(name)], which)
            for label, names, which in self.parts()
        ]
        if not self.columns:
            cells = [cell for one in found for cell in by_lines(*one)]
            return table([self.head, "baseline", "ours", "times faster"], cells, text=2)
        head = [self.head, "ours, ms", *["Gkeys/s"] * self.rate, *(f"{name}, ms" for name in self.columns)]
        cells = [[label, *self.by_columns(rows)] for label, rows, _ in found]
        return table([*head, f"times faster than {self.columns[0]}"], cells)

    def by_columns(self, rows: list[Row]) -> Iterator[str]:
        """Our milliseconds, those of each baseline, and the ratios."""
        yield milliseconds(rows)
        if self.rate:
            yield together(map(rate, rows), str)
        yield from (milliseconds(rows, name) for name in self.columns)
        known = [name for name in self.columns if name in rows[0].baselines][:1]
        other = "".join(f" ({name})" for name in known if name != self.columns[0])
        yield together([row.ratios.get(name) for row in rows for name in known], ratio) + other


def milliseconds(rows: list[Row], baseline: str = "") -> str:
    values = [row.baselines.get(baseline) if baseline else row.ours for row in rows]
    scaled = zip(values, rows, strict=True)
    return together([None if value is None else value * SECONDS[row.unit] * 1e3 for value, row in scaled])


def by_lines(label: str, rows: list[Row], baselines: list[str]) -> Iterator[list[str]]:
    """A line for each baseline, or one without any."""
    unit, ours = rows[0].unit, together([row.ours for row in rows], unit=rows[0].unit)
    for name in baselines or rows[0].baselines or [""]:
        theirs = together([row.baselines.get(name) for row in rows], unit=unit)
        yield [
            label,
            f"{name}: {theirs}" if name else "",
            ours,
            together([row.ratios.get(name) for row in rows], ratio),
        ]
        label = "the same"


CORE = """
`sort` of 51.2M int64 in 64 chunks, threads | sort
its peak memory, output consumed by chunks, in sizes of the data | peak/by-chunks
the same, `compute()` of the whole result | peak/computed
`sort` of 1,024 chunks of 50,000 int64, two workers / threads | small-chunks/workers small-chunks/threads
64 / 128 / 256 such chunks, two workers | pairs/64 pairs/128 pairs/256
stable `argsort` of 2^24 int32 / int64, one chunk | argsort/int32 argsort/int64
merge of 2 / 16 / 256 sorted runs, 2^22 int64 | merge/int64/2 merge/int64/16 merge/int64/256
largest / mean output chunk: uniform / Zipf / 90 % equal | balance/uniform balance/zipf balance/mostly-equal
"""
COMPARISON = """
`sort` of 2^22 complex128 / of few distinct ones | sort/complex128 sort/complex128-of-few-values
`sort` of 2^20 S20 / U12 | sort/S20 sort/U12
`lexsort` of 2^22, two int32 / two int64 | lexsort/two-int32 lexsort/two-int64
`lexsort` of 2^22, three float64, two of few values | lexsort/three-float64-the-first-two-of-few-values
`argsort` of 2^20 int64 by `less=numpy.less` | less/int64
`merge_sorted` of two halves of 2^24 int64 | merge_sorted
"""
ORDER_STATISTICS = """
five quantiles of 51.2M float64 in 64 chunks | quantiles
the 1,000 largest of them, and their positions | largest
xarray's median over time of (730, 300, 400) float32, chunks (73, 100, 100) / (10, 300, 400) | median/73 median/10
xarray's five quantiles over time of the same | quantile/73 quantile/10
from Zarr, (3650, 200, 200) float32, chunks (365, 50, 200): xarray's median over time | stored/median
its 90th percentile | stored/90th-percentile
its medians of months | stored/medians-of-months
its 90th percentiles of months | stored/90th-percentiles-of-months
median of 10^9 float32 made by tasks | median/made
five quantiles of 4 GiB made by tasks, two workers of 512 MiB | quantiles/workers
five quantiles of 51.2M float64 held in 1,024 chunks, two workers | quantiles/many-chunks
"""
SORTED_ORDER = """
`unique` of 12.8M distinct int64 in 16 chunks | unique
1,000 distinct values of 12.8M int64, with counts; ours with the inverse too | counts
`isin` of 12.8M int64 in 1M | isin
`rank` of 12.8M float64 in 16 chunks | rank
`searchsorted` of 12.8M needles, 64 x 64 chunks | searchsorted
`take_along_axis` of 51.2M random positions in 64 chunks | take_along_axis
`take` of 1 GiB at 1 GiB of positions, two workers of 1 GiB | take/workers
"""
CORES = """
`sort` of 2^26 int64 | sort-int64/*
stable `argsort` of 2^24 int64 | stable-argsort-int64/*
"""
GPU_TABLE = """
uint32 / float32, random bits | uint32/random float32/random
uint64 / int64 / float64, random bits | uint64/random int64/random float64/random
int64 below 2^24 | int64/below-2^24
float32 uniform / normal | float32/uniform float32/normal
float64 uniform / normal | float64/uniform float64/normal
uint8 / uint16 | uint8/random uint16/random
float16 / complex64 | float16/random complex64/random
`argsort` uint32 / uint64, stable | argsort/uint32 argsort/uint64
pairs uint32/uint64, uint64/uint64, stable | pairs/uint32 pairs/uint64
float32 rows 16384 x 16384 / 2^20 x 256 / 256 x 2^20 | rows/16384 rows/1048576 rows/256
uint32: Zipf / and of 2 / and of 4 random words | uint32/Zipf uint32/and-of-2 uint32/and-of-4
uint64: the same | uint64/Zipf uint64/and-of-2 uint64/and-of-4
2^16 / 2^20 / 2^24 / 2^30 uint32 | uint32/2^16 uint32/2^20 uint32/2^24 uint32/2^30
2^16 / 2^20 / 2^24 / 2^30 uint64 | uint64/2^16 uint64/2^20 uint64/2^24 uint64/2^30
"""
GPU_COMPARISON = """
merge sort of 2^28 uint32 / uint64, any `less` | merge-sort/uint32/less merge-sort/uint64/less
`sort` of 2^24 complex128: normal / 16 distinct real parts | complex128/normal-parts complex128/16-distinct-real-parts
merge of two runs of 2^27 uint64 / uint32 | merge/uint64/2 merge/uint32/2
"""
GPU_DASK = """
uint32, 1 / 4 / 16 / 64 / 256 chunks | sort/uint32/*
int64, the same | sort/int64/*
float64, 1 / 4 / 16 / 64 chunks | sort/float64/*
10^9 int64 in 15 chunks | large
`argsort` uint32 / int64, 16 chunks | argsort/uint32 argsort/int64
`sort_by_key` uint32 / int64 with int64, 16 chunks | sort_by_key/uint32 sort_by_key/int64
`lexsort` of two uint32, 16 chunks | lexsort/two-uint32
2^24 complex128, 16 chunks | complex128
float32 rows 16384 x 16384 in 16 chunks / in 4, axis 0 | rows/last/parts rows/0
10,000 uint32 in 8 chunks | small/uint32
five quantiles of 2^27 float64, 1 / 16 chunks | quantiles/1 quantiles/16
medians of float32: 4096 rows of 65536 / 524288 columns of 365 | median/1 median/0
`unique` of 2^27 int64, 1 / 4 chunks | unique/1 unique/4
the same, with counts and inverse | unique-counts-inverse/1 unique-counts-inverse/4
`rank` of 2^27 int64; CuPy: argsort twice | rank/1 rank/4
`rank` of 64 rows of 2^20 float32, 1 / 4 chunks along them | rank-rows/1 rank-rows/4
`take` of 2^27 int64 at random positions | take/1 take/4
`searchsorted` of 2^27 int64 needles in as many keys | searchsorted/1 searchsorted/4
"""
#: Calls on a GPU that the guide and the gallery show.
GPU_CALLS = """
`sort` of 2^28 int64 in 16 CuPy chunks | sort/int64/16 | CuPy
`sort` of 2^27 int64 in 16 NumPy chunks, `device="cuda"` | host | our sort on the CPU; NumPy
medians of 4,096 rows of 65,536 float32 | median/1 | CuPy
"""
MULTI_GPU = """
2^30 uint32 | u32-30/2
2^29 uint64 | u64-29/2
2^28 uint32 | u32-28/2
2^28 uint32, Zipf | zipf-28/2
2^28 uint32, all equal | equal-28/2
2^28 uint32, sorted | sorted-28/2
2^28 uint32 in four chunks | u32-28-x4/2
2^29 uint32, each with a companion | pairs-29/2
`argsort` of 2^28 uint32 | argsort-28/2
75 GB of uint64 in 64 chunks, made by tasks | large-u64/2
"""
#: Headline numbers of the README. A line is a label, a stored file, a row of it, and the baselines that it shows.
HEADLINES = """
2^26 int64 in 64 chunks, two Xeon threads; NumPy: one | cores_cpu | sort-int64/2 | NumPy
the same, 16 Xeon threads; Polars: 16 | cores_cpu | sort-int64/16 | NumPy; Polars
51.2M int64 in 64 chunks, two EPYC threads | core_cpu | sort | `dask.dataframe` sort_values
2 GiB of int64, Zarr to Zarr, 2 workers of 512 MiB, 2 Xeon cores | larger_than_memory_cpu | sort-int64 | DuckDB; copy
five quantiles of 51.2M float64, two EPYC threads; da: approximate | order_statistics_cpu | quantiles | da.percentile
xarray's median with numbagg, held (730, 300, 400) float32, 2 EPYC threads | order_statistics_cpu | median/73 | xarray
`unique` of 12.8M distinct int64 in 16 chunks, two EPYC threads | sorted_order_cpu | unique | da.unique
2^28 int64 in 16 CuPy chunks, one H200; CuPy: one array | gpu_dask_arrays | sort/int64/16 | CuPy
2^30 uint32 on each of two H200 | multi_gpu | u32-30/2 | PyTorch + NCCL
"""


def headlines(results: Path, document: Path) -> str:
    """A table of rows of several files, each with a link to its page."""
    cells = []
    for line in HEADLINES.strip().splitlines():
        label, data, name, baselines = line.split(" | ")
        page = link(data, results / f"{data}.md", document)
        found = by_lines(label, [read(results / f"{data}.json")[name]], baselines.split("; "))
        cells += [[*one, page] for one in found]
    return table(["work", "baseline", "ours", "times faster", "report"], cells, text=2)


def passes(results: Path, _: Path) -> str:
    """What is counted of each function."""
    head = ["reads", "reads, not held", "tasks a chunk, held", "tasks a chunk, disk"]
    rows = read(results / "passes.json").rows
    cells = [
        [re.sub("lanes?", "series", row.work), *(f"{row.details[what]:.1f}".removesuffix(".0") for what in head)]
        for row in rows
    ]
    return table(["function", *head], cells)


TABLES: dict[str, Callable[[Path, Path], str]] = {
    "headlines": headlines,
    "core_cpu": Block("core_cpu", CORE).text,
    "comparison_cpu": Block("comparison_cpu", COMPARISON).text,
    "order_statistics_cpu": Block("order_statistics_cpu", ORDER_STATISTICS).text,
    "sorted_order_cpu": Block("sorted_order_cpu", SORTED_ORDER).text,
    "cores_cpu": Block("cores_cpu", CORES, head="on 1 / 2 / 4 / 8 / 16 threads").text,
    "passes": passes,
    "gpu_table": Block("gpu_table", GPU_TABLE, ("CUB", "CuPy"), "keys").text,
    "gpu_comparison": Block("gpu_comparison", GPU_COMPARISON).text,
    "gpu_dask_arrays": Block("gpu_dask_arrays", GPU_DASK, ("CuPy", "kernel", "no-op"), "2^28 keys").text,
    "gpu_dask_arrays.calls": Block("gpu_dask_arrays", GPU_CALLS).text,
    "multi_gpu": Block("multi_gpu", MULTI_GPU, ("PyTorch + NCCL",), "keys on each GPU", rate=True).text,
    "overview": overview,
}


def filled(text: str, results: Path, document: Path) -> dict[str, tuple[str, str]]:
    """For each block of a document, by name, its text and the text that it should have."""
    found = {}
    for match in BLOCK.finditer(text):
        if match[2] not in TABLES:
            raise KeyError(f"{document}: no table {match[2]!r}; there are {', '.join(TABLES)}")
        found[match[2]] = match[0], f"{match[1]}{TABLES[match[2]](results, document)}\n{match[3]}"
    return found
