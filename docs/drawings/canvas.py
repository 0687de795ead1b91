"""The look that all drawings share: a canvas with boxes, texts and arrows, and the register of drawings.

A drawing is 50 units wide, 5.25 inches, so that its letters are readable on a phone. Heights count downwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

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

Point = tuple[float, float]


class Canvas:
    """Boxes, texts and arrows, with their look in one place; a digest is made of the `parts` that were drawn."""

    def __init__(self, height: float) -> None:
        self.parts: list[Any] = [height]
        self.figure = Figure(figsize=(WIDTH * UNIT_INCHES, height * UNIT_INCHES), facecolor="white")
        self.axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
        self.axes.axis("off")

    def text(
        self, x: float, y: float, text: str, align: str = "center", size: float = FONT, colour: str = INK, **style: Any
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

    def cells(self, x: float, y: float, values: Any, fills: Sequence[str] | str = WHITE, width: float = 2.4) -> None:
        """A row of neighbouring cells, one a value, each 2.4 high."""
        for number, value in enumerate(values):
            fill = fills if isinstance(fills, str) else fills[number]
            self.box(x + number * width, y, width, 2.4, str(value), fill)

    def table(self, x: float, y: float, rows: Any, width: float) -> None:
        """A row of cells for each digit, behind the digit."""
        for digit, row in enumerate(rows):
            self.text(x - 0.8, y + 1.2 + 2.4 * digit, f"{digit}", align="right")
            self.cells(x, y + 2.4 * digit, row, GROUPS[digit], width)

    def line(
        self, x: Any, y: Any, colour: str = INK, width: float = 1.0, style: str = "-", above: bool = False
    ) -> None:
        """A line through some positions, below the boxes or above them."""
        self.parts.append(("line", tuple(x), tuple(y), colour, width, style, above))
        look = {"color": colour, "linewidth": width, "linestyle": style, "solid_capstyle": "butt"}
        self.axes.plot(x, y, zorder=2.5 if above else 1, **look)

    def arrow(self, start: Point, end: Point, colour: str = INK, both: bool = False, bend: float = 0) -> None:
        """An arrow, bent to one side by a share of its length."""
        self.parts.append(("arrow", start, end, colour, both, bend))
        look = {"color": colour, "linewidth": 1.0, "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0}
        path = {"arrowstyle": "<|-|>" if both else "-|>", "connectionstyle": f"arc3,rad={bend}"}
        self.axes.add_patch(FancyArrowPatch(start, end, **path, **look))

    @property
    def digest(self) -> str:
        """Of all that was drawn and how; the same for every version of matplotlib."""
        parts = repr((self.parts, WIDTH, UNIT_INCHES, SETTINGS))
        return hashlib.sha256(parts.encode()).hexdigest()[:16]


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
        """Write the drawing as SVG, with its digest."""
        canvas = self.canvas()
        metadata = {"Date": None, "Creator": None, "Description": f"digest {canvas.digest}"}
        with mpl.rc_context(SETTINGS):
            canvas.figure.savefig(path, format="svg", metadata=metadata)


#: All drawings, by name.
DRAWINGS: dict[str, Drawing] = {}


def drawing(height: float) -> Callable[[Callable[[Canvas], None]], Callable[[Canvas], None]]:
    """Register a function as a drawing of some height, under its name."""

    def register(draw: Callable[[Canvas], None]) -> Callable[[Canvas], None]:
        DRAWINGS[draw.__name__] = Drawing(height, draw)
        return draw

    return register
