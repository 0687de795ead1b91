"""The drawings of ``docs/how``: ``python docs/drawings.py`` writes them.

A drawing is 50 units wide, 5.25 inches, so that its letters are readable on a phone. Heights count downwards. A
function draws one picture, and its docstring is the text that is read in place of it. Numbers in examples are computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from dask_gpusort.network import odd_even_merge_layers
from dask_gpusort.table.scan import scan_table, share_out

FOLDER = Path(__file__).with_name("how") / "drawings"
WIDTH, UNIT_INCHES = 50.0, 0.105
FONT, SMALL = 10.0, 9.0

#: Tints of Okabe and Ito's colours, which every kind of colour vision tells apart, also by their lightness.
WHITE, GREY, SKY, ORANGE, GREEN, PURPLE = "#FFFFFF", "#E4E4E4", "#A9D6F2", "#F7D58A", "#7CC7AC", "#E3B5CF"
GROUPS = (SKY, ORANGE, GREEN, PURPLE)
INK, PALE, ACCENT = "#111111", "#767676", "#B24A00"
BEHIND = {"facecolor": WHITE, "edgecolor": "none", "pad": 1.0}
SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "svg.fonttype": "path",  # the same letters everywhere
    "svg.hashsalt": "dask_gpusort",  # the same bytes from the same drawing
}


class Canvas:
    """Boxes, texts and arrows, with their look in one place.

    Attributes
    ----------
    parts : list
        What was drawn: the digest of a stored drawing is made from it.
    """

    def __init__(self, height: float) -> None:
        self.parts: list[Any] = [height]
        self.figure = Figure(figsize=(WIDTH * UNIT_INCHES, height * UNIT_INCHES), facecolor="white")
        self.axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
        self.axes.axis("off")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        align: str = "center",
        size: float = FONT,
        colour: str = INK,
        **style: Any,
    ) -> None:
        """Text with its middle, or its left or right end, at (x, y)."""
        self.parts.append(("text", x, y, text, align, size, colour, *style.items()))
        self.axes.text(x, y, text, ha=align, va="center", fontsize=size, color=colour, linespacing=1.25, **style)

    def heading(self, y: float, text: str) -> None:
        """A bold line at the left, over the arrows behind it."""
        self.text(0.6, y, text, align="left", weight="bold", bbox=BEHIND)

    def note(self, x: float, y: float, text: str, align: str = "center") -> None:
        """Small text, over the arrows behind it."""
        self.text(x, y, text, align=align, size=SMALL, bbox=BEHIND)

    def box(
        self, x: float, y: float, width: float, height: float, text: str = "", fill: str = WHITE, dashed: bool = False
    ) -> None:
        """A box with its upper left corner at (x, y)."""
        self.parts.append(("box", x, y, width, height, fill, dashed))
        corner = f"round,pad=0,rounding_size={min(0.5, width / 4)}"
        look = {"facecolor": fill, "edgecolor": INK, "linewidth": 0.9, "linestyle": "--" if dashed else "-"}
        self.axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=corner, zorder=2, **look))
        if text:
            self.text(x + width / 2, y + height / 2, text)

    def cells(
        self, x: float, y: float, values: Sequence[Any], fills: Iterable[str] | str = WHITE, width: float = 2.4
    ) -> None:
        """A row of neighbouring cells, one a value, each 2.4 high."""
        each = [fills] * len(values) if isinstance(fills, str) else list(fills)
        for number, (value, fill) in enumerate(zip(values, each, strict=True)):
            self.box(x + number * width, y, width, 2.4, str(value), fill)

    def line(
        self,
        x: Sequence[float],
        y: Sequence[float],
        colour: str = INK,
        width: float = 1.0,
        *,
        style: str = "-",
        above: bool = False,
    ) -> None:
        """A line through some positions, below the boxes or above them."""
        self.parts.append(("line", tuple(x), tuple(y), colour, width, style, above))
        look = {"color": colour, "linewidth": width, "linestyle": style, "solid_capstyle": "butt"}
        self.axes.plot(x, y, zorder=2.5 if above else 1, **look)

    def arrow(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        colour: str = INK,
        *,
        both: bool = False,
        bend: float = 0,
    ) -> None:
        """An arrow, bent to one side by a share of its length."""
        self.parts.append(("arrow", start, end, colour, both, bend))
        look = {"color": colour, "linewidth": 1.0, "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0}
        path = {"arrowstyle": "<|-|>" if both else "-|>", "connectionstyle": f"arc3,rad={bend}"}
        self.axes.add_patch(FancyArrowPatch(start, end, **path, **look))

    def fan(
        self, starts: Iterable[tuple[float, float]], ends: Sequence[tuple[float, float]], colour: str = PALE
    ) -> None:
        """An arrow from each start to each end."""
        for start in starts:
            for end in ends:
                self.arrow(start, end, colour)

    @property
    def digest(self) -> str:
        """Of all that was drawn and how; the same for every version of matplotlib."""
        parts = repr((self.parts, WIDTH, UNIT_INCHES, SETTINGS))
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Write the drawing as SVG, with its digest."""
        metadata = {"Date": None, "Creator": None, "Description": f"digest {self.digest}"}
        self.figure.savefig(path, format="svg", metadata=metadata)


