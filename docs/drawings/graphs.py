"""Drawings of how keys move between the chunks of an array: pages of ``docs/how`` on graphs."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np

from dask_gpusort.table.bounds import Bounds, with_ends_of_runs, with_first_and_last
from dask_gpusort.table.digits import Digits, digit_cuts, exclusive_scan, scan_table

from .canvas import ACCENT, GREEN, GREY, GROUPS, INK, ORANGE, PALE, PURPLE, SKY, WHITE, Canvas, drawing


@drawing(35)
def overview(c: Canvas) -> None:
    """A large array in unordered chunks becomes one in sorted chunks, a few chunks in memory at a time."""
    chunks = np.random.default_rng(5).permutation(np.arange(1, 17)).reshape(4, 4)
    lefts = [0.8 + 12.93 * number for number in range(4)]
    rows = ((4.4, chunks), (14.4, np.sort(chunks, axis=1)), (24.4, np.sort(chunks, axis=None).reshape(4, 4)))
    for y, row in rows:
        for x, values in zip(lefts, row, strict=True):
            c.box(x - 0.4, y - 0.4, 10.4, 3.2, fill=GREY)
            c.cells(x, y, values, [GROUPS[(value - 1) // 4] for value in values])
    for number, x in enumerate(lefts):
        c.arrow((x + 4.8, 7.2), (x + 4.8, 14))
        for place, value in enumerate(np.sort(chunks[number])):
            target = lefts[(value - 1) // 4]
            c.arrow((x + 2.4 * place + 1.2, 17.2), (target + 2.4 * ((value - 1) % 4) + 1.2, 24), PALE)
    c.heading(2, "a Dask array, larger than memory, in chunks")
    c.heading(10.5, "each chunk is sorted, and waits in memory or on disk")
    c.heading(20.5, "its slices go where they belong, exactly")
    c.note(25, 30.5, "sorted chunks of just the sizes that the array had (colours: quarters of the values)")
    c.note(25, 33, "Medians and quantiles keep only the few elements near them.")


@drawing(57.5)
def data_flow(c: Canvas) -> None:
    """Chunks are sorted and summarized; cuts are bounded; groups get their slices, and become output chunks."""
    lanes = (2, 18.5, 35)
    stages = ((2, "input chunks"), (11, "sort-local"), (26.5, "sort-scan"), (35.5, "sort-scatter"))
    for y, name in (*stages, (46, "sort-merge")):
        c.heading(y, name)
    for number, x in enumerate(lanes):
        c.box(x, 3.3, 13, 3.2, f"chunk {number}")
        c.arrow((x + 6.5, 6.5), (x + 6.5, 12.3))
        c.box(x, 12.3, 13, 3.2, "sorted codes", SKY)
        c.arrow((x + 6.5, 15.5), (x + 6.5, 18.8))
        c.box(x + 0.5, 18.8, 12, 3.2, "samples", GREY)
        c.arrow((x + 6.5, 22), (25 + (x - 18.5) * 0.8, 27.8), PALE)
        for group, fill in enumerate(GROUPS[:3]):
            c.box(x + 13 / 3 * group, 36.8, 13 / 3, 3.2, fill=fill)
        for cut in (1, 2):
            c.box(x + 13 / 3 * cut - 0.6, 36.8, 1.2, 3.2, fill=WHITE)
        c.box(x, 47.3, 13, 3.2, f"group {number}", GROUPS[number])
        for part in range(2):
            c.box(x + 6.5 * part, 54, 6.5, 2.8)
        c.arrow((x + 6.5, 50.5), (x + 6.5, 54))
        c.arrow((25 + (x - 18.5) * 0.8, 31), (x + 6.5, 36.8), PALE)
    c.box(8, 27.8, 34, 3.2, "ranks of samples: bounds of all cuts", GREY)
    for x in lanes:
        for group, target in enumerate(lanes):
            c.arrow((x + 13 / 3 * (group + 0.5), 40), (target + 6.5, 47.3), PALE)
    c.note(25, 42, "white: unresolved keys, for both groups")
    c.heading(52.4, "output chunks")


#: Three sorted chunks of 4-bit keys, which are cut into groups of six keys.
CHUNKS = np.array([[1, 3, 6, 9, 12, 14], [2, 6, 7, 8, 11, 13], [0, 4, 6, 10, 12, 15]])
BOUNDARIES = np.array([6, 12])
#: Digits of each chunk, shape (digits, chunks).
DIGITS = np.stack([np.bincount(chunk >> 2, minlength=4) for chunk in CHUNKS], axis=1)


def example_bounds() -> Bounds:
    """Bounds of the cuts of the example, by digits alone."""
    first, last = digit_cuts([Digits(2, 0, column) for column in DIGITS.T], BOUNDARIES, 2)
    sizes = np.full(3, CHUNKS.shape[1])
    starts = exclusive_scan(sizes)
    return Bounds(*with_ends_of_runs(first, last, sizes), with_first_and_last(BOUNDARIES, starts), starts)


@drawing(43)
def digit_table(c: Canvas) -> None:
    """Keys of three sorted chunks, the table of their digits, and its scan, which bounds the cuts."""
    c.heading(1.6, "sorted chunks, keys of 4 bits; colours: first two bits")
    for number, chunk in enumerate(CHUNKS):
        y = 3.4 + 3 * number
        c.text(1, y + 1.2, f"chunk {number}", align="left")
        c.cells(10, y, chunk, [GROUPS[key >> 2] for key in chunk], 4)
    scanned = scan_table(DIGITS)
    for x, title, table in ((8, "digit counts", DIGITS), (32, "exclusive scan", scanned)):
        c.heading(14.6, "table (digit, chunk), and its scan row by row")
        c.note(x + 6, 16.8, title)
        c.table(x, 18.4, table, 4)
    c.note(3.4, 16.8, "digit")
    c.arrow((21, 23.2), (30, 23.2))
    c.heading(31.4, "the cuts between three groups of six keys")
    for line, rank in enumerate(BOUNDARIES):
        digit = int(np.searchsorted(scanned[:, 0], rank, side="right")) - 1
        last = [*scanned[1:, 0], CHUNKS.size][digit] - 1
        y = 33.4 + 4.8 * line
        c.box(1, y, 2.4, 3.6, fill=GROUPS[digit])
        text = f"rank {rank} is among the ranks {scanned[digit, 0]} to {last} of digit {digit},\n"
        c.text(
            4.4,
            y + 1.8,
            f"{text}so each chunk is cut beside or among its keys {4 * digit} to {4 * digit + 3}",
            align="left",
        )


@drawing(45)
def cuts(c: Canvas) -> None:
    """Sorted chunks with bounds of their cuts; both groups receive unresolved keys, and trim them once sorted."""
    bounds = example_bounds()
    c.heading(1.6, "bounds of the cuts; two colours: keys for both groups")
    for number, chunk in enumerate(CHUNKS):
        y = 3.4 + 4 * number
        first, last = bounds.first[number], bounds.last[number]
        c.text(1, y + 1.2, f"chunk {number}", align="left")
        groups = [[g for g in range(3) if first[g] <= place < last[g + 1]] for place in range(len(chunk))]
        for place, (*_, group) in enumerate(groups):
            c.box(10 + 4 * place, y + 2.2, 4, 1, fill=GROUPS[group])
        c.cells(10, y, chunk, [GROUPS[group] for group, *_ in groups], 4)
        for cut in (*first[1:-1], *last[1:-1]):
            c.line((10 + 4 * cut,) * 2, (y - 0.7, y + 3.1), ACCENT, 2.5, above=True)
        c.text(49, y + 1.2, f"{first[1]} to {last[1]}, {first[2]} to {last[2]}", align="right")
    c.heading(17, "what each group receives")
    c.heading(24.8, "sorted, trimmed")
    c.heading(32.2, "output chunks")
    for group in range(3):
        at = x = 0.3 + 16.7 * group
        ends = zip(bounds.first[:, group], bounds.last[:, group + 1], strict=True)
        pieces = [chunk[begin:end] for chunk, (begin, end) in zip(CHUNKS, ends, strict=True)]
        for piece in pieces:
            c.cells(at, 18.8, piece, GROUPS[group], 1.74)
            at += 1.74 * len(piece) + 0.25
        c.arrow((x + 13.4, 21.6), (x + 13.4, 26.2))
        merged, rank = np.sort(np.concatenate(pieces)), bounds.ranks - bounds.first[:, group].sum()
        kept = slice(int(rank[group]), int(rank[group + 1]))
        held = range(*kept.indices(len(merged)))
        c.cells(x, 26.2, merged, [GROUPS[group] if i in held else WHITE for i in range(len(merged))], 1.74)
        c.arrow((x + 13.4, 29), (x + 13.4, 33.6))
        for part in range(2):
            c.cells(x + 3.8 + 6.2 * part, 33.6, merged[kept][3 * part : 3 * part + 3], GROUPS[group], 1.74)
    c.note(25, 39.6, "Four keys are surely before those that group 1 receives.")
    c.note(25, 41.8, "It begins at rank 6, so it drops two: 4 and the 6 of chunk 0.")


@drawing(44)
def runs(c: Canvas) -> None:
    """Workers keep sorted runs in memory or in files; one task lists runs and cuts, and each group takes its slices."""
    middles = [7.6, 17.6, 32.4, 42.4]
    for x, name in ((0.6, "worker A"), (25.4, "worker B")):
        c.box(x, 0.6, 24, 42.8, dashed=True, fill="none")
        c.text(x + 12, 2.2, name, weight="bold")
    for run, x in enumerate((2.6, 13.0, 27.4, 37.8)):
        c.box(x, 4, 9.6, 2.8, f"run {run}, sorted", GREY)
        c.arrow((x + 4.8, 6.8), (x + 4.8, 10.2))
        for part, fill in enumerate(GROUPS):
            c.box(x + 2.4 * part, 10.2, 2.4, 3, fill=fill)
            c.arrow((x + 2.4 * part + 1.2, 13.2), (middles[part], 30), PALE)
        c.note(x + 4.8, 14.8, ("memory", "file")[run % 2])
    for group, (x, fill) in enumerate(zip(middles, GROUPS, strict=True)):
        c.box(x - 4.5, 30, 9, 3.2, f"group {group}", fill)
        c.arrow((x, 33.2), (x, 38))
        c.box(x - 4.5, 38, 9, 2.8, "output")
    c.note(4, 28.4, "sort-merge", "left")
    c.box(12, 18, 26, 3.4, "sort-scan: cut bounds, handles", WHITE)
    c.note(25, 26.4, "slices: own memory, files, messages")


#: The sorts of `times_of_runs`, and its stages: the prefix of their tasks as measured then, what they do, their colour.
MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "larger_than_memory_many_cores.json"
STAGES = (
    ("from-zarr", "read", SKY),
    ("sort-local", "sort, keep", ORANGE),
    ("sort-list", "bound the cuts", PURPLE),
    ("sort-store-map", "merge, write", GREEN),
    ("finalize-hlgfinalizecompute", "end", GREY),
)


@drawing(34)
def times_of_runs(c: Canvas) -> None:
    """The stages of two measured sorts against time."""
    sorts = [row for row in json.loads(MEASURED.read_text())["rows"] if row["name"].split("/")[0] == "sort-int64"]
    scale = 44 / max(row["ours"] for row in sorts)
    for number, row in enumerate((sorts[0], sorts[-1])):
        y = 1.6 + 17 * number
        c.heading(y, f"{row['work'].partition(', ')[2]}: {row['ours']:.1f} s")
        for place, (name, text, colour) in enumerate(STAGES):
            first, last, busy = row["details"]["stages"][name]
            at = y + 1.6 + 2.7 * place
            c.box(1 + scale * first, at, max(scale * (last - first), 0.4), 2.2, fill=colour)
            side = "left" if scale * last < 26 else "right"
            x = scale * last + 1.6 if side == "left" else scale * first + 0.4
            c.note(x, at + 1.1, f"{text}, {busy:.1f} thread s", side)


@drawing(50)
def gang(c: Canvas) -> None:
    """Members on two workers report to a coordinator, start together, exchange shards, and merge."""
    for x, name in ((2, "member on A"), (20, "coordinator"), (38, "member on B")):
        c.box(x, 0.8, 10, 4.4, name if x == 20 else name.replace(" on", "\non"), WHITE if x != 20 else GREY)
        c.line((x + 5, x + 5), (5.2, 48), PALE, style=":")
    for x in (2, 38):
        c.box(x - 0.5, 6.6, 11, 4.4, "sort,\nsummarize", SKY)
        c.box(x - 0.5, 21.4, 11, 2.8, "cut", SKY)
        c.box(x - 0.5, 27.6, 11, 4.4, "exchange", ORANGE)
        c.box(x - 0.5, 39.6, 11, 2.8, "merge", GREEN)
        c.box(x - 0.5, 44.4, 11, 2.8, "output", WHITE)
        side = 12.8 if x == 2 else 37.2
        c.arrow((side, 11.4), (25, 14))
        c.arrow((25, 18), (side, 20.6))
        c.arrow((side, 34), (25, 36.6))
        c.arrow((x + 5, 42.4), (x + 5, 44.4))
    c.arrow((12.8, 29.8), (37.2, 29.8), both=True)
    c.box(16, 14, 18, 3.4, "all are ready", GREY)
    c.box(16, 37, 18, 4.4, "all have exchanged:\nnext gang may start", GREY)
    for y, text in ((10.6, "ready, summaries"), (21.4, "start, all summaries"), (28.2, "shards, by NCCL")):
        c.note(25, y, text)
    c.note(25, 33.2, "exchanged")


@drawing(31)
def brackets(c: Canvas) -> None:
    """Samples on a number line, brackets around three wanted ranks, and counts that make them exact."""
    rng = np.random.default_rng(5)
    samples = (np.arange(60) + rng.random(60)) / 60 * 46 + 2
    ends = [(samples[rank - 3], samples[rank + 3]) for rank in (15, 30, 45)]
    c.heading(1.6, "first pass: random keys, one of each stratum")
    c.line((2, 48), (8, 8), INK, 1.4)
    for x in samples:
        c.line((x, x), (6.6, 8), PALE, 1.1)
    c.note(2, 4.4, "least key", "left")
    c.note(48, 4.4, "greatest key", "right")
    c.heading(12, "brackets around the keys at 1/4, 1/2, 3/4")
    for (low, high), fill, name in zip(ends, GROUPS, ("1/4", "1/2", "3/4"), strict=False):
        c.box(low, 14, high - low, 3, name, fill)
        for x in (low, high):
            c.line((x, x), (8, 24), PALE, style=":")
    c.heading(20, "second pass: counts, and the keys inside")
    c.line((2, 48), (24, 24), INK, 1.4)
    for (low, high), fill in zip(ends, GROUPS, strict=False):
        c.line((low, high), (24, 24), fill, 7)
    edges = [2, *(x for pair in ends for x in pair), 48]
    for number, (left, right) in enumerate(pairwise(edges)):
        if number % 2 == 0:
            c.note((left + right) / 2, 26.4, "count")
        else:
            c.note((left + right) / 2, 26.4, "keys")
    c.note(25, 29.4, "Sums of counts over all chunks are exact ranks of the ends.")
