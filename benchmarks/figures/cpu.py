"""The figures of what was measured on a CPU."""

from __future__ import annotations

from matplotlib.figure import Figure

from ..harness.records import Record
from .style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, draw_lines, draw_panels, page, rates, scale_axes

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
}
KEYS, RATE = "keys", "keys a second"
PHASES = ("sort", "count", "find the cuts", "scatter", "merge")


def draw_baselines(record: Record) -> Figure:
    """Keys a second against n, for every library."""
    with page("Sorting int64 keys: the whole array in memory, in and out", 4.2) as (figure, (axes,)):
        scale_axes(axes, KEYS, RATE)
        draw_lines(axes, {series: rates(points) for series, points in record.lines("baselines").items()}, COLOURS)
    return figure


def draw_threads(record: Record) -> Figure:
    """Speed-up over NumPy on one thread, as in figures 12 and 13 of the paper."""
    with page("Times faster than NumPy on one thread: int64 keys in 16 chunks", 3.8, 2) as (figure, both):
        for axes, work, title in zip(both, ("sort", "argsort"), ("sort", "stable argsort"), strict=True):
            lines = record.lines(f"threads {work}")
            base = {point.x: point.median for point in lines["NumPy"]}
            scale_axes(axes, KEYS, "times faster" if work == "sort" else "", log_y=False)
            axes.set_title(title)
            axes.axhline(1, color=BLACK, linewidth=1)
            axes.annotate("NumPy", (0, 1), (4, -12), xycoords=("axes fraction", "data"), textcoords="offset points")
            ours = {series: points for series, points in lines.items() if series != "NumPy"}
            speed_ups = {name: [(p.x, base[p.x] / p.median) for p in points] for name, points in ours.items()}
            draw_lines(axes, speed_ups, COLOURS)
    return figure


def draw_phases(record: Record) -> Figure:
    """Where the time goes, as in figure 9 of the paper."""
    colours = dict(zip(PHASES, (BLUE, ORANGE, VERMILION, GREEN, SKY), strict=True))
    with page("Where the time goes: int64 keys in 16 chunks, two threads", 3.7, 2, sharey=True) as (figure, both):
        for axes, method in zip(both, ("radix", "merge"), strict=True):
            lines = record.lines(f"phases {method}")
            sizes = [point.x for point in lines["sort"]]
            totals = [sum(lines[phase][position].median for phase in PHASES) for position in range(len(sizes))]
            left = [0.0] * len(sizes)
            for phase in PHASES:
                shares = [100 * lines[phase][position].median / totals[position] for position in range(len(sizes))]
                axes.barh(range(len(sizes)), shares, left=left, color=colours[phase], label=phase, edgecolor="white")
                left = [a + b for a, b in zip(left, shares, strict=True)]
            axes.set_title("cuts by digits and samples" if method == "radix" else "cuts by samples (merge path)")
            axes.set_yticks(range(len(sizes)), [f"$2^{{{int(n).bit_length() - 1}}}$ keys" for n in sizes])
            axes.set_xlabel("% of the time of all tasks")
            axes.grid(axis="y", visible=False)
            axes.set_xlim(0, 100)
        figure.legend(
            *both[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=len(PHASES),
            fontsize=9,
            borderaxespad=2.2,
        )
    return figure


def draw_chunks(record: Record) -> Figure:
    """Tasks, seconds to build the graph and to run it, against the number of chunks."""
    colours = {"threads": BLUE, "two workers": VERMILION}
    panels = (("tasks", "tasks"), ("build", "seconds to build the graph"), ("wall", "seconds to sort 20M keys"))
    with page("From 4 chunks to 10,000", 3.6, 3) as (figure, three):
        for axes, (name, title) in zip(three, panels, strict=True):
            scale_axes(axes, "chunks", "")
            axes.set_title(title)
            lines = {
                series: [(point.x, point.median) for point in points]
                for series, points in record.lines(f"chunks {name}").items()
            }
            draw_lines(axes, lines, colours, labelled=name == "tasks")
    return figure


def draw_entropy(record: Record) -> Figure:
    """Keys a second against their entropy."""
    keys = 1 << 24
    lines = {
        title: {
            series: [(point.x, keys / point.median / 1e6) for point in points]
            for series, points in record.lines(f"entropy {dtype}").items()
        }
        for dtype, title in (("u4", "uint32"), ("u8", "uint64"))
    }
    with page("Keys of low entropy: random words and-ed together, 16M keys", 3.6, 2, sharey=True) as (figure, both):
        draw_panels(both, lines, "entropy of a key, bits", "million keys a second", COLOURS)
    return figure


def draw_network(record: Record) -> Figure:
    """A sorting network of the whole array against sorts of less work."""
    title = "Batcher's network of the whole array, a layer at a time, and sorts of less work"
    with page(title, 3.8) as (figure, (axes,)):
        scale_axes(axes, KEYS, RATE)
        lines = {series: rates(points) for series, points in record.lines("network").items()}
        draw_lines(axes, lines, {**COLOURS, "network, a layer at a time": VERMILION})
    return figure


def draw_cost(record: Record) -> Figure:
    """Predicted seconds by stage, and measured seconds."""
    stages = {"sort": BLUE, "count": ORANGE, "exchange": GREEN, "merge": SKY, "tasks": PURPLE}
    with page("Sorting 20M int64 keys: predicted (bars) and measured", 3.8, 2) as (figure, both):
        for axes, position in zip(both, ("threads", "two workers"), strict=True):
            lines = record.lines(f"cost {position}")
            positions = range(len(lines["measured"]))
            bottom = [0.0 for _ in positions]
            for stage, colour in stages.items():
                seconds = [point.median for point in lines[stage]]
                axes.bar(positions, seconds, 0.6, bottom, color=colour, edgecolor="white", label=stage)
                bottom = [a + b for a, b in zip(bottom, seconds, strict=True)]
            measured = [point.median for point in lines["measured"]]
            axes.scatter(positions, measured, marker="D", color=BLACK, label="measured", clip_on=False, zorder=3)
            axes.set_title(position)
            axes.set_xticks(positions, [f"{point.x:,.0f}" for point in lines["measured"]])
            axes.set_xlabel("chunks")
            axes.set_ylabel("seconds" if position == "threads" else "")
            axes.grid(axis="x", visible=False)
        figure.legend(
            *both[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8.5, borderaxespad=2.2
        )
    return figure