@dataclass(frozen=True)
class Drawing:
    """A drawing: its height in units, and the function that draws it."""

    height: float
    draw: Callable[[Canvas], None]

    @property
    def text(self) -> str:
        """What the drawing shows, in a sentence."""
        return (self.draw.__doc__ or "").rstrip(".")

    def canvas(self) -> Canvas:
        """The finished drawing."""
        with mpl.rc_context(SETTINGS):
            canvas = Canvas(self.height)
            self.draw(canvas)
        return canvas

    def save(self, path: Path) -> None:
        """Write the drawing as SVG."""
        canvas = self.canvas()
        with mpl.rc_context(SETTINGS):
            canvas.save(path)


DRAWINGS: dict[str, Drawing] = {}


def drawing(height: float) -> Callable[[Callable[[Canvas], None]], Callable[[Canvas], None]]:
    """Register a function as a drawing of some height, under its name."""

    def register(draw: Callable[[Canvas], None]) -> Callable[[Canvas], None]:
        DRAWINGS[draw.__name__] = Drawing(height, draw)
        return draw

    return register


# --- index -----------------------------------------------------------------------------------------------------------


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


# --- global sort -----------------------------------------------------------------------------------------------------


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


# --- exchanges -------------------------------------------------------------------------------------------------------


@drawing(23)
def join(c: Canvas) -> None:
    """Chunks of one memory are concatenated and sorted in one task; output chunks are slices."""
    for number in range(4):
        x = 2 + 12 * number
        c.box(x, 1, 10, 3, f"chunk {number}")
        c.arrow((x + 5, 4), (25 + (x - 20) * 0.7, 8.4), PALE)
        c.box(x, 18.4, 10, 3, f"output {number}", GROUPS[number])
        c.arrow((25 + (x - 20) * 0.7, 14.2), (x + 5, 18.4), PALE)
    c.box(5, 8.4, 40, 5.8, "one task: concatenate, sort by one call", GREY)
    c.note(25, 16.4, "slices, not copied")


@drawing(34)
def gather(c: Canvas) -> None:
    """One task lists all sorted runs and their cuts; each group takes views from the list."""
    for number in range(3):
        x = 3 + 16 * number
        c.box(x, 1, 12, 3, f"run {number}")
        c.arrow((x + 6, 4), (x + 6, 8))
        for group in range(3):
            c.box(x + 4 * group, 9, 4, 2.6, fill=GROUPS[group])
        for group in range(3):
            c.arrow((x + 4 * group + 2, 11.8), (9 + 16 * group, 20), PALE)
        c.box(x, 20, 12, 3, f"group {number}", GROUPS[number])
        c.arrow((x + 6, 23), (x + 6, 28))
        c.box(x, 28, 12, 3, "output", GROUPS[number])
    c.box(1, 8, 48, 4.6, dashed=True, fill="none")
    c.note(49, 6.4, "sort-scatter: a list of runs", "right")
    c.note(49, 18.8, "views", "right")
    c.note(25, 25.6, "sort-merge: one copy, one sort or merge")


