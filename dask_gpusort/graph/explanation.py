"""What `explain` returns, printed or shown in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from ..plan.terms import format_lines, format_size

#: How often the source is read, in words.
TIMES = {0: "not at all", 1: "once", 2: "twice"}


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a call will do, before anything runs; printed, it says it in a few lines.

    Attributes
    ----------
    fits : bool
        Whether the projected peak is within the limit: True if there is no known limit, False if the peak is unknown,
        because sizes of chunks are.
    peak : int or None
        Projected peak, in bytes, of the step that takes most of its memory; None if unknown. Arrays that are in memory
        already, and what Dask keeps of other tasks, are not counted, nor are indices and results of reads at positions.
        Of distinct values it is the peak if all elements differ.
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
        What to know or to change: no Client, an exchange in place of another one, unknown sizes, a remedy.
    detail : str
        Further decisions, a line each.
    full : bool
        Whether the printed text ends with `detail`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> dask_gpusort.explain(da.zeros(10_000_000, chunks=1_000_000)).fits
    True
    """

    fits: bool
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
        fitting = "fits: " if self.fits else "does not fit: " if self.peak is not None else ""
        given, made = self.chunks
        lines = {
            "memory": f"{fitting}peak {_bytes(self.peak)} for {self.whose}, of {_bytes(self.limit)}",
            "disk": "used for sorted chunks that memory does not hold" if self.disk else "not used",
            "reads": f"the source {TIMES.get(self.reads, f'{self.reads} times')}",
            "chunks": f"{given:,} in, {made:,} out",
            "tasks": f"{self.tasks:,}, {self.tasks / max(given, 1):.3g} a chunk",
            "exchange": self.exchange or "none: elements stay in their chunks",
        }
        return {**lines, **{"note" + " " * number: text for number, text in enumerate(self.notes)}}

    def __str__(self) -> str:
        lines = format_lines(self._lines)
        return f"{lines}\n\n{self.detail}" if self.full else lines

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same as a table, with a bar for the bytes of each stage."""
        most = max((size or 0 for _, size in self.stages), default=0) or 1
        lines = [(name.strip(), escape(text)) for name, text in self._lines.items()]
        bars = [(name, f"<meter value={size or 0} max={most}></meter> {_bytes(size)}") for name, size in self.stages]
        left = "style='text-align:left'"
        rows = "".join(f"<tr><th {left}>{name}</th><td {left}>{text}</td></tr>" for name, text in lines + bars)
        detail = f"<details{' open' * self.full}><summary>Details</summary><pre>{escape(self.detail)}</pre></details>"
        return f"<table>{rows}</table>{detail}"


def _bytes(size: int | None) -> str:
    return "unknown" if size is None else format_size(size)
