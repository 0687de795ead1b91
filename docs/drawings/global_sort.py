"""The drawings of ``docs/how/global_sort.md``."""

from __future__ import annotations

import numpy as np

from dask_gpusort.table.digits import scan_table, share_out

from .canvas import ACCENT, GREY, GROUPS, PALE, SKY, WHITE, Canvas, drawing


@drawing(60.5)
def data_flow(c: Canvas) -> None:
    """Chunks are sorted, counted, cut and exchanged; groups are merged and divided into output chunks."""
    lanes = (2, 18.5, 35)
    stages = ((2, "input chunks"), (11, "sort-local"), (20, "sort-count"), (29, "sort-scan"), (38, "sort-scatter"))
    for y, name in (*stages, (47, "sort-merge")):
        c.heading(y, name)
    for number, x in enumerate(lanes):
        c.box(x, 3.3, 13, 3.2, f"chunk {number}")
        c.arrow((x + 6.5, 6.5), (x + 6.5, 12.3))
        c.box(x, 12.3, 13, 3.2, "sorted codes", SKY)
        c.arrow((x + 6.5, 15.5), (x + 6.5, 21.3))
        c.box(x + 0.5, 21.3, 12, 3.2, "summary", GREY)
        c.arrow((x + 6.5, 24.5), (25 + (x - 18.5) * 0.8, 30.3), PALE)
        for group, fill in enumerate(GROUPS[:3]):
            c.box(x + 13 / 3 * group, 39.3, 13 / 3, 3.2, fill=fill)
        c.box(x, 48.3, 13, 3.2, f"group {number}", GROUPS[number])
        for part in range(2):
            c.box(x + 6.5 * part, 56.5, 6.5, 2.8)
        c.arrow((x + 6.5, 51.5), (x + 6.5, 56.5))
        c.arrow((25 + (x - 18.5) * 0.8, 34.5), (x + 6.5, 39.3), PALE)
    c.box(8, 30.3, 34, 4.2, "digit table, rank summaries:\nbrackets, then exact cuts", GREY)
    c.arrow((42, 32.4), (48, 24.5), ACCENT, bend=0.4)
    c.note(49, 34, "next round", "right")
    for x in lanes:
        for group, target in enumerate(lanes):
            c.arrow((x + 13 / 3 * (group + 0.5), 42.5), (target + 6.5, 48.3), PALE)
    c.heading(54, "output chunks")


#: Three sorted chunks of 4-bit keys, which are cut into groups of six keys.
CHUNKS = np.array([[1, 3, 6, 9, 12, 14], [2, 6, 7, 8, 11, 13], [0, 4, 6, 10, 12, 15]])
BOUNDARIES = np.array([6, 12])


def example_table() -> np.ndarray:
    """Digit counts of the example, shape (4, chunks): a digit is the first two bits."""
    return np.stack([np.bincount(chunk >> 2, minlength=4) for chunk in CHUNKS], axis=1)


def example_cuts() -> np.ndarray:
    """Cuts of the example, shape (chunks, groups + 1): keys less than that at a boundary, and ties in chunk order."""
    keys = np.sort(CHUNKS, axis=None)[BOUNDARIES]
    less = (CHUNKS[:, :, None] < keys).sum(axis=1)
    equal = (CHUNKS[:, :, None] == keys).sum(axis=1)
    inner = less + share_out(BOUNDARIES - less.sum(axis=0), equal)
    return np.hstack([np.zeros((3, 1), int), inner, np.full((3, 1), CHUNKS.shape[1])])


@drawing(43)
def digit_table(c: Canvas) -> None:
    """Keys of three sorted chunks, the table of their digits, and its scan, which brackets the cuts."""
    c.heading(1.6, "sorted chunks, keys of 4 bits; colours: first two bits")
    for number, chunk in enumerate(CHUNKS):
        y = 3.4 + 3 * number
        c.text(1, y + 1.2, f"chunk {number}", align="left")
        c.cells(10, y, chunk, [GROUPS[key >> 2] for key in chunk], 4)
    counts = example_table()
    scanned = scan_table(counts)
    for x, title, table in ((8, "digit counts", counts), (32, "exclusive scan", scanned)):
        c.heading(14.6, "table (digit, chunk), and its scan row by row")
        c.note(x + 6, 16.8, title)
        for digit, row in enumerate(table):
            y = 18.4 + 2.4 * digit
            c.text(x - 0.8, y + 1.2, f"{digit}", align="right")
            c.cells(x, y, row, GROUPS[digit], 4)
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
            4.4, y + 1.8, f"{text}so the key there is one of {4 * digit} to {4 * digit + 3}: a bracket", align="left"
        )


@drawing(45)
def cuts(c: Canvas) -> None:
    """Sorted chunks cut exactly, runs gathered to groups, and groups divided into output chunks."""
    found = example_cuts()
    c.heading(1.6, "sorted chunks, cut; colours: groups")
    for number, chunk in enumerate(CHUNKS):
        y = 3.4 + 4 * number
        c.text(1, y + 1.2, f"chunk {number}", align="left")
        fills = [GROUPS[int(np.searchsorted(found[number, 1:], i, side="right"))] for i in range(len(chunk))]
        c.cells(10, y, chunk, fills, 4)
        for cut in found[number, 1:-1]:
            c.line((10 + 4 * cut,) * 2, (y - 0.7, y + 3.1), ACCENT, 2.5, above=True)
        c.text(49, y + 1.2, f"cuts at {found[number, 1]}, {found[number, 2]}", align="right")
    c.heading(17, "runs of each group")
    for group in range(3):
        x = 1 + 16.6 * group
        runs = [chunk[slice(*cut[group : group + 2])] for chunk, cut in zip(CHUNKS, found, strict=True)]
        at = x
        for run in runs:
            c.cells(at, 18.8, run, GROUPS[group], 2.4)
            at += 2.4 * len(run) + 0.4
        c.arrow((x + 7.4, 21.6), (x + 7.4, 26.2))
        c.cells(x + 0.4, 26.2, np.sort(np.concatenate(runs)), GROUPS[group], 2.4)
        c.arrow((x + 7.4, 29), (x + 7.4, 33.6))
        merged = np.sort(np.concatenate(runs))
        c.cells(x, 33.6, merged[:3], WHITE, 2.4)
        c.cells(x + 7.6, 33.6, merged[3:], WHITE, 2.4)
    c.heading(24.8, "merged")
    c.heading(32.2, "output chunks of three keys: slices")
    c.note(25, 39.6, "Three keys are 6. One of them comes before the cut at rank 6:")
    c.note(25, 41.8, "that of the first chunk, so equal keys keep the order of the input.")
