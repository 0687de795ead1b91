"""The drawings of ``docs/how/selection.md``."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .canvas import GROUPS, INK, PALE, Canvas, drawing


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
