"""The figures of what was measured on GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..harness.records import Point, Record
from .catalogue import BASELINE
from .cpu import KEYS, RATE
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
    draw_panels,
    page,
    rates,
    scale_axes,
    short,
)

COLOURS = {"ours": BLUE, "CUB": BLACK, "cupy.sort": GREY}
HOST = "numpy.sort, on the host"
#: Names of the libraries in the figure, and their colours.
LIBRARIES = {
    "dask_gpusort, kernels": ("ours: kernels alone", BLUE),
    "dask_gpusort, CuPy chunks": ("ours: Dask, CuPy chunks", SKY),
    "CUB": ("CUB", BLACK),
    "cupy.sort": ("cupy.sort", VERMILION),
    "torch.sort": ("torch.sort", ORANGE),
    "numpy.sort": (HOST, GREY),
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
OURS = "ours"
DASHED = ("Batcher's network", "odd-even transposition")
#: Colours of the kernels that take longest; the others are drawn together.
KERNEL_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY)
#: Least share, in percent, that has space for the name of a kernel.
NAMED_SHARE = 14
#: Works of `gpu.multi` that are drawn, and their names; $2^{28}$ and the like are keys of each GPU.
WORKS = {
    "u32-28": "uint32, $2^{28}$",
    "u32-30": "uint32, $2^{30}$",
    "u64-29": "uint64, $2^{29}$",
    "pairs-29": "pairs, $2^{29}$",
    "argsort-28": "argsort, $2^{28}$",
}


def named(lines: Mapping[str, Sequence[Point]]) -> dict[str, Sequence[Point]]:
    """Lines by the names of the algorithms in figures."""
    return {ALGORITHMS[series][0]: lines[series] for series in ALGORITHMS if series in lines}


def draw_sizes(record: Record) -> Figure:
    """Keys a second against n, and CUB's."""
    with page("Sorting random keys on one GPU: ours and CUB", 3.8, 2, sharey=True) as (figure, both):
        for axes, dtype in zip(both, ("uint32", "uint64"), strict=True):
            scale_axes(axes, KEYS, RATE if dtype == "uint32" else "")
            axes.set_title(dtype)
            lines = {series: rates(points) for series, points in record.lines(f"sizes {dtype}").items()}
            draw_lines(axes, lines, COLOURS)
    return figure


def draw_algorithms(record: Record) -> Figure:
    """Keys a second against n for every algorithm: figure 8 of the paper on today's hardware."""
    title = "Sorting random uint32 keys on one GPU: the algorithms of the papers, ours, CUB"
    with page(title, 5.6) as (figure, (axes,)):
        scale_axes(axes, KEYS, RATE)
        lines = {name: rates(points) for name, points in named(record.lines("algorithms")).items()}
        draw_lines(axes, lines, dict(ALGORITHMS.values()), DASHED)
    return figure


def draw_entropy(record: Record) -> Figure:
    """Keys a second against the number of random words that are and-ed together."""
    keys = 1 << 28
    lines = {
        dtype: {
            name: [(point.x, keys / point.median / 1e9) for point in points]
            for name, points in named(record.lines(f"entropy {dtype}")).items()
        }
        for dtype in ("uint32", "uint64")
    }
    title = "Keys of low entropy on one GPU: random words and-ed together, $2^{28}$ keys"
    with page(title, 3.8, 2, sharey=True) as (figure, both):
        x, y = "random words and-ed: one is uniform", "billion keys a second"
        draw_panels(both, lines, x, y, dict(ALGORITHMS.values()))
        for axes in both:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def draw_phases(record: Record) -> Figure:
    """Time of each kernel, for every algorithm: figure 9 of the paper."""
    found = [name for name in ALGORITHMS if record.lines(f"phases {name}")]
    title = "Where the time goes on one GPU: kernels of each algorithm, $2^{28}$ uint32 keys"
    with page(title, 1.4 + 0.55 * len(found)) as (figure, (axes,)):
        for position, algorithm in enumerate(reversed(found)):
            kernels = {name: 1e3 * points[0].median for name, points in record.lines(f"phases {algorithm}").items()}
            order = sorted(kernels, key=lambda name: -kernels[name])
            left, total = 0.0, sum(kernels.values())
            for name, colour in zip(order, KERNEL_COLOURS, strict=False):
                share = 100 * kernels[name] / total
                axes.barh(position, share, left=left, color=colour, edgecolor="white")
                if share > NAMED_SHARE:
                    shown = name.replace("_", " ") + f"\n{kernels[name]:.2g} ms"
                    ink = "white" if colour == BLUE else BLACK
                    axes.text(left + share / 2, position, shown, ha="center", va="center", fontsize=8.5, color=ink)
                left += share
            axes.barh(position, 100 - left, left=left, color="#DDDDDD")
            axes.text(101, position, f"{total:.3g} ms", va="center", fontsize=9)
        axes.set_yticks(range(len(found)), [ALGORITHMS[name][0] for name in reversed(found)])
        axes.set_xlabel("% of the time of all kernels")
        axes.set_xlim(0, 100)
        axes.grid(axis="y", visible=False)
    return figure


