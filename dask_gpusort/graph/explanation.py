"""What `explain` and the like return, printed or shown in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from ..plan.terms import format_lines, format_size, format_tasks

#: How often the source is read, in words.
TIMES = {0: "not at all", 1: "once", 2: "twice"}


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a call will do, before anything runs; printed, it says it in a few lines.

    Attributes
    ----------
    fits : bool or None
        Whether the projected peak is within the limit; None if either is unknown.
    peak : int or None
        Projected peak, in bytes, of the step that takes most; None if unknown. Arrays that are in memory already, and
        what Dask keeps of other tasks, are not counted.
    limit : int or None
        Bytes of the memory that the peak is compared with (see `whose`); None if unknown.
    whose : str
        What has the peak and the limit: "each thread" (with its share of its process or worker), "each worker",
        "this process", "all workers together", or a GPU.
    reads : int
        How often each chunk of the source is read.
    disk : bool
        Whether sorted chunks go to files where memory does not hold them.
    tasks : int
        Tasks that the call adds to the graph, before Dask optimizes it.
    chunks : tuple of int
        Numbers of chunks of the first input, and of the first result.
    exchange : str or None
        How elements leave their chunks, such as "gather", "runs", "tasks", "device", "gang", "join" or "rechunk"; None
        if none do.
    stages : tuple of (str, int or None)
        Steps from the source to the result, and the bytes that each takes in.
    notes : tuple of str
        What to know or to change: a missing Client, an exchange in place of another one, unknown sizes, a remedy.
    detail : str
        All decisions, a line each.
    full : bool
        Whether the printed text ends with `detail`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> dask_gpusort.explain(da.zeros(10_000_000, chunks=1_000_000)).fits
    True
    """

    fits: bool | None
    peak: int | None
    limit: int | None
    whose: str
    reads: int
    disk: bool
    tasks: int
    chunks: tuple[int, int]
    exchange: str | None
    stages: tuple[tuple[str, int | None], ...]
    notes: tuple[str, ...]
    detail: str
    full: bool = False

    @property
    def _lines(self) -> dict[str, str]:
        fitting = {True: "fits: ", False: "does not fit: ", None: ""}[self.fits]
        peak, limit = ("unknown" if size is None else format_size(size) for size in (self.peak, self.limit))
        given, made = self.chunks
        lines = {
            "memory": f"{fitting}peak {peak} for {self.whose}, of {limit}",
            "disk": "used for sorted chunks that memory does not hold" if self.disk else "not used",
            "reads": f"the source {TIMES.get(self.reads, f'{self.reads} times')}",
            "chunks": f"{given:,} in, {made:,} out",
            "tasks": format_tasks(self.tasks, given),
            "exchange": self.exchange or "none: elements stay in their chunks",
        }
        return {**lines, **{"note" + " " * number: text for number, text in enumerate(self.notes)}}

    def __str__(self) -> str:
        lines = format_lines(self._lines)
        return f"{lines}\n\n{self.detail}" if self.full else lines

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same as a table, with a bar for the bytes of each stage."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{name.strip()}</th><td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in self._lines.items()
        )
        most = max((size or 0 for _, size in self.stages), default=0) or 1
        bars = "".join(
            f"<text x='0' y='{22 * row + 15}'>{escape(name)}</text>"
            f"<rect x='130' y='{22 * row + 3}' width='{max(260 * (size or 0) / most, 1):.0f}' height='15'"
            " fill-opacity='0.35'/>"
            f"<text x='400' y='{22 * row + 15}'>{'unknown' if size is None else format_size(size)}</text>"
            for row, (name, size) in enumerate(self.stages)
        )
        height = 22 * len(self.stages)
        # The colour is that of the text around it, light or dark.
        picture = (
            f"<svg role='img' aria-label='bytes of each stage' viewBox='0 0 520 {height}' width='520' height='{height}'"
            f" style='max-width:100%' fill='currentColor' font-size='12'>{bars}</svg>"
        )
        detail = f"<details{' open' * self.full}><summary>Details</summary><pre>{escape(self.detail)}</pre></details>"
        return f"<table style='color:inherit'>{rows}</table>{picture}{detail}"
