"""How the figures look: one palette, one width, labels at the ends of lines, the source of the data below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

#: Okabe and Ito's colours, distinct for every kind of colour vision; without yellow, which is too pale for lines.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, GREY = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
    "#767676",
)
#: Colours of lines without a fixed one, in order.
CYCLE = (BLUE, BLACK, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h")
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
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "figure.facecolor": "white",  # readable on a dark page too
    "svg.fonttype": "path",  # the same letters everywhere
    "svg.hashsalt": "dask_gpusort",  # the same bytes from the same data
}


@contextmanager
def page(title: str, height: float, columns: int = 1, **options: Any) -> Iterator[tuple[Figure, list[Axes]]]:
    """An empty figure with a row of axes under a title; on leaving, lines get their names at their ends."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        space = SOURCE_INCHES / height
        figure.get_layout_engine().set(rect=(0, space, 1, 1 - space))
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        axes = figure.subplots(1, columns, squeeze=False, **options)
        yield figure, list(axes[0])
        for one in axes[0]:
            if one.lines and one.get_yscale() == "linear":
                one.set_ylim(bottom=0)
        for one in axes[0]:
            label_ends(one)


def save(figure: Figure, path: Path, source: str, digest: str) -> None:
    """Write a figure as SVG with its source below: machine, commit and command. The digest is kept in the metadata."""
    with mpl.rc_context(SETTINGS):
        figure.text(0.01, 0.01, source, fontsize=8, color=GREY)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Description": f"digest {digest}"})


def _between_powers(axes: Axes, value: float) -> str:
    """The label of a tick between powers of ten: 2 and 5 times a power, where the axis has few powers."""
    low, high = axes.get_ylim()
    leading = f"{value:e}"[0]
    return short(value) if high < 100 * low and leading in "25" else ""


def scale_axes(axes: Axes, x: str, y: str) -> None:
    """Logarithmic axes with labels that are numbers, not exponents."""
    axes.set_xscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.xaxis.set_major_locator(LogLocator(10, numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: _between_powers(axes, value)))


def short(value: float) -> str:
    """A number in few letters: 20k, 3M, 0.01."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def draw_lines(
    axes: Axes,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    colours: Mapping[str, str] | None = None,
    dashed: Sequence[str] = (),
    *,
    labelled: bool = True,
) -> None:
    """Lines of (x, y) with markers; without names (`labelled`) where other axes name the same colours."""
    for number, (series, positions) in enumerate(lines.items()):
        axes.plot(
            *zip(*positions, strict=True),
            "--" if series in dashed else "-",
            color=(colours or {}).get(series, CYCLE[number % len(CYCLE)]),
            marker=MARKERS[number % len(MARKERS)],
            clip_on=False,
            zorder=3,
            label=series if labelled else f"_{series}",
        )


def legend_below(figure: Figure, lines: Sequence[Any], names: Sequence[str], columns: int, size: float = 9) -> None:
    figure.legend(lines, names, loc="outside lower center", ncols=columns, fontsize=size, borderaxespad=2.2)


def label_ends(axes: Axes) -> None:
    """Names of lines right of the axes, each as near to the end of its line as the others permit."""
    axes.figure.draw_without_rendering()  # positions are known once the figure is laid out
    points_per_pixel = 72 / axes.figure.dpi
    placed = []
    for line in axes.lines:
        if not str(line.get_label()).startswith("_"):
            x, y = line.get_xdata()[-1], line.get_ydata()[-1]
            height = axes.transData.transform((x, y))[1] * points_per_pixel
            placed.append([height, height, x, y, line.get_label(), line.get_color()])
    placed.sort(key=lambda label: label[0])
    # Upwards, each label keeps its distance to the one below; labels that touch share the shift.
    touching: list[list[Any]] = []
    for label in placed:
        if touching and label[0] < touching[-1][-1][0] + LABEL_STEP:
            label[0] = touching[-1][-1][0] + LABEL_STEP
            touching[-1].append(label)
        else:
            touching.append([label])
    for labels in touching:
        shift = sum(label[0] - label[1] for label in labels) / len(labels)
        for label in labels:
            label[0] -= shift
    for height, wanted, x, y, series, colour in placed:
        axes.annotate(
            series,
            (x, y),
            (8, height - wanted),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9.5,
            annotation_clip=False,
        )
