"""The drawings of ``docs/how/comparison_and_wide_keys.md``."""

from __future__ import annotations

import numpy as np

from dask_gpusort.network import odd_even_merge_layers

from .canvas import ACCENT, GREEN, GREY, GROUPS, INK, ORANGE, PALE, SKY, SMALL, WHITE, Canvas, drawing


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
def sample_ranks(c: Canvas) -> None:
    """Every fourth key of two runs is ranked in the other run, which cuts both into matching slices."""
    a, b = np.array([0, 5, 12, 18, 22, 31, 40, 47]), np.array([3, 9, 14, 20, 26, 33, 36, 50])
    samples = np.sort(np.concatenate([a[::4], b[::4]]))
    c.heading(1.4, "every fourth key of both runs is a sample (in use: every 256th)")
    rows = ((4, a, "run a"), (12, b, "run b"))
    for y, run, name in rows:
        c.text(0.6, y + 1.2, name, align="left")
        slices = np.searchsorted(samples, run, side="right") - 1
        c.cells(8, y, run, [GROUPS[max(s, 0)] for s in slices], 5)
        for position in range(0, len(run), 4):
            c.text(8 + 5 * position + 2.5, y + 3.4, "sample", size=SMALL, colour=ACCENT)
    c.heading(19, "slices between neighbouring samples are merged in parts")
    merged = np.sort(np.concatenate([a, b]))
    of = np.searchsorted(samples, merged, side="right") - 1
    c.cells(1, 21, merged, [GROUPS[max(s, 0)] for s in of], 3)
    for s in range(len(samples)):
        where = np.flatnonzero(of == s)
        c.note(1 + 3 * (where[0] + where[-1] + 1) / 2, 25.2, f"part {s}")
    c.note(25, 28.8, "Between two neighbouring samples are at most four keys of each")
    c.note(25, 31, "run, so that a part fits shared memory. Parts differ in size.")


@drawing(31)
def network(c: Canvas) -> None:
    """Batcher's odd-even merge sort of six keys: layers of comparators on horizontal wires."""
    n, x = 6, 7.0
    layers = list(odd_even_merge_layers(n))
    keys = np.array([5, 2, 6, 1, 4, 3])
    for wire in range(n):
        c.line((5, 45), (3 + 4 * wire,) * 2, PALE, 1)
        c.text(2.6, 3 + 4 * wire, str(keys[wire]))
    for low, high in layers:
        keys[low], keys[high] = np.minimum(keys[low], keys[high]), np.maximum(keys[low], keys[high])
        for first, second in zip(low, high, strict=True):
            c.line((x, x), (3 + 4 * first, 3 + 4 * second), INK, 1.6)
            for wire in (first, second):
                c.box(x - 0.4, 2.6 + 4 * wire, 0.8, 0.8, fill=INK)
            x += 1.7
        x += 2.4
    for wire in range(n):
        c.text(47.4, 3 + 4 * wire, str(keys[wire]))
    c.note(25, 27, f"{len(layers)} layers; comparators of a layer are independent.")
    c.note(25, 29.4, "Comparators past the last key are left out: nothing is padded.")


@drawing(41)
def words(c: Canvas) -> None:
    """Columns are concatenated to a bit string and cut into 64-bit words; later words sort only ties."""
    c.heading(1.4, "codes of the columns, each as wide as its range")
    for x, width, text, fill in ((1, 20, "column 0", SKY), (21, 12, "column 1", ORANGE), (33, 16, "column 2", GREEN)):
        c.box(x, 3.2, width, 3, text, fill)
    c.line((28, 28), (2.4, 9.4), ACCENT, 2)
    c.box(1, 9, 27, 3, "word 0: 64 bits", WHITE)
    c.box(28, 9, 21, 3, "word 1", WHITE)
    first, second = [2, 2, 5, 7, 7, 7], [9, 4, 0, 6, 8, 1]
    order = sorted(range(6), key=lambda i: (first[i], second[i]))
    c.heading(16.4, "word 0 sorts all keys by radix")
    c.text(1, 19.4, "word 0", align="left")
    c.cells(9, 18.2, first, [ORANGE if first.count(w) > 1 else WHITE for w in first], 6.6)
    c.text(1, 22.6, "word 1", align="left")
    c.cells(9, 21.4, second, [ORANGE if first.count(w) > 1 else GREY for w in first], 6.6)
    c.heading(28.4, "word 1 sorts the tie groups alone")
    c.text(1, 31.4, "word 0", align="left")
    c.cells(9, 30.2, [first[i] for i in order], WHITE, 6.6)
    c.text(1, 34.6, "word 1", align="left")
    c.cells(9, 33.4, [second[i] for i in order], [ORANGE if first.count(first[i]) > 1 else GREY for i in order], 6.6)
    c.note(25, 38.8, "The key without a tie (word 0 is 5) is not read again.")