def workers(c: Canvas, y: float, height: float, names: Sequence[str]) -> None:
    """Two dashed frames side by side."""
    for x, name in zip((0.6, 25.4), names, strict=True):
        c.box(x, y, 24, height, dashed=True, fill="none")
        c.text(x + 12, y + 1.6, name, weight="bold")


@drawing(48)
def tasks(c: Canvas) -> None:
    """Each worker sorts bundles of chunks, cuts one contiguous shard for each group, and merges its groups."""
    workers(c, 0.6, 46.6, ("worker A", "worker B"))
    for side, x in enumerate((2.6, 27.4)):
        for chunk in range(4):
            c.box(x + 5 * chunk, 4, 5, 2.6, f"{4 * side + chunk}")
        c.arrow((x + 10, 6.6), (x + 10, 10))
        c.box(x, 10, 20, 3, f"bundle {side}, sorted", GREY)
        c.arrow((x + 10, 13), (x + 10, 22.6))
        for group in range(4):
            c.box(x + 5 * group, 22.6, 5, 3, "shard", GROUPS[group])
        for place in range(2):
            group = 2 * side + place
            c.box(x + 10 * place + 0.5, 35, 9, 3, f"group {group}", GROUPS[group])
            c.arrow((x + 10 * place + 5, 38), (x + 10 * place + 5, 42))
            c.box(x + 10 * place + 0.5, 42, 9, 2.8, "output")
    for x in (2.6, 27.4):
        for group in range(4):
            target = (2.6, 27.4)[group // 2] + 10 * (group % 2) + 5
            c.arrow((x + 5 * group + 2.5, 25.6), (target, 35), PALE)
    c.box(14, 16, 22, 3.6, "sort-scan: cut bounds", WHITE)
    c.arrow((18, 13), (20, 16), PALE)
    c.arrow((32, 13), (30, 16), PALE)
    c.note(13.8, 20.9, "sort-scatter")
    c.note(4, 33.4, "sort-merge", "left")


@drawing(50)
def p2p(c: Canvas) -> None:
    """Runs are cut and sent in batches to the worker of each group, appended to files, and read group by group."""
    workers(c, 0.6, 48.6, ("worker A", "worker B"))
    for side, x in enumerate((2.6, 27.4)):
        for run in range(2):
            at = x + 10.4 * run
            for part, fill in enumerate(GROUPS):
                c.box(at + 2.4 * part, 4.4, 2.4, 3, fill=fill)
            c.note(at + 4.8, 9, f"run {2 * side + run}")
            for target in (7.6, 32.4):
                c.arrow((at + 4.8, 10.2), (target + 5, 17), PALE)
        c.box(x, 17, 20, 3.4, "batches in memory", GREY)
        for place in range(2):
            group = 2 * side + place
            c.arrow((x + 5 + 10 * place, 20.4), (x + 5 + 10 * place, 25))
            c.box(x + 0.5 + 10 * place, 25, 9, 3.4, f"file {group}", GROUPS[group])
            c.arrow((x + 5 + 10 * place, 28.4), (x + 5 + 10 * place, 38))
            c.box(x + 0.5 + 10 * place, 38, 9, 3.4, f"group {group}", GROUPS[group])
            c.arrow((x + 5 + 10 * place, 41.4), (x + 5 + 10 * place, 44.6))
            c.box(x + 0.5 + 10 * place, 44.6, 9, 2.8, "output")
    c.box(6, 31.4, 38, 3.2, "barrier: all records have arrived", WHITE)
    c.note(25, 14, "sort-scatter, through the engine of distributed")


@drawing(35)
def device(c: Canvas) -> None:
    """Memory of a GPU over time: bundles are sorted and cut one after another, then groups are merged in turns."""
    c.heading(1.6, "memory of a GPU, in the order of time (large keys)")
    stages = (
        ("sort\nbundle 0", (("input", WHITE, 6), ("scratch", GREY, 4), ("", WHITE, 0))),
        ("cut\nbundle 0", (("input", WHITE, 6), ("shards", SKY, 3), ("", WHITE, 0))),
        ("sort, cut\nbundle 1", (("input", WHITE, 6), ("shards", SKY, 5), ("scratch", GREY, 4))),
        ("merge\ngroup 0", (("input", WHITE, 6), ("shards", SKY, 5), ("group", ORANGE, 4))),
        ("merge\ngroup 1", (("input", WHITE, 6), ("shards", SKY, 3), ("output", GREEN, 6))),
    )
    for number, (name, held) in enumerate(stages):
        x, y = 2 + 9.6 * number, 22.0
        for text, fill, height in held:
            if height:
                y -= height
                c.box(x, y, 8, height, text, fill)
        c.text(x + 4, 24.6, name, size=SMALL)
    c.line((1, 49), (4.6, 4.6), ACCENT, 1.5, style="--")
    c.text(49, 3.4, "memory of the GPU", align="right", size=SMALL, colour=ACCENT)
    c.arrow((1, 27.4), (49, 27.4))
    c.note(25, 29.6, "All bundles are cut before a group is merged: the keys are held once.")
    c.note(25, 31.8, "A group waits for the turn before the last one:")
    c.note(25, 34, "shards of one group arrive while another is merged.")


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


# --- selection -------------------------------------------------------------------------------------------------------


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


# --- after a sort ----------------------------------------------------------------------------------------------------


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


# --- radix sort on a GPU ---------------------------------------------------------------------------------------------

#: Two tiles of keys with digits of 2 bits.
TILES = np.array([[3, 0, 1, 3, 0], [2, 1, 3, 0, 1]])


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
        for digit, row in enumerate(table):
            c.text(x - 0.8, 22 + 2.4 * digit, f"{digit}", align="right")
            c.cells(x, 20.8 + 2.4 * digit, row, GROUPS[digit], 5)
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


# --- comparison and wide keys ----------------------------------------------------------------------------------------


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


# --- kernels on a CPU ------------------------------------------------------------------------------------------------


@drawing(44)
def fibers(c: Canvas) -> None:
    """Threads of a block run as fibers in a random order between barriers; canaries surround each array."""
    order = np.random.default_rng(7)
    c.heading(1.4, "one thread block on one thread of the CPU")
    for thread in range(4):
        c.text(1, 5.2 + 3.4 * thread, f"thread {thread}", align="left")
        c.line((9, 48), (5.2 + 3.4 * thread,) * 2, PALE, 0.6)
    x = 9.5
    for segment in range(2):
        for thread in order.permutation(4):
            c.box(x, 3.9 + 3.4 * thread, 4, 2.6, fill=GROUPS[thread])
            x += 4.2
        c.line((x + 0.6,) * 2, (3, 17.6), ACCENT, 2.4)
        c.text(x - 0.4 if segment else x + 0.6, 19, "barrier", size=SMALL, colour=ACCENT)
        x += 1.6
    c.note(25, 21.8, "The next fiber is drawn at random, at each barrier, fence and atomic.")
    c.heading(26.4, "an array of the kernel")
    for left, width, text, fill in ((1, 12, "canary", ORANGE), (13, 24, "array", WHITE), (37, 12, "canary", ORANGE)):
        c.box(left, 28.2, width, 3, text, fill)
    c.note(25, 33, "A write outside of the array changes a canary.")
    c.heading(37, "shared memory")
    c.box(1, 38.8, 36, 3, "filled with a random byte before each block", GREY)
    c.box(37, 38.8, 12, 3, "canary", ORANGE)


def main() -> None:
    """Write all drawings."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, one in DRAWINGS.items():
        one.save(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