def draw_network(record: Record) -> Figure:
    """10^9 keys by a network, as in the blog post, and by other sorts."""
    lines = record.lines("network")
    order = sorted(lines, key=lambda series: lines[series][0].median)
    with page("A billion uint32 keys: a network of the whole array, and sorts of less work", 2.6) as (figure, (axes,)):
        seconds = [lines[series][0].median for series in order]
        colours = [ALGORITHMS.get(series, ("", GREY))[1] for series in order]
        axes.barh(range(len(order)), seconds, color=colours)
        for position, taken in enumerate(seconds):
            axes.text(taken + max(seconds) / 100, position, f"{taken:.3g} s", va="center", fontsize=9.5)
        axes.set_yticks(range(len(order)), [ALGORITHMS.get(series, (series, ""))[0] for series in order])
        axes.set_xlim(0, 1.1 * max(seconds))
        axes.set_xlabel("seconds")
        axes.grid(axis="y", visible=False)
        axes.invert_yaxis()
    return figure


def draw_baselines(record: Record) -> Figure:
    """Keys a second against n for every library, and the rates of the largest n side by side."""
    stored = record.lines("baselines")
    found = {name: rates(stored[series]) for series, (name, _) in LIBRARIES.items() if series in stored}
    colours = dict(LIBRARIES.values())
    title = "Sorting int64 keys on one GPU, from device memory to device memory"
    with page(title, 4.2, 2, width_ratios=(3, 2)) as (figure, (lines, bars)):
        scale_axes(lines, KEYS, RATE)
        draw_lines(lines, found, colours, (HOST,), labelled=False)
        most = max(n for positions in found.values() for n, _ in positions)
        largest = {name: dict(positions)[most] / 1e9 for name, positions in found.items() if most in dict(positions)}
        order = sorted(largest, key=largest.__getitem__)
        bars.barh(order, [largest[name] for name in order], color=[colours[name] for name in order])
        for position, name in enumerate(order):
            bars.text(largest[name], position, f" {largest[name]:.3g}", va="center", fontsize=9.5)
        bars.set_title(f"{short(most)} keys")
        bars.set_xlabel("billion keys a second")
        bars.set_xlim(0, 1.2 * max(largest.values()))
        bars.grid(axis="y", visible=False)
        figure.legend(lines.lines, found, loc="outside lower center", ncols=3, fontsize=9, borderaxespad=2.2)
    return figure


def draw_gpus(record: Record) -> Figure:
    """Keys a second against the number of GPUs, a panel for each work."""
    found = record.lines("gpus")
    works = [work for work in WORKS if work in found]
    with page("Sorting over the GPUs of one host: keys on each GPU", 3.4, len(works), sharey=True) as (figure, panels):
        for axes, work in zip(panels, works, strict=True):
            lines = {OURS: found[work], BASELINE: found.get(f"{BASELINE}, {work}", ())}
            positions = {
                name: [(point.x, point.median / 1e9) for point in lines[name]] for name in lines if lines[name]
            }
            numbers = [point.x for point in found[work]]
            axes.set_title(WORKS[work])
            axes.set_xlabel("GPUs")
            axes.set_xticks(numbers, [f"{number:g}" for number in numbers])
            axes.margins(x=0.2)
            draw_lines(axes, positions, {OURS: BLUE, BASELINE: BLACK}, (BASELINE,), labelled=False)
        panels[0].set_ylabel("billion keys a second")
        fullest = max(panels, key=lambda axes: len(axes.lines))
        figure.legend(
            fullest.lines, (OURS, BASELINE), loc="outside lower center", ncols=2, fontsize=9, borderaxespad=2.2
        )
    return figure
