"""Drawings of what kernels do with the keys of one chunk."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dask_gpusort.table.digits import scan_table

from .canvas import ACCENT, GREEN, GREY, GROUPS, INK, ORANGE, PALE, SKY, SMALL, WHITE, Canvas, drawing

#: Two tiles of keys with digits of 2 bits.
TILES = np.array([[3, 0, 1, 3, 0], [2, 1, 3, 0, 1]])


@drawing(33)
def scales(c: Canvas) -> None:
    """An array of chunks, a chunk of tiles, a tile of keys; each is sorted, counted, scanned and scattered."""
    rows = ((3.4, "array: a Dask graph, blocks are chunks", 4, 2), (12.4, "chunk: kernels, blocks are tiles", 8, 3))
    for y, text, parts, zoomed in rows:
        c.heading(y - 1.6, text)
        width = 48 / parts
        for part in range(parts):
            c.box(1 + part * width, y, width, 3, fill=SKY if part == zoomed else WHITE)
        for near, far in ((zoomed * width, 1.0), ((zoomed + 1) * width, 49.0)):
            c.line((1 + near, far), (y + 3, y + 9), PALE, style=":")
    c.heading(19.8, "tile: one thread block, blocks are the keys of threads")
    c.cells(1, 21.4, (5, 2, 7, 1, 6, 0, 3, 4, 2, 6, 1, 5), SKY, 4)
    steps = ("sort\neach block", "count\nits digits", "scan\nthe counts", "scatter\nits runs")
    for number, step in enumerate(steps):
        c.box(1 + 12.6 * number, 27, 10.2, 5, step, GREY)
        if number:
            c.arrow((12.6 * number - 1.4, 29.5), (1 + 12.6 * number, 29.5))


@drawing(50)
def four_steps(c: Canvas) -> None:
    """One pass of the four-step radix sort: sort tiles, count, scan column-major, scatter."""
    ordered = np.sort(TILES, axis=1)
    counts = np.stack([np.bincount(tile, minlength=4) for tile in TILES], axis=1)
    scanned = scan_table(counts)
    c.heading(1.4, "keys_in, two tiles (one thread block each)")
    c.heading(9.6, "1  sort each tile by the digit, in shared memory")
    for tile, x in enumerate((2, 27)):
        c.cells(x, 3.2, TILES[tile], [GROUPS[d] for d in TILES[tile]], 4.2)
        c.arrow((x + 10.5, 5.9), (x + 10.5, 8.2), PALE)
        c.cells(x, 11.4, ordered[tile], [GROUPS[d] for d in ordered[tile]], 4.2)
    c.heading(17.4, "2  count digits")
    c.text(27, 17.4, "3  scan the table", align="left", weight="bold")
    for x, table in ((6, counts), (31, scanned)):
        for tile in range(2):
            c.note(x + 2.5 + 5 * tile, 19.6, f"tile {tile}")
        c.table(x, 20.8, table, 5)
    c.arrow((17.6, 25.6), (27.6, 25.6))
    c.heading(33.4, "4  scatter: rank = table entry + rank in the bucket")
    begins = [np.searchsorted(tile, tile) for tile in ordered]
    for tile, x in enumerate((2, 27)):
        c.cells(x, 35.2, ordered[tile], [GROUPS[d] for d in ordered[tile]], 4.2)
        for i, digit in enumerate(ordered[tile]):
            rank = scanned[digit, tile] + i - begins[tile][i]
            c.arrow((x + 4.2 * i + 2.1, 37.6), (2 + 4.6 * rank + 2.3, 44.6), PALE)
    c.cells(2, 44.6, np.sort(TILES, axis=None), [GROUPS[d] for d in np.sort(TILES, axis=None)], 4.6)
    c.note(2, 48.6, "keys_out", "left")


@drawing(46)
def msd_levels(c: Canvas) -> None:
    """A sample gives a splitter map, a histogram its buckets; two partitions and a block sort in shared memory."""
    c.box(1, 1, 48, 3, "keys")
    c.arrow((8, 4), (8, 8))
    c.box(1, 8, 14, 5, "sample", WHITE)
    c.arrow((15, 10.5), (18, 10.5))
    c.box(18, 8, 13, 5, "splitter\nmap", GREY)
    c.arrow((31, 10.5), (34, 10.5))
    c.box(34, 8, 15, 5, "histogram of\nfine buckets", GREY)
    c.arrow((41.5, 4), (41.5, 8))
    c.heading(17, "partition: coarse buckets, order inside is free")
    for bucket, fill in enumerate(GROUPS):
        x = 1 + 12 * bucket
        c.arrow((24.5, 13), (x + 6, 18.8), PALE)
        c.box(x, 18.8, 12, 3, fill=fill)
        for fine in range(4):
            c.arrow((x + 6, 21.8), (x + 3 * fine + 1.5, 27.4), PALE)
            c.box(x + 3 * fine, 27.4, 3, 3, fill=fill)
            c.arrow((x + 3 * fine + 1.5, 30.4), (x + 3 * fine + 1.5, 36), PALE)
            c.box(x + 3 * fine, 36, 3, 3, fill=fill)
    c.heading(25.4, "partition: fine buckets")
    c.heading(33.6, "block sort: one thread block a bucket")
    c.note(25, 41.6, "An overfull bucket is listed, and partitioned once more")
    c.note(25, 43.8, "by digits of its own range.")


@drawing(33)
def splitter_map(c: Canvas) -> None:
    """The splitter map: equal intervals of the domain, cut into buckets in proportion to their samples."""
    shares = np.array([1, 2, 5, 8, 6, 3, 1])
    steps = np.concatenate([[0], np.cumsum(shares)]) / shares.sum()
    x = 9 + np.arange(8) * 5.4
    y = 24 - steps * 20
    for number, (left, right) in enumerate(pairwise(x)):
        c.box(left, 24 - 0.7 * shares[number], right - left, 0.7 * shares[number], fill=GREY)
    c.line(x, y, ACCENT, 2.2, above=True)
    c.line((9, 9, 47), (3, 24, 24))
    c.text(4.4, 13.5, "fine\nbucket", rotation=0)
    c.text(28, 26, "coordinate: code, or value of a float")
    c.text(16.5, 6, "bucket of a key:\none look-up, one\ninterpolation", size=SMALL, colour=ACCENT)
    c.note(28, 28.8, "Bars: samples in intervals of equal width. An interval with many")
    c.note(28, 31, "samples is cut into many buckets; inside one the map is linear.")


@drawing(40)
def block_sort(c: Canvas) -> None:
    """A block sort: count codes in fields over the bucket's range, scatter to ranks, compare neighbours."""
    codes = np.array([38, 7, 55, 13, 21, 22, 60, 5])
    least, fields = codes.min(), 16
    of_code = (codes - least) * (fields - 1) // (codes.max() - least)
    counts = np.bincount(of_code, minlength=fields)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    order = np.argsort(of_code, kind="stable")
    # Codes of one field arrive in any order.
    arrived = codes[order][::-1][np.argsort(of_code[order][::-1], kind="stable")]
    c.heading(1.4, "codes of a bucket, in the registers of a block")
    c.cells(1, 3.2, codes, WHITE, 6)
    c.heading(9.2, "count them in fields of equal width, 2 bits each")
    c.cells(1, 11, counts, [SKY if n == 1 else ORANGE if n else WHITE for n in counts], 3)
    c.note(1, 15, f"field 0: from {least} on", "left")
    c.note(49, 15, f"field {fields - 1}: {codes.max()}", "right")
    c.heading(18.6, "exclusive scan: the rank of each field")
    c.cells(1, 20.4, starts, [GREY if n else WHITE for n in counts], 3)
    c.heading(26.4, "scatter to the ranks")
    shared = [counts[field] > 1 for field in np.sort(of_code)]
    c.cells(1, 28.2, arrived, [ORANGE if two else SKY for two in shared], 6)
    c.heading(34.2, "compare each code with two neighbours on either side")
    c.cells(1, 36, np.sort(codes), SKY, 6)


