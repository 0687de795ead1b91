"""What the README says of speed is what was stored: every row of its tables, and what stands between them.

A row is found by its first cell; the numbers in its other cells, in their order, are those that `TABLES` says. A row
that is not told of there fails, so that no figure comes in without its measurement.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "benchmarks" / "results"
#: A number that is no part of a name, a power or a file.
NUMBER = re.compile(r"(?<![\w^.])\d[\d,]*(?:\.\d+)?(?![\w^])")
#: Sections whose tables quote measurements.
QUOTING = ("How fast", "On a GPU")

Numbers = Callable[[], list[float]]


def rows_of(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return rows


def one(rows: list[dict[str, Any]], what: str, peer: str = "") -> dict[str, Any]:
    """The row that begins with some words, beside a peer."""
    key = "what" if "what" in rows[0] else "work"
    found = [row for row in rows if row[key].startswith(what) and peer in row.get("peer", "")]
    assert found, f"nothing is stored of {what!r}"
    return found[0]


def theirs(row: dict[str, Any]) -> float:
    """Median of what a row of a report stands beside."""
    return statistics.median(list(row["samples"].values())[1])


def core(*whats: str, peer: str = "") -> Numbers:
    """Ours, theirs and ratios of rows of the core's report."""
    rows = rows_of("core_cpu")

    def numbers() -> list[float]:
        found = [one(rows, what, peer) for what in whats]
        return [*(row["measured"] for row in found), *map(theirs, found), *(row["ratio"] for row in found)]

    return numbers


def core_alone(*whats: str) -> Numbers:
    return lambda: [one(rows_of("core_cpu"), what)["measured"] for what in whats]


def in_seconds(numbers: Numbers, count: int) -> Numbers:
    """The first numbers in seconds, which are stored in milliseconds."""
    return lambda: [number / 1e3 if place < count else number for place, number in enumerate(numbers())]


def balance() -> list[float]:
    names = ("uniform", "zipf", "mostly equal")
    found = [one(rows_of("core_cpu"), f"largest / mean output chunk, {name} keys") for name in names]
    return [*(row["measured"] for row in found), *map(theirs, found)]


def comparison(*whats: str) -> Numbers:
    rows = rows_of("comparison_cpu")

    def numbers() -> list[float]:
        found = [one(rows, what) for what in whats]
        return [*(row["measured"] for row in found), *map(theirs, found), *(row["ratio"] for row in found)]

    return numbers


def gpu(*works: str, columns: tuple[str, ...] = ("ours", "cub", "cupy", "ratio")) -> Numbers:
    """Columns of rows of the GPU's table, column by column."""
    rows = rows_of("gpu_table")
    return lambda: [one(rows, work)[column] for column in columns for work in works]


def gpu_comparison(*works: str) -> Numbers:
    rows = rows_of("gpu_comparison")
    return lambda: [one(rows, work)[column] for column in ("ours", "theirs", "ratio") for work in works]


def rows_of_two_gpus() -> list[dict[str, Any]]:
    return [row for row in rows_of("multi_gpu") if row["gpus"] == 2]


def gpus(*works: str, rate: bool = False, beside: bool = False) -> Numbers:
    """Milliseconds of works on two GPUs, and for the first one Gkeys a second, NCCL's milliseconds and the ratio."""
    rows = {row["work"]: row for row in rows_of_two_gpus()}

    def numbers() -> list[float]:
        ours = [1e3 * statistics.median(rows[work]["seconds"]) for work in works]
        first = rows[works[0]]
        rates = [first["keys"] / ours[0] / 1e6] if rate else []
        theirs = 1e3 * (first["baseline"] or 0)
        return [*ours, *rates, *([theirs, theirs / ours[0]] if beside else [])]

    return numbers


def peer(series: str, keys: int) -> float:
    """Median seconds of a library on a GPU."""
    points = json.loads((RESULTS / "peers_gpu.json").read_text())["points"]
    found = [point for point in points if (point["series"], point["x"]) == (series, keys)]
    return statistics.median(found[0]["samples"])


def span_of_gpus(phase: str) -> list[float]:
    """Least and greatest milliseconds of a phase."""
    found = [1e3 * row["phases"][phase]["compute"] for row in rows_of_two_gpus() if row["phases"]]
    return [min(found), max(found)]


