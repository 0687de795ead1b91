"""The drawings of ``docs/how/after_a_sort.md``."""

from __future__ import annotations

import numpy as np

from .canvas import GREY, GROUPS, PALE, SMALL, WHITE, Canvas, drawing


@drawing(39)
def tie_groups(c: Canvas) -> None:
    """Tie groups that cross chunks: edges of the chunks, one scan, and the numbers and counts of all groups."""
    chunks = [np.array(keys) for keys in ([1, 1, 2], [2, 2], [2, 3])]
    keys = np.concatenate(chunks)
    values, first, counts = np.unique(keys, return_index=True, return_counts=True)
    c.heading(1.6, "sorted chunks; colours: tie groups")
    starts = np.cumsum([0, *map(len, chunks)])
    at = [2.0 + 6 * i + 2 * np.searchsorted(starts, i, side="right") - 2 for i in range(len(keys))]
    for x, key in zip(at, keys, strict=True):
        c.box(x, 3.4, 6, 2.8, str(key), GROUPS[key - 1])
    c.heading(10, "unique-edges: first and last tie group (key: count)")
    for number, chunk in enumerate(chunks):
        x, width = at[starts[number]], 6 * len(chunk)
        c.arrow((x + width / 2, 6.2), (x + width / 2, 11.6), PALE)
        ends = [f"{v}: {int((chunk == v).sum())}" for v in sorted({int(chunk[0]), int(chunk[-1])})]
        c.box(x, 11.6, width, 3, "   ".join(ends), WHITE)
        c.arrow((x + width / 2, 14.6), (25 + (x + width / 2 - 25) * 0.6, 18.4), PALE)
        c.arrow((25 + (x + width / 2 - 25) * 0.6, 22), (x + width / 2, 27), PALE)
    c.box(8, 18.4, 34, 3.6, "unique-scan: adds up what belongs together", GREY)
    c.heading(25, "unique-number: a group is a result where it begins")
    for number, (value, start, count) in enumerate(zip(values, first, counts, strict=True)):
        fill = GROUPS[value - 1]
        x = at[start] - (3 if number == 1 else 0)
        name = "key" if count == 1 else "keys"
        c.box(x, 27, 9 if number < 2 else 6, 9.4, f"key {value}\nno. {number}\n{count} {name}", fill)
    c.text(30, 31.6, "nothing\nbegins here", size=SMALL)
