"""Draws the figures: lines of points against x, with their names at their ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ..harness.records import Record
from .catalogue import GREY, Figure

MARKERS = "os^DvPX*ph"
#: Inches: 828 pixels of 96 to an inch, as wide as a README's column.
WIDTH = 8.625
#: Space below for the source of the data.
SOURCE_INCHES = 0.2
#: Least distance between two labels, in points.
LABEL_STEP = 13.0
SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 10.0,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "figure.facecolor": "white",  # readable on a dark page too
    "svg.fonttype": "path",  # the same letters everywhere
    "svg.hashsalt": "dask_gpusort",  # the same bytes from the same data
}


def draw(figure: Figure, record: Record) -> Canvas:
    """The panels of a figure, side by side."""
    canvas = Canvas(figsize=(WIDTH, figure.height), layout="constrained")
    space = SOURCE_INCHES / figure.height
    canvas.get_layout_engine().set(rect=(0, space, 1, 1 - space))
    canvas.suptitle(figure.title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    panels = canvas.subplots(1, len(figure.panels), squeeze=False, sharey=True)[0]
    for axes, (part, title) in zip(panels, figure.panels.items(), strict=True):
        axes.set(title=title, xlabel=figure.against or "keys")
        found = record.lines(part)
        for number, (series, (name, colour)) in enumerate(figure.lines.items()):
            x = [point.x for point in found.get(series, ())]
            y = [1e3 * one.median if figure.against else one.x / one.median for one in found.get(series, ())]
            if x:
                axes.plot(x, y, color=colour, marker=MARKERS[number], clip_on=False, zorder=3, label=name)
        if figure.against:
            axes.set_ylim(bottom=0)
        else:
            scale(axes)
    panels[0].set_ylabel("milliseconds" if figure.against else "keys a second")
    for axes in panels:
        label_ends(axes)
    return canvas


def save(figure: Figure, results: Path, path: Path) -> None:
    """Write a figure as SVG with its source below. The digest is kept in the metadata."""
    record = figure.record(results)
    assert record is not None
    with mpl.rc_context(SETTINGS):
        canvas = draw(figure, record)
        canvas.text(0.01, 0.01, figure.source(record), fontsize=8, color=GREY)
        canvas.savefig(path, metadata={"Date": None, "Description": f"digest {figure.digest(results)}"})


def scale(axes: Axes) -> None:
    """Make both axes logarithmic, with labels that are numbers, not exponents."""
    for axis, set_scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        set_scale("log")
        axis.set_major_locator(LogLocator(10, numticks=12))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(short))


def short(value: float, _: Any = None) -> str:
    """A number in few letters: 20k, 3M, 0.01."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def label_ends(axes: Axes) -> None:
    """Write names of lines right of the axes, downwards, each as near to the end of its line as those above permit."""
    axes.figure.draw_without_rendering()  # positions are known once the figure is laid out
    ends = [(line.get_xdata()[-1], line.get_ydata()[-1], line) for line in axes.lines]
    height = float("inf")
    for x, y, line in sorted(ends, key=lambda end: -end[1]):
        wanted = axes.transData.transform((x, y))[1] * 72 / axes.figure.dpi
        height = min(wanted, height - LABEL_STEP)
        look = {"color": line.get_color(), "va": "center", "fontsize": 9.5, "annotation_clip": False}
        axes.annotate(line.get_label(), (x, y), (8, height - wanted), textcoords="offset points", **look)
