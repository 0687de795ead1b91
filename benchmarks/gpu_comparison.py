"""The table of the comparison sorts: merge sort, wide keys and merging, every result verified.

    python benchmarks/gpu_comparison.py [--keys-log2 28] [--cub LIBRARY] [--out PATH] [--sections ...] [--commit COMMIT]

Measured as `gpu_table` does: medians of runs between CUDA events, yardsticks in the same run. "share" is the bytes that
a perfect run of the algorithm moves, over its time, as a share of the measured device-to-device copy. The section
"shapes", of other tiles, is run only when asked for: it compiles for a minute.
"""

from __future__ import annotations

import itertools
import json
import math
import pathlib
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import cupy as cp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks import gpu_table
from benchmarks.gpu_table import Cub, copy_bandwidth, describe_machine, is_stable_order, median_ms, random_keys
from dask_gpusort import kernels
from dask_gpusort.kernels.policy import merge_tuning

WIDE_LOG2 = 24
RUN_COUNTS = (2, 4, 8, 16, 32)
SHAPES = {  # other tiles to time beside those in use, by bytes of a key
    4: [(512, 17, 2), (256, 17, 5), (256, 23, 4), (512, 15, 3), (512, 19, 3), (1024, 17, 1), (1024, 15, 1)],
    8: [(512, 11, 2), (256, 11, 5), (256, 15, 4), (512, 9, 3), (512, 13, 3), (1024, 11, 1), (512, 15, 2)],
}


@dataclass
class Row:
    """One line of the table; times in milliseconds."""

    work: str
    keys: int
    ours: float
    yardstick: str
    theirs: float | None
    wanted: float | None
    share: float
    verified: bool

    @property
    def ratio(self) -> float | None:
        """How many times faster than the yardstick."""
        return self.theirs / self.ours if self.theirs else None


class Table:
    """Collects rows and prints them as they come."""

    def __init__(self, cub: Cub):
        self.cub, self.copy, self.rows = cub, copy_bandwidth(), []

    def add(
        self,
        work: str,
        keys: int,
        ours: float,
        traffic: float,
        verified: bool,
        yardstick: str = "",
        theirs: float | None = None,
        wanted: float | None = None,
    ) -> None:
        row = Row(work, keys, ours, yardstick, theirs, wanted, traffic / (ours * 1e-3) / self.copy, verified)
        self.rows.append(row)
        ratio = f"{yardstick} {theirs:9.3f}  ratio {row.ratio:6.2f} (wanted {wanted})" if theirs else ""
        good = "verified" if verified else "WRONG"
        print(f"{work:52s} ours {ours:9.3f}  {ratio:52s} {100 * row.share:3.0f} % of copy  {good}", flush=True)
        cp.get_default_memory_pool().free_all_blocks()


