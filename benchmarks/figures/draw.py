"""Draws the figures: lines of points against x from one declaration each, and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..harness.records import Point, Record
from .catalogue import BASELINE
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
    "ours, 1 thread": SKY,
    "ours, 2 threads": BLUE,
    "NumPy": BLACK,
    "numpy.sort": BLACK,
    "Polars": ORANGE,
    "dask.dataframe": VERMILION,
    "array-api-compat": PURPLE,
    "network, a layer at a time": VERMILION,
    "threads": BLUE,
    "two workers": VERMILION,
    "CUB": BLACK,
}
KEYS, RATE, BILLIONS = "keys", "keys a second", "billion keys a second"
#: The number of threads whose label would touch that of one thread.
FEW_THREADS = 2
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
OURS = "ours"
DASHED = ("Batcher's network", "odd-even transposition")
PHASES = {"sort": BLUE, "count": ORANGE, "find the cuts": VERMILION, "scatter": GREEN, "merge": SKY}
STAGES = {"sort": BLUE, "count": ORANGE, "exchange": GREEN, "merge": SKY, "tasks": PURPLE}
#: Colours of the kernels that take longest; the others are drawn together.
KERNEL_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY)
#: Least share, in percent, that has space for the name of a kernel.
NAMED_SHARE = 14
PROCESSES = {"client": BLACK, "scheduler": VERMILION, "worker 1": BLUE, "worker 2": SKY}
#: Works of `gpu.multi` that are drawn, and their names; $2^{28}$ and the like are keys of each GPU.
WORKS = {
    "u32-28": "uint32, $2^{28}$",
    "u32-30": "uint32, $2^{30}$",
    "u64-29": "uint64, $2^{29}$",
    "pairs-29": "pairs, $2^{29}$",
    "argsort-28": "argsort, $2^{28}$",
}


def values(points: Sequence[Point], scale: float = 1.0) -> Line:
    """Medians in units of `scale`."""
    return [(point.x, point.median / scale) for point in points]


def rates(points: Sequence[Point], keys: float | None = None, scale: float = 1.0) -> Line:
    """Keys a second, in units of `scale`; x is the number of keys where that is not given."""
    return [(point.x, (keys or point.x) / point.median / scale) for point in points]


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
    log: bool = True,
    legend: bool = False,
) -> Figure:
    """Lines of points against x in panels, whose titles are given by figure of points.

    `show` turns points into a line. `names` are those of the series that are drawn, with colours. `legend`: only the
    first panel names the lines.
    """
    with page(title, height, len(panels), sharey=not legend) as (figure, several):
        for number, (axes, (part, heading)) in enumerate(zip(several, panels.items(), strict=True)):
            axes.set_title(heading)
            y = "" if number else labels[1]
            if log:
                scale_axes(axes, labels[0], y)
            else:
                axes.set(xlabel=labels[0], ylabel=y)
            lines = {series: show(points) for series, points in record.lines(part).items()}
            colours = dict(names.values()) if names else COLOURS
            draw_lines(axes, named(lines, names) if names else lines, colours, DASHED, labelled=not (legend and number))
            if not log and names:
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


draw_baselines = partial(
    draw_against_x, "Sorting int64 keys: the whole array in memory, in and out", 4.2, {"baselines": ""}
)
draw_network = partial(
    draw_against_x,
    "Batcher's network of the whole array, a layer at a time, and sorts of less work",
    3.8,
    {"network": ""},
)
draw_chunks = partial(
    draw_against_x,
    "From 4 chunks to 10,000",
    3.6,
    {"chunks tasks": "tasks", "chunks build": "seconds to build the graph", "chunks wall": "seconds to sort 20M keys"},
    labels=("chunks", ""),
    show=values,
    legend=True,
)
draw_entropy = partial(
    draw_against_x,
    "Keys of low entropy: random words and-ed together, 16M keys",
    3.6,
    {"entropy u4": "uint32", "entropy u8": "uint64"},
    labels=("entropy of a key, bits", "million keys a second"),
    show=partial(rates, keys=1 << 24, scale=1e6),
    log=False,
)
draw_gpu_sizes = partial(
    draw_against_x,
    "Sorting random keys on one GPU: ours and CUB",
    3.8,
    {"sizes uint32": "uint32", "sizes uint64": "uint64"},
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
draw_gpu_dask_sizes = partial(
    draw_against_x,
    "Sorting 16 CuPy chunks on one GPU; the kernel and CuPy have one array",
    3.8,
    {"sizes uint32": "uint32", "sizes int64": "int64"},
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
draw_gpu_entropy = partial(
    draw_against_x,
    "Keys of low entropy on one GPU: random words and-ed together, $2^{28}$ keys",
    3.8,
    {"entropy uint32": "uint32", "entropy uint64": "uint64"},
    labels=("random words and-ed: one is uniform", BILLIONS),
    show=partial(rates, keys=1 << 28, scale=1e9),
    names=ALGORITHMS,
    log=False,
)


def draw_threads(record: Record) -> Figure:
    """Speed-up over NumPy on one thread, as in figures 12 and 13 of the paper."""
    with page("Times faster than NumPy on one thread: int64 keys in 16 chunks", 3.8, 2) as (figure, both):
        for axes, work in zip(both, ("sort", "argsort"), strict=True):
            lines = record.lines(f"threads {work}")
            base = dict(values(lines.pop("NumPy")))
            scale_axes(axes, KEYS, "times faster" if work == "sort" else "", log_y=False)
            axes.set_title("sort" if work == "sort" else "stable argsort")
            axes.axhline(1, color=BLACK, linewidth=1)
            axes.annotate("NumPy", (0, 1), (4, -12), xycoords=("axes fraction", "data"), textcoords="offset points")
            speed_ups = {name: [(p.x, base[p.x] / p.median) for p in points] for name, points in lines.items()}
            draw_lines(axes, speed_ups, COLOURS)
    return figure


def draw_cores(record: Record) -> Figure:
    """Speed-up over NumPy on one thread against the number of threads."""
    panels = {
        "sort int64": "sort, int64",
        "stable argsort int64": "stable argsort, int64",
        "sort S20": "sort, S20",
        "lexsort two keys": "lexsort of two keys",
    }
    with page("Times faster than NumPy on one thread, 64 chunks", 3.4, len(panels)) as (figure, several):
        for axes, (work, title) in zip(several, panels.items(), strict=True):
            lines = record.lines(f"threads {work}")
            base = lines.pop("NumPy")[0].median
            polars = base / lines.pop("Polars")[0].median
            ours = [(point.x, base / point.median) for points in lines.values() for point in points]
            axes.set(title=title, xlabel="threads", ylabel="times faster" if axes is several[0] else "")
            axes.set_xticks([threads for threads, _ in ours if threads != FEW_THREADS])
            axes.axhline(1, color=BLACK, linewidth=1)
            last = axes is several[-1]
            draw_lines(axes, {"ours": ours}, COLOURS, labelled=last)
            all_threads = [(ours[0][0], polars), (ours[-1][0], polars)]
            draw_lines(axes, {"Polars, all": all_threads}, {"Polars, all": ORANGE}, ("Polars, all",), labelled=last)
    return figure


def stack(bar: Callable[..., Any], side: str, parts: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> None:
    """Bars upon each other, which begin at their `side`: the values of each part."""
    base = [0.0] * len(next(iter(parts.values())))
    for name, sizes in parts.items():
        bar(range(len(sizes)), sizes, **{side: base}, color=colours[name], edgecolor="white", label=name)
        base = [a + b for a, b in zip(base, sizes, strict=True)]


def draw_phases(record: Record) -> Figure:
    """Where the time goes, as in figure 9 of the paper."""
    with page("Where the time goes: int64 keys in 16 chunks, two threads", 3.7, 2, sharey=True) as (figure, both):
        for axes, method in zip(both, ("radix", "merge"), strict=True):
            lines = record.lines(f"phases {method}")
            sizes = [point.x for point in lines["sort"]]
            seconds = {phase: [point.median for point in lines[phase]] for phase in PHASES}
            totals = [sum(column) for column in zip(*seconds.values(), strict=True)]
            shares = {
                name: [100 * a / b for a, b in zip(taken, totals, strict=True)] for name, taken in seconds.items()
            }
            stack(axes.barh, "left", shares, PHASES)
            axes.set_title("cuts by digits and samples" if method == "radix" else "cuts by samples (merge path)")
            axes.set_yticks(range(len(sizes)), [f"$2^{{{int(n).bit_length() - 1}}}$ keys" for n in sizes])
            axes.set(xlabel="% of the time of all tasks", xlim=(0, 100))
            axes.grid(axis="y", visible=False)
        legend_below(figure, *both[0].get_legend_handles_labels(), len(PHASES))
    return figure


def draw_cost(record: Record) -> Figure:
    """Predicted seconds by stage, and measured seconds."""
    with page("Sorting 20M int64 keys: predicted (bars) and measured", 3.8, 2) as (figure, both):
        for axes, setup in zip(both, ("threads", "two workers"), strict=True):
            lines = record.lines(f"cost {setup}")
            measured = [point.median for point in lines["measured"]]
            stages = {stage: [point.median for point in lines[stage]] for stage in STAGES}
            stack(partial(axes.bar, width=0.6), "bottom", stages, STAGES)
            axes.scatter(
                range(len(measured)), measured, marker="D", color=BLACK, label="measured", clip_on=False, zorder=3
            )
            axes.set_xticks(range(len(measured)), [f"{point.x:,.0f}" for point in lines["measured"]])
            axes.set(title=setup, xlabel="chunks", ylabel="seconds" if setup == "threads" else "")
            axes.grid(axis="x", visible=False)
        legend_below(figure, *both[0].get_legend_handles_labels(), 6, 8.5)
    return figure


def draw_gpu_phases(record: Record) -> Figure:
    """Time of each kernel, for every algorithm: figure 9 of the paper."""
    found = [name for name in ALGORITHMS if record.lines(f"phases {name}")][::-1]
    title = "Where the time goes on one GPU: kernels of each algorithm, $2^{28}$ uint32 keys"
    with page(title, 1.4 + 0.55 * len(found)) as (figure, (axes,)):
        for position, algorithm in enumerate(found):
            kernels = {name: 1e3 * points[0].median for name, points in record.lines(f"phases {algorithm}").items()}
            draw_kernels(axes, position, kernels)
        axes.set_yticks(range(len(found)), [ALGORITHMS[name][0] for name in found])
        axes.set(xlabel="% of the time of all kernels", xlim=(0, 100))
        axes.grid(axis="y", visible=False)
    return figure


def draw_kernels(axes: Axes, position: int, kernels: Mapping[str, float]) -> None:
    """A bar of the shares of kernels, by their milliseconds."""
    left, total = 0.0, sum(kernels.values())
    for name, colour in zip(sorted(kernels, key=lambda name: -kernels[name]), KERNEL_COLOURS, strict=False):
        share = 100 * kernels[name] / total
        axes.barh(position, share, left=left, color=colour, edgecolor="white")
        if share > NAMED_SHARE:
            shown, ink = name.replace("_", " ") + f"\n{kernels[name]:.2g} ms", "white" if colour == BLUE else BLACK
            axes.text(left + share / 2, position, shown, ha="center", va="center", fontsize=8.5, color=ink)
        left += share
    axes.barh(position, 100 - left, left=left, color="#DDDDDD")
    axes.text(101, position, f"{total:.3g} ms", va="center", fontsize=9)


def draw_ranked(axes: Axes, found: Mapping[str, float], colours: Mapping[str, str], unit: str, spare: float) -> None:
    """Bars of numbers, the last one at the top, with `spare` times the space that the longest one takes."""
    bars = axes.barh(list(found), list(found.values()), color=[colours.get(name, GREY) for name in found])
    axes.bar_label(bars, fmt=f"%.3g{unit}", padding=3, fontsize=9.5)
    axes.set(xlim=(0, spare * max(found.values())))
    axes.grid(axis="y", visible=False)


def draw_gpu_network(record: Record) -> Figure:
    """10^9 keys by a network, as in the blog post, and by other sorts."""
    seconds = {ALGORITHMS.get(name, (name,))[0]: points[0].median for name, points in record.lines("network").items()}
    slowest_first = dict(sorted(seconds.items(), key=lambda one: -one[1]))
    with page("A billion uint32 keys: a network of the whole array, and sorts of less work", 2.6) as (figure, (axes,)):
        draw_ranked(axes, slowest_first, dict(ALGORITHMS.values()), " s", 1.1)
        axes.set(xlabel="seconds")
    return figure


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


def draw_gpus(record: Record) -> Figure:
    """Keys a second against the number of GPUs, a panel for each work."""
    found = record.lines("gpus")
    works = [work for work in WORKS if work in found]
    with page("Sorting over the GPUs of one host: keys on each GPU", 3.4, len(works), sharey=True) as (figure, panels):
        for axes, work in zip(panels, works, strict=True):
            lines = {OURS: found[work], BASELINE: found.get(f"{BASELINE}, {work}", ())}
            drawn = {name: values(points, 1e9) for name, points in lines.items() if points}
            axes.set(title=WORKS[work], xlabel="GPUs")
            axes.set_xticks([point.x for point in found[work]], [f"{point.x:g}" for point in found[work]])
            axes.margins(x=0.2)
            draw_lines(axes, drawn, {OURS: BLUE, BASELINE: BLACK}, (BASELINE,), labelled=False)
        panels[0].set_ylabel(BILLIONS)
        legend_below(figure, max(panels, key=lambda axes: len(axes.lines)).lines, (OURS, BASELINE), 2)
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