def peaks_of_gpus() -> list[float]:
    found = [row["peak_bytes"] * row["gpus"] / row["data_bytes"] for row in rows_of("multi_gpu")]
    return [min(found), max(found)]


BESIDE_CUPY = ("ours", "cupy", "ratio")
BESIDE_CUB = ("ours", "cub", "ratio")
CROWDING = ("Zipf", "and of 2", "and of 4")
SIZES = (16, 20, 24, 30)
MANY = "1,024 chunks of 50,000 int64"
ARGSORT = "stable `argsort` of 2^24"
#: Numbers of each row of the README's tables, by its first cell.
TABLES: dict[str, Numbers] = {
    "51.2M int64 in 64 chunks, threads": core("51.2M int64", peer="numpy.sort"),
    "the same": core("51.2M int64", peer="dask.dataframe"),
    "peak memory of it, output consumed by chunks": core_alone("peak memory of it, consumed"),
    "1,024 chunks of 50,000 int64, two workers": lambda: [
        one(rows_of("core_cpu"), f"{MANY}, two workers")["measured"],
        theirs(one(rows_of("core_cpu"), "51.2M int64", "numpy.sort")),
    ],
    "the same on threads": core_alone(f"{MANY}, threads"),
    "64 / 128 / 256 such chunks, two workers": core(*(f"{chunks} chunks of 50,000" for chunks in (64, 128, 256))),
    "stable `argsort` of 2^24, one chunk: int32 / int64": in_seconds(
        core(f"{ARGSORT} int32", f"{ARGSORT} int64, one"), 4
    ),
    "merge of 2, 16, 256 sorted runs, 2^22 int64": core(
        *(f"merge of {runs} runs, 2^22 int64" for runs in (2, 16, 256))
    ),
    "4 GiB on two workers of 1 GiB, Zarr to Zarr": core_alone("4 GiB of int64", "peak memory of a worker"),
    "largest over mean output chunk: uniform, Zipf, 90 % equal": balance,
    "`sort` of 2^22 complex128 / of few distinct ones": comparison(
        "`sort` of 2^22 complex128,", "`sort` of 2^22 complex128 of few"
    ),
    "`sort` of 2^20 S20 / U12": comparison("`sort` of 2^20 S20", "`sort` of 2^20 U12"),
    "`lexsort` of 2^22, two int32 / two int64 / three float64, two of few values": comparison(
        *(f"`lexsort` of 2^22 {keys}" for keys in ("two int32", "two int64", "three float64"))
    ),
    "`argsort` of 2^20 int64 by `less=numpy.less`": comparison("argsort by `less=numpy.less`"),
    "`merge_sorted` of two halves of 2^24 int64": comparison("`merge_sorted`"),
    "uint32 / float32, random bits": gpu("uint32 keys, random", "float32 keys, random"),
    "uint64 / int64 / float64, random bits": gpu(
        *(f"{dtype} keys, random" for dtype in ("uint64", "int64", "float64"))
    ),
    "int64 below 2^24": gpu("int64 keys below"),
    "float64 uniform / normal": gpu("float64 keys, uniform", "float64 keys, normal"),
    "uint8 / uint16": gpu("uint8 keys", "uint16 keys"),
    "float16, complex64": gpu("float16 keys", "complex64 keys", columns=BESIDE_CUPY),
    "`argsort` uint32 / uint64, stable": gpu("argsort uint32, CUB uint32/uint32", "argsort uint64, CUB uint64/uint32"),
    "float32 uniform / normal": gpu("float32 keys, uniform", "float32 keys, normal"),
    "pairs uint32/uint64, uint64/uint64, stable": gpu("pairs uint32/uint64", "pairs uint64/uint64", columns=BESIDE_CUB),
    "uint32 of Zipf / and of 2 / and of 4 random words": gpu(
        *(f"uint32 keys, {name}" for name in CROWDING), columns=BESIDE_CUB
    ),
    "uint64 of the same": gpu(*(f"uint64 keys, {name}" for name in CROWDING), columns=BESIDE_CUB),
    "2^16, 2^20, 2^24, 2^30 uint32 keys": gpu(*(f"uint32 keys, 2^{log2}" for log2 in SIZES), columns=BESIDE_CUB),
    "2^16, 2^20, 2^24, 2^30 uint64 keys": gpu(*(f"uint64 keys, 2^{log2}" for log2 in SIZES), columns=BESIDE_CUB),
    "merge sort of 2^28 uint32 / uint64, any `less`": gpu_comparison(
        *(f"merge sort {dtype}, less='a < b'" for dtype in ("uint32", "uint64"))
    ),
    "`sort` of 2^24 complex128: normal / 16 distinct real parts": gpu_comparison(
        "complex128, normal", "complex128, 16 distinct"
    ),
    "`lexsort` of 2^24, two uint32 / of 16 distinct / three float64": gpu_comparison(
        "lexsort two uint32", "lexsort two uint32 of 16", "lexsort three float64"
    ),
    "merge of two runs of 2^27 uint64 / uint32": gpu_comparison("merge 2 runs uint64", "merge 2 runs uint32"),
    "2^30 uint32": gpus("u32-30", rate=True, beside=True),
    "2^29 uint64": gpus("u64-29", rate=True, beside=True),
    "2^28 uint32 / Zipf / all equal / sorted": gpus("u32-28", "zipf-28", "equal-28", "sorted-28", beside=True),
    "2^28 uint32 in four chunks": gpus("u32-28-x4"),
    "2^29 uint32, a companion each": gpus("pairs-29", beside=True),
    "`argsort` of 2^28 uint32": gpus("argsort-28"),
    "55 GB of uint64 in 8 chunks, made by the tasks that sort them": in_seconds(gpus("large-u64-55"), 1),
    "rows 16384 x 16384, 2^20 x 256, 256 x 2^20, float32": gpu(
        "rows 16384", "rows 1048576", "rows 256 ", columns=BESIDE_CUPY
    ),
}
#: What the README quotes of runs that are not stored: numbers at the end of a row, by its first cell. Nothing may be
#: added here.
NOT_STORED = {"4 GiB on two workers of 1 GiB, Zarr to Zarr": 2}

