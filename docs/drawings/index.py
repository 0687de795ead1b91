"""The drawings of ``docs/how/index.md``."""

from __future__ import annotations

from .canvas import GREY, PALE, SKY, WHITE, Canvas, drawing


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
