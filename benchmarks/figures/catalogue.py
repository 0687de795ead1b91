"""The figures: the stored file that each shows, and what it draws of it. Imports matplotlib only to draw."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..harness.records import Record, read

#: Okabe and Ito's colours, distinct for every kind of colour vision; without yellow, which is too pale for lines.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, GREY = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#0072B2", "#D55E00", "#CC79A7", "#767676"),
)


@dataclass(frozen=True)
class Figure:
    """Lines of a stored file against x, in a panel for each figure of points.

    `panels` are titles by figure of points; `lines` are names and colours by series. Keys a second are shown against
    keys, both on logarithmic scales, or milliseconds against `against`.
    """

    data: str
    title: str
    panels: Mapping[str, str]
    lines: Mapping[str, tuple[str, str]]
    height: float = 4.2
    against: str = ""

    def record(self, results: Path) -> Record | None:
        """The stored results, if they have all panels."""
        path = results / f"{self.data}.json"
        record = read(path) if path.exists() else None
        return record if record and all(map(record.lines, self.panels)) else None

    def digest(self, results: Path) -> str:
        """Digest of its data and of the code that draws it."""
        code = sorted(Path(__file__).parent.glob("*.py"))
        content = [path.read_bytes() for path in (results / f"{self.data}.json", *code)]
        return hashlib.sha256(b"\0".join(content)).hexdigest()

    def source(self, record: Record) -> str:
        """The line below a figure: machine and commit."""
        machine = record.machine
        return f"{machine.get('device', machine['cpu']).partition(',')[0]} · commit {machine['commit'][:10]}"

    def save(self, results: Path, path: Path) -> None:
        """Write the figure as SVG."""
        from .draw import save

        save(self, results, path)


FIGURES = {
    "gpu_dask_chunks": Figure(
        "gpu_dask_arrays",
        "Sorting CuPy chunks on one GPU; the kernel and CuPy have one array",
        {"chunks uint32": "$2^{28}$ uint32", "chunks int64": "$2^{28}$ int64"},
        {
            "ours": ("ours", BLUE),
            "no-op": ("Dask's no-op", ORANGE),
            "kernel": ("our kernel", SKY),
            "CuPy": ("cupy.sort", BLACK),
        },
        height=3.8,
        against="chunks",
    ),
    # Figure 8 of the paper on today's hardware.
    "gpu_algorithms": Figure(
        "algorithms_gpu",
        "Sorting random uint32 keys on one GPU: the algorithms of the papers, ours, CUB",
        {"algorithms": ""},
        {
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
        },
        height=5.6,
    ),
}
