"""The figures: the stored file that each shows. Imports matplotlib only to draw."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ..harness.records import Record, read


@dataclass(frozen=True)
class Figure:
    """A figure of a stored file, drawn by a function of `draw` if all its `parts`, figures of points, are stored."""

    draw: str
    data: str
    parts: tuple[str, ...]

    def record(self, results: Path) -> Record | None:
        path = results / f"{self.data}.json"
        record = read(path) if path.exists() else None
        return record if record and all(map(record.lines, self.parts)) else None

    def digest(self, results: Path) -> str:
        """Digest of its data and of the code that draws it."""
        code = sorted(Path(__file__).parent.glob("*.py"))
        content = [path.read_bytes() for path in (results / f"{self.data}.json", *code)]
        return hashlib.sha256(b"\0".join(content)).hexdigest()

    def save(self, results: Path, path: Path) -> None:
        from .style import save

        record = self.record(results)
        assert record is not None
        figure = getattr(import_module(".draw", __package__), f"draw_{self.draw}")(record)
        save(figure, path, self.source(record), self.digest(results))

    def source(self, record: Record) -> str:
        """The line below a figure: machine and commit."""
        machine = record.machine
        where = machine.get("device", "").partition(",")[0] or "{cpu}, {cores} cores".format(**machine)
        return f"{where} · commit {machine['commit'][:10]}"


#: Name, stored file, parts.
CATALOGUE = """
baselines | baselines_cpu | baselines
soak | soak | soak memory+soak objects
gpu_dask_chunks | gpu_dask_arrays | chunks uint32+chunks int64
gpu_baselines | baselines_gpu | baselines
gpu_algorithms | algorithms_gpu | algorithms
"""
LINES = [[part.strip() for part in line.split("|")] for line in CATALOGUE.strip().splitlines()]
FIGURES = {name: Figure(name, data, tuple(filter(None, parts.split("+")))) for name, data, parts in LINES}
