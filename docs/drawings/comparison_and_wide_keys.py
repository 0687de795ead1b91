"""The drawings of ``docs/how/comparison_and_wide_keys.md``."""

from __future__ import annotations

from .canvas import ACCENT, GREEN, GREY, INK, ORANGE, PALE, SKY, SMALL, WHITE, Canvas, drawing


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