def levels(n: int, width: int) -> int:
    """Levels of merging from runs of `width` keys."""
    return max(0, math.ceil(math.log2(-(-n // width))))


def verified_sort(keys: Any, out: Any) -> bool:
    """Whether `out` is `keys` sorted."""
    return bool((out == kernels.sort_keys(keys)).all())


def sort_rows(table: Table, n: int) -> None:
    """Merge sort beside CUB's, by both splits, with an expression, and with positions."""
    for dtype in ("uint32", "uint64"):
        keys = random_keys(dtype, n)
        out = cp.empty_like(keys)
        theirs = table.cub.call(f"cub_merge_{dtype}", keys, out)
        shape = merge_tuning.merge_shape(keys.itemsize, 0)
        doublings = levels(n, shape.keys)
        for what, options in (
            ("four at a time", {"split": "four_way"}),
            ("merge path", {"split": "path"}),
            ("samples", {"split": "samples"}),
            ("network tiles", {"tiles": "network"}),
            ("less='a < b'", {"less": "a < b"}),
            ("less, descending", {"less": "a < b", "descending": True}),
        ):
            out.fill(0x5A)
            ours = median_ms(lambda: kernels.sort_by_comparison(keys, out=out, **options), 3)  # noqa: B023
            good = verified_sort(keys, out[::-1] if "descending" in options else out)
            crossings = 1 + (-(-doublings // 2) if "at a time" in what or "less" in options else doublings)
            traffic = 2 * keys.nbytes * crossings
            wanted = 1.0 if what == "four at a time" or "less" in options else None
            table.add(f"merge sort {dtype}, {what}", n, ours, traffic, good, "CUB merge", theirs, wanted)
        positions = cp.empty(n, np.int64)
        ours = median_ms(lambda: kernels.argsort_by_comparison(keys, out=positions), 3)  # noqa: B023
        table.add(f"merge argsort {dtype}", n, ours, 0, is_stable_order(keys, positions))


def shape_rows(table: Table, n: int) -> None:
    """Merge sort with other tiles."""
    for dtype in ("uint32", "uint64"):
        keys = random_keys(dtype, n)
        out, size = cp.empty_like(keys), keys.itemsize
        before = merge_tuning.MERGE[size]
        for numbers in SHAPES[size]:
            shape = merge_tuning.MERGE[size] = merge_tuning.MergeTile(*numbers)
            try:
                ours = median_ms(lambda: kernels.sort_by_comparison(keys, out=out), 3)  # noqa: B023
                traffic = 2 * keys.nbytes * (1 + -(-levels(n, shape.keys) // 2))
                table.add(f"merge sort {dtype}, tile {numbers}", n, ours, traffic, verified_sort(keys, out))
            finally:
                merge_tuning.MERGE[size] = before


def is_lexsorted(keys: list[Any], positions: Any) -> bool:
    """Positions are a permutation, ascend by the keys (the last first), and ascend where all are equal."""
    seen = cp.zeros(positions.size, np.bool_)
    seen[positions] = True
    less = cp.zeros(positions.size - 1, np.bool_)
    equal = cp.ones(positions.size - 1, np.bool_)
    for key in keys[::-1]:
        taken = key[positions]
        less |= equal & (taken[:-1] < taken[1:])
        equal &= taken[:-1] == taken[1:]
    return bool(seen.all()) and bool((less | (equal & (positions[:-1] < positions[1:]))).all())


def wide_rows(table: Table, _: int) -> None:
    """complex128 beside cupy.sort, lexsort beside cupy.lexsort."""
    n = 1 << WIDE_LOG2
    rng = cp.random.default_rng(5)
    for what, keys in (
        ("normal parts", rng.standard_normal(n) + 1j * rng.standard_normal(n)),
        ("equal real parts", 1 + 1j * rng.standard_normal(n)),
        ("16 distinct real parts", rng.integers(0, 16, n) + 1j * rng.standard_normal(n)),
        ("4096 distinct keys", rng.integers(0, 64, n) + 1j * rng.integers(0, 64, n)),
    ):
        out = cp.empty_like(keys)
        ours = median_ms(lambda: kernels.sort_wide(keys, out=out))  # noqa: B023
        theirs = median_ms(lambda: cp.sort(keys), 3)  # noqa: B023
        good = bool((out == cp.sort(keys)).all())
        table.add(f"complex128, {what}", n, ours, 2 * keys.nbytes, good, "cupy.sort", theirs, 4.0)
    words = [random_keys(np.uint32, n, seed) for seed in (1, 2)]
    numbers = [rng.standard_normal(n) for _ in range(3)]
    for what, columns, wanted in (
        ("two uint32", words, 12.0),
        ("two uint32 of 16 distinct", [word % 16 for word in words], 12.0),
        ("three float64", numbers, 5.0),
        ("three float64, the last of 100 distinct", [*numbers[:2], cp.floor(numbers[2] * 10)], 5.0),
        ("three float64 of 100 distinct", [cp.floor(number * 10) for number in numbers], 5.0),
    ):
        out = cp.empty(n, np.int64)
        ours = median_ms(lambda: kernels.lexsort(columns, out=out))  # noqa: B023
        stacked = cp.stack(columns)
        theirs = median_ms(lambda: cp.lexsort(stacked), 3)  # noqa: B023
        traffic = 2 * sum(column.nbytes for column in columns) + out.nbytes
        table.add(f"lexsort {what}", n, ours, traffic, is_lexsorted(columns, out), "cupy.lexsort", theirs, wanted)


def merge_rows(table: Table, n: int) -> None:
    """Merging two runs beside a copy, and k runs beside sorting again."""
    for dtype, companions in (("uint64", 0), ("uint32", 0), ("uint64", 1), ("uint32", 1)):
        keys = random_keys(dtype, n)
        values = [cp.arange(n, dtype=np.uint32)][:companions]
        for count in RUN_COUNTS:
            bounds = [n * i // count for i in range(count + 1)]
            runs = [kernels.sort_keys(keys[a:b]) for a, b in itertools.pairwise(bounds)]
            parts = [[value[a:b] for a, b in itertools.pairwise(bounds)] for value in values]
            got, moved = kernels.merge_runs(runs, parts)
            good = verified_sort(keys, got)
            if moved:
                joined = cp.concatenate(runs)
                good = is_stable_order(joined, moved[0].astype(np.int64))
            ours = median_ms(lambda: kernels.merge_runs(runs, parts), 3)  # noqa: B023
            theirs = median_ms(lambda: sort_again(runs, parts), 3)  # noqa: B023
            traffic = 2 * (keys.nbytes + 4 * n * companions) * levels(count, 1)
            what = f"merge {count} runs {dtype}" + ", a companion" * companions
            table.add(what, n, ours, traffic, good, "sort again", theirs)


def sort_again(runs: list[Any], companions: list[list[Any]]) -> Any:
    """What merging is measured against: one sort of the concatenation, as the finish stage has it."""
    joined = cp.concatenate(runs)
    if not companions:
        return kernels.sort_keys(joined, out=joined)
    return kernels.sort_pairs(joined, cp.concatenate(companions[0]))


SECTIONS: dict[str, Callable[[Table, int], None]] = {
    "sort": sort_rows,
    "wide": wide_rows,
    "merge": merge_rows,
    "shapes": shape_rows,
}


def write_results(table: Table, out: pathlib.Path, commit: str) -> None:
    """Markdown for people, JSON for programs."""
    machine = describe_machine(table.copy, commit)
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(row) | {"ratio": row.ratio} for row in table.rows]
    out.with_suffix(".json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    lines = ["# Comparison sorts, wide keys and merging", "", *(f"- {k}: {v}" for k, v in machine.items()), ""]
    lines += [
        f"Medians of at most {gpu_table.REPEATS} runs, milliseconds; {sum(row.verified for row in table.rows)} of "
        f"{len(table.rows)} results verified.",
        "",
        "| work | keys | ours | beside | theirs | ratio | wanted | share of copy bandwidth |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in table.rows:
        theirs, ratio = (f"{value:.3f}" if value else "" for value in (row.theirs, row.ratio))
        missed = " (missed)" if row.wanted and (row.ratio or 0) < row.wanted else ""
        lines.append(
            f"| {row.work} | {row.keys} | {row.ours:.3f} | {row.yardstick} | {theirs} | {ratio}{missed} | "
            f"{row.wanted or ''} | {100 * row.share:.0f} % |"
        )
    out.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    gpu_table.run_table(__doc__, "gpu_comparison", SECTIONS, [*SECTIONS][:3], Table, write_results)
