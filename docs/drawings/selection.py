"""The drawings of ``docs/how/selection.md``."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .canvas import ACCENT, GREEN, GREY, GROUPS, INK, PALE, SKY, SMALL, WHITE, Canvas, drawing


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


@drawing(39)
def passes(c: Canvas) -> None:
    """Two passes over unsorted chunks: samples give brackets, counts and few keys give the quantiles."""
    for y, name, small in ((1, "select-draw", "sample"), (20, "select-extract", "counts, keys")):
        for number in range(3):
            x = 1 + 10.4 * number
            c.box(x, y, 9.4, 3, f"chunk {number}", SKY)
            c.arrow((x + 4.7, y + 3), (x + 4.7, y + 6.4))
            c.box(x, y + 6.4, 9.4, 3, small if len(small) < 8 else "few keys", WHITE)
            c.arrow((x + 4.7, y + 9.4), (16.4 + (number - 1) * 5, y + 13), PALE)
        c.text(32.6, y + 1.5, name, align="left", weight="bold")
        c.text(32.6, y + 4.6, "one task a chunk", align="left", size=SMALL)
    c.text(32.6, 27.2, "keys inside a bracket,", align="left", size=SMALL)
    c.text(32.6, 29.2, "and counts at its ends", align="left", size=SMALL)
    c.text(32.6, 8.9, "one key of each stratum", align="left", size=SMALL)
    c.box(6, 14, 21, 3.2, "brackets of all ranks", GREY)
    c.text(32.6, 15.6, "select-scan", align="left", weight="bold")
    c.box(6, 33, 21, 3.2, "quantiles", GREEN)
    c.text(32.6, 34.6, "select-finish", align="left", weight="bold")
    for number in range(3):
        c.arrow((16.4 + (number - 1) * 5, 17.2), (5.7 + 10.4 * number, 20), PALE)


@drawing(44)
def lanes(c: Canvas) -> None:
    """Where lanes are in the chunks of an array, for each of the four strategies."""
    panels = (
        (1, 3, "blocks", "whole in a chunk", (1, 4), "row"),
        (26, 3, "rechunk", "many, in several chunks", (3, 1), "rows"),
        (1, 25, "samples", "few and long", (6, 1), "one"),
        (26, 25, "join", "in the memory of one GPU", (3, 2), "all"),
    )
    for x, y, name, text, (across, down), kind in panels:
        c.text(x, y - 1.4, name, align="left", weight="bold")
        c.text(x, y + 14.4, text, align="left", size=SMALL)
        tall = 3.0 if kind == "one" else 12.0
        top = y + (12 - tall) / 2
        if kind == "all":
            c.box(x, y, 22, 12.6, fill=GREY)
        inset = 0.8 if kind == "all" else 0.0
        wide, high = (22 - 2 * inset) / across, (tall - 2 * inset) / down
        for i in range(across):
            for j in range(down):
                c.box(x + inset + i * wide, top + inset + j * high, wide, high, fill=WHITE)
        count = 1 if kind == "one" else 4
        for line in range(count):
            at = top + inset + (tall - 2 * inset) * (line + 0.5) / count
            c.line((x + 1.2, x + 20.8), (at, at), ACCENT, 2.2, above=True)
    c.text(25, 42.6, "Black: chunks. Orange: lanes, along the reduced axis.", size=SMALL)
