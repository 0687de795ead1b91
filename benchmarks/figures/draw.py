"""Draws the figures: lines of points against x from one declaration each, and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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
BASELINE = "PyTorch + NCCL"
DASHED = ("Batcher's network", "odd-even transposition")
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
) -> Figure:
    """Lines of points against x in panels, whose titles are given by figure of points.

    `show` turns points into a line. `names` are those of the series that are drawn, with colours.
    """
    with page(title, height, len(panels), sharey=True) as (figure, several):
        for number, (axes, (part, heading)) in enumerate(zip(several, panels.items(), strict=True)):
            axes.set_title(heading)
            y = "" if number else labels[1]
            if log:
                scale_axes(axes, labels[0], y)
            else:
                axes.set(xlabel=labels[0], ylabel=y)
            lines = {series: show(points) for series, points in record.lines(part).items()}
            colours = dict(names.values()) if names else COLOURS
            draw_lines(axes, named(lines, names) if names else lines, colours, DASHED)
            if not log:
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
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
            base, polars = lines["NumPy"][0].median, lines["NumPy"][0].median / lines["Polars"][0].median
            ours = [(point.x, base / point.median) for point in lines["ours"]]
            axes.set(title=title, xlabel="threads", ylabel="times faster" if axes is several[0] else "")
            axes.set_xticks([threads for threads, _ in ours if threads != FEW_THREADS])
            axes.axhline(1, color=BLACK, linewidth=1)
            last = axes is several[-1]
            draw_lines(axes, {"ours": ours}, COLOURS, labelled=last)
            all_threads = [(ours[0][0], polars), (ours[-1][0], polars)]
            draw_lines(axes, {"Polars, all": all_threads}, {"Polars, all": ORANGE}, ("Polars, all",), labelled=last)
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
    """Keys a second against the number of GPUs, a panel for each work that ran on several."""
    rows = {work: [row for row in record.rows if row.work == work and row.ours] for work in WORKS}
    rows = {work: found for work, found in rows.items() if len(found) > 1}
    with page("Sorting over the GPUs of one host: keys on each GPU", 3.4, len(rows), sharey=True) as (figure, panels):
        for axes, (work, found) in zip(panels, rows.items(), strict=True):
            gpus = [row.details["gpus"] for row in found]
            lines = {"ours": [(x, row.keys / row.ours / 1e6) for x, row in zip(gpus, found, strict=True)]}
            theirs = [
                (x, row.keys / row.baselines[BASELINE] / 1e6)
                for x, row in zip(gpus, found, strict=True)
                if row.baselines
            ]
            axes.set(title=WORKS[work], xlabel="GPUs")
            axes.set_xticks(gpus, map(str, gpus))
            axes.margins(x=0.2)
            drawn = lines | ({BASELINE: theirs} if theirs else {})
            draw_lines(axes, drawn, {"ours": BLUE, BASELINE: BLACK}, (BASELINE,), labelled=False)
        panels[0].set_ylabel(BILLIONS)
        legend_below(figure, max(panels, key=lambda axes: len(axes.lines)).lines, ("ours", BASELINE), 2)
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