#: Sentences with numbers in place of groups, and what is stored of each.
SENTENCES: dict[str, Numbers] = {
    r"holds the data (\S+) times.*?\((\S+) times with `MALLOC": core_alone(
        "peak memory of it, `compute()` (", "peak memory of it, `compute()`, `MALLOC"
    ),
    r"In 16 chunks .* (\S+) times for complex128, (\S+) for S20, (\S+) and (\S+) for `lexsort`": lambda: [
        row["ratio"] for row in rows_of("comparison_cpu") if row["section"] == "threads"
    ],
    r"the steps from task to task, (\S+) to (\S+) ms whatever the size": lambda: span_of_gpus("scheduler"),
    r"in 15 chunks takes (\S+) ms through Dask, .*? one chunk (\S+) and `cupy.sort` (\S+)\.": lambda: [
        1e3 * peer(series, 10**9) for series in ("dask_gpusort, CuPy chunks", "dask_gpusort, kernels", "cupy.sort")
    ],
    r"Beside the input a GPU holds (\S+) to (\S+) times its share": peaks_of_gpus,
    r"(\S+) tasks on threads and (\S+) on a cluster at 1,024 chunks \((\S+) s to build\), (\S+) and (\S+) at 10,000": (
        lambda: [
            *(tasks("gather", 1_024), tasks("p2p", 1_024)),
            one(rows_of("core_cpu"), "graph of 1,024 chunks, `p2p`")["measured"],
            *(tasks("gather", 10_000), tasks("p2p", 10_000)),
        ]
    ),
}


def errors(place: str) -> list[float]:
    """Least and greatest error of the cost model, in percent."""
    found = json.loads((RESULTS / "cost_cpu.json").read_text())["settings"][f"errors, {place}"].values()
    return [100 * min(found), 100 * max(found)]


def projected(chunks: int, exchange: str) -> dict[str, Any]:
    rows = json.loads((RESULTS / "projection.json").read_text())["rows"]
    return next(row for row in rows if (row["chunks"], row["exchange"]) == (chunks, exchange))


def tasks(exchange: str, chunks: int) -> float:
    """Tasks of a graph that was built."""
    return float(one(rows_of("core_cpu"), f"graph of {chunks:,} chunks, `{exchange}`")["samples"]["tasks"][0])


