"""Draws the figures: lines of points against x from one declaration each, and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..harness.records import Point, Record
from .style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    draw_lines,
    legend_below,
    page,
    scale_axes,
    short,
)

Line = Sequence[tuple[float, float]]
COLOURS = {
    "dask_gpusort": BLUE,
    "dask_gpusort, chunk by chunk": SKY,
    "ours": BLUE,
    "numpy.sort": BLACK,
    "Polars": ORANGE,
    "dask.dataframe": VERMILION,
    "array-api-compat": PURPLE,
}
KEYS, RATE, BILLIONS = "keys", "keys a second", "billion keys a second"
HOST = "numpy.sort, on the host"
#: Names of the libraries on a GPU in the figure, and their colours.
LIBRARIES = {
    "dask_gpusort, kernels": ("ours: kernels alone", BLUE),
    "dask_gpusort, CuPy chunks": ("ours: Dask, CuPy chunks", SKY),
    "CUB": ("CUB", BLACK),
    "cupy.sort": ("cupy.sort", VERMILION),
    "torch.sort": ("torch.sort", ORANGE),
    "numpy.sort": (HOST, GREY),
}
#: Names of the lines for Dask arrays of CuPy chunks, and their colours.
IN_CHUNKS = {
    "ours": ("ours", BLUE),
    "no-op": ("Dask's no-op", ORANGE),
    "kernel": ("our kernel", SKY),
    "CuPy": ("cupy.sort", BLACK),
}
#: Names of the algorithms in figures, and their colours.
ALGORITHMS = {
    "auto": ("ours", BLUE),
    "CUB": ("CUB", BLACK),
    "cupy.sort": ("CuPy", GREY),
    "lsd": ("ours, least digit first", SKY),
    "merge": ("merge sort", GREEN),
    "four_step": ("radix, four steps", VERMILION),
    "count_scan_reorder": ("count, scan, reorder", ORANGE),
    "split": ("1-bit split", PURPLE),
    "odd_even_merge": ("Batcher's network", BLACK),
    "odd_even_transposition": ("odd-even transposition", GREY),
}
DASHED = ("Batcher's network", "odd-even transposition")
PROCESSES = {"client": BLACK, "scheduler": VERMILION, "worker 1": BLUE, "worker 2": SKY}


def values(points: Sequence[Point], scale: float = 1.0) -> Line:
    """Medians in units of `scale`."""
    return [(point.x, point.median / scale) for point in points]


def rates(points: Sequence[Point]) -> Line:
    """Keys a second; x is the number of keys."""
    return [(point.x, point.x / point.median) for point in points]


def named(lines: Mapping[str, Line], names: Mapping[str, tuple[str, str]]) -> dict[str, Line]:
    return {name: lines[series] for series, (name, _) in names.items() if series in lines}


def draw_against_x(
    title: str,
    height: float,
    panels: Mapping[str, str],
    record: Record,
    *,
    labels: tuple[str, str] = (KEYS, RATE),
    show: Callable[[Sequence[Point]], Line] = rates,
    names: Mapping[str, tuple[str, str]] | None = None,
) -> Figure:
    """Lines of points against x in panels, whose titles are given by figure of points.

    `show` turns points into a line. `names` are those of the series that are drawn, with colours.
    """
    with page(title, height, len(panels), sharey=True) as (figure, several):
        for number, (axes, (part, heading)) in enumerate(zip(several, panels.items(), strict=True)):
            axes.set_title(heading)
            scale_axes(axes, labels[0], "" if number else labels[1])
            lines = {series: show(points) for series, points in record.lines(part).items()}
            colours = dict(names.values()) if names else COLOURS
            draw_lines(axes, named(lines, names) if names else lines, colours, DASHED)
    return figure


draw_baselines = partial(
    draw_against_x, "Sorting int64 keys: the whole array in memory, in and out", 4.2, {"baselines": ""}
)
draw_gpu_dask_chunks = partial(
    draw_against_x,
    "Sorting CuPy chunks on one GPU; the kernel and CuPy have one array",
    3.8,
    {"chunks uint32": "$2^{28}$ uint32", "chunks int64": "$2^{28}$ int64"},
    labels=("chunks", "milliseconds"),
    show=partial(values, scale=1e-3),
    names=IN_CHUNKS,
)
#: Figure 8 of the paper on today's hardware.
draw_gpu_algorithms = partial(
    draw_against_x,
    "Sorting random uint32 keys on one GPU: the algorithms of the papers, ours, CUB",
    5.6,
    {"algorithms": ""},
    names=ALGORITHMS,
)


def draw_ranked(axes: Axes, found: Mapping[str, float], colours: Mapping[str, str], unit: str, spare: float) -> None:
    """Bars of numbers, the last one at the top, with `spare` times the space that the longest one takes."""
    bars = axes.barh(list(found), list(found.values()), color=[colours.get(name, GREY) for name in found])
    axes.bar_label(bars, fmt=f"%.3g{unit}", padding=3, fontsize=9.5)
    axes.set(xlim=(0, spare * max(found.values())))
    axes.grid(axis="y", visible=False)


def draw_gpu_baselines(record: Record) -> Figure:
    """Keys a second against n for every library, and the rates of the largest n side by side."""
    found = named({series: rates(points) for series, points in record.lines("baselines").items()}, LIBRARIES)
    colours = dict(LIBRARIES.values())
    title = "Sorting int64 keys on one GPU, from device memory to device memory"
    with page(title, 4.2, 2, width_ratios=(3, 2)) as (figure, (lines, bars)):
        scale_axes(lines, KEYS, RATE)
        draw_lines(lines, found, colours, (HOST,), labelled=False)
        most = max(n for line in found.values() for n, _ in line)
        largest = {name: dict(line)[most] / 1e9 for name, line in found.items() if most in dict(line)}
        draw_ranked(bars, dict(sorted(largest.items(), key=lambda one: one[1])), colours, "", 1.2)
        bars.set(title=f"{short(most)} keys", xlabel=BILLIONS)
        legend_below(figure, lines.lines, list(found), 3)
    return figure


def draw_soak(record: Record) -> Figure:
    """What each process of a cluster holds, against time."""
    panels = {"soak memory": ("resident memory, MiB", 1), "soak objects": ("Python objects, thousands", 1000)}
    with page("Random computations one after another on a cluster", 3.8, 2) as (figure, both):
        for axes, (part, (title, scale)) in zip(both, panels.items(), strict=True):
            draw_lines(axes, {name: values(points, scale) for name, points in record.lines(part).items()}, PROCESSES)
            for line in axes.lines:
                line.set(marker="", label=f"_{line.get_label()}")  # the legend has the names
            axes.set(title=title, xlabel="minutes")
        legend_below(figure, both[0].lines, list(record.lines("soak memory")), 4)
    return figure