@drawing(41.5)
def merge_path(c: Canvas) -> None:
    """The merge path of two runs, and the diagonals that cut it into equal parts."""
    a, b = [1, 3, 4, 7], [2, 3, 5, 6]
    path, i, j = [(0, 0)], 0, 0
    while i < len(a) or j < len(b):
        # At equal keys the path takes from a first.
        takes_a = j == len(b) or (i < len(a) and a[i] <= b[j])
        i, j = (i + 1, j) if takes_a else (i, j + 1)
        path.append((i, j))
    side, x0, y0 = 6.4, 8.0, 6.0
    for k in range(5):
        c.line((x0, x0 + 4 * side), (y0 + k * side,) * 2, PALE, 0.8)
        c.line((x0 + k * side,) * 2, (y0, y0 + 4 * side), PALE, 0.8)
    for k in range(4):
        c.box(x0 + k * side + 1.6, 2, side - 3.2, 2.6, str(b[k]), ORANGE)
        c.box(x0 - 5.4, y0 + k * side + 1.9, side - 3.2, 2.6, str(a[k]), SKY)
    c.text(x0 - 3.6, 3.4, "b →", align="right")
    c.text(1.4, y0 + 3.2, "a ↓")
    for diagonal in (2, 4, 6):
        low, high = max(0, diagonal - 4), min(4, diagonal)
        ends = [(x0 + (diagonal - k) * side, y0 + k * side) for k in (low, high)]
        c.line([e[0] for e in ends], [e[1] for e in ends], INK, 1.2, style="--")
        i, j = path[diagonal]
        c.box(x0 + j * side - 0.8, y0 + i * side - 0.8, 1.6, 1.6, fill=ACCENT)
    c.line([x0 + j * side for _, j in path], [y0 + i * side for i, _ in path], ACCENT, 2.6, above=True)
    c.text(
        35,
        11,
        "down: the next\nkey is from a\n\nright: from b\n\ndashed: cuts after\n2, 4 and 6 keys",
        align="left",
        size=SMALL,
    )
    merged = sorted([(key, 0) for key in a] + [(key, 1) for key in b])
    for number, (key, run) in enumerate(merged):
        c.box(5 + 4.6 * number + 0.6 * (number // 2), 35, 4.6, 2.6, str(key), (SKY, ORANGE)[run])
    c.note(25, 39.6, "four parts of two keys, made independently")


@drawing(33)
def look_back(c: Canvas) -> None:
    """Decoupled look-back: a tile adds counts of its predecessors until one has published a prefix."""
    counts = [3, 5, 2, 4, 6]
    c.heading(1.4, "status words of one digit, one word a tile")
    kinds = ("prefix", "prefix", "counts", "counts", "this tile")
    held = (counts[0], sum(counts[:2]), counts[2], counts[3], counts[4])
    for tile, (kind, value) in enumerate(zip(kinds, held, strict=True)):
        fill = {"prefix": GREEN, "counts": ORANGE, "this tile": SKY}[kind]
        c.box(1 + 9.8 * tile, 3.2, 8.8, 5, f"{kind}\n{value}", fill)
        c.note(5.4 + 9.8 * tile, 9.8, f"tile {tile}")
    for tile, bend in ((3, -0.25), (2, -0.35), (1, -0.4)):
        c.arrow((44, 11.2), (6 + 9.8 * tile, 11.2), PALE, bend=bend)
    before = sum(counts[:4])
    c.text(25, 20.6, f"keys before this tile: {counts[3]} + {counts[2]} + {held[1]} = {before}", weight="bold")
    c.note(25, 23.4, f"The tile publishes its prefix, {before} + {counts[4]} = {before + counts[4]}, for later tiles.")
    c.note(25, 27.4, "A word is a flag (counts or prefix) in two bits and a number,")
    c.note(25, 29.6, "so no fence is needed. Tiles are numbered in the order in which")
    c.note(25, 31.8, "they begin, so all that a tile waits for have begun.")