def of_projection() -> list[float]:
    """Numbers of the table of 100 TB, row by row."""
    found = []
    for exchange in ("p2p", "device"):
        for chunks in (10_000, 100_000):
            row = projected(chunks, exchange)
            cost, seconds = row["cost"], row["seconds"]
            assert row["built_tasks"] in (cost["tasks"], None)
            found += [row["groups"], cost["tasks"], cost["messages"]]
            found += [seconds["sort"] + seconds["merge"], seconds["exchange"], seconds["tasks"]]
    return found


def table_rows() -> Iterator[tuple[str, str]]:
    """First cell and other cells of each row of the tables that quote measurements."""
    for section in re.split(r"^## ", README, flags=re.MULTILINE):
        if section.startswith(QUOTING):
            lines = [line for line in section.splitlines() if line.startswith("|")]
            for line, before in zip(lines[1:], lines, strict=False):
                heads = set(before) <= set("|-: ")
                if (heads or NUMBER.search(line)) and not set(line) <= set("|-: "):
                    first, _, rest = line.strip("| ").partition("|")
                    yield first.strip(), re.sub(r"`[^`]*`", "", rest)


ROWS = dict(table_rows())


def says(quoted: str, stored: float) -> bool:
    """Whether a number is what is stored, rounded to its last digit or to three digits."""
    text = quoted.replace(",", "")
    unit = 10.0 ** -len(text.partition(".")[2])
    return abs(float(text) - stored) <= unit / 2 * 1.000001 or float(text) == float(f"{stored:.3g}")


def check(quoted: list[str], stored: list[float]) -> None:
    told = f"the README says {quoted}, stored is {[float(f'{number:.4g}') for number in stored]}"
    assert len(quoted) == len(stored), told
    assert all(map(says, quoted, stored)), told


@pytest.mark.parametrize("first", ROWS)
def test_a_row_says_what_is_stored(first: str) -> None:
    assert first in TABLES, f"nothing here says what is stored of the row {first!r}"
    quoted = NUMBER.findall(ROWS[first])
    check(quoted[: len(quoted) - NOT_STORED.get(first, 0)], TABLES[first]())


def test_rows_that_are_told_of_are_there() -> None:
    assert ROWS.keys() == TABLES.keys()
    assert NOT_STORED.keys() <= ROWS.keys()


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda text: text[-24:])
def test_a_sentence_says_what_is_stored(sentence: str) -> None:
    found = re.search(sentence, " ".join(README.split()))
    assert found is not None, "no such sentence: say here how it reads now"
    check([group.strip("(),.;") for group in found.groups()], SENTENCES[sentence]())


def test_the_benchmarks_own_page_says_what_is_stored() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text()
    text = " ".join(page.split())
    found = re.search(r"off by (-?\d+) to (-?\d+) % on threads and by (-?\d+) to (-?\d+) % on two workers", text)
    assert found is not None
    assert [float(group) for group in found.groups()] == [
        round(number) for place in ("threads", "two workers") for number in errors(place)
    ]
    rows = re.findall(r"^\| [\d,]+ \| `(?:p2p`, 9,600 cores|device`, 800 GPUs) \|(.*)$", page, re.MULTILINE)
    quoted = [number for row in rows for number in NUMBER.findall(row)]
    check(quoted, of_projection())
    assumed = json.loads((RESULTS / "projection.json").read_text())["settings"]
    found = re.search(r"a host needs (\S+) GB/s.*read and write storage takes (\S+) s", text)
    assert found is not None
    check(list(found.groups()), [assumed["network_bytes_a_host"] / 1e9, assumed["storage_seconds"]])


@pytest.mark.parametrize(
    ("quoted", "stored", "right"),
    [
        ("1.64", 1.6449, True),
        ("1.64", 1.6451, False),
        ("1.6", 1.6449, True),
        ("1,470", 1473.0, True),
        ("1,470", 1476.0, False),
        ("89", 89.4, True),
        ("89", 88.4, False),
    ],
)
def test_numbers_are_compared_as_they_are_rounded(quoted: str, stored: float, right: bool) -> None:
    assert says(quoted, stored) == right


def test_numbers_are_not_taken_from_names() -> None:
    assert NUMBER.findall("2^22 int64, S20: 1,470 ms, 9.9 x, f4 and 0.5.") == ["1,470", "9.9", "0.5"]
