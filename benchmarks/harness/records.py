"""Stored results: rows of tables and points of figures, with their machine and settings.

::

    {"machine": {"cpu": ..., "versions": ..., "commit": ...},
     "settings": {...},
     "rows": [{"name": ..., "work": ..., "ours": ..., "baselines": {...}, ...}],       or
     "points": [{"figure": ..., "series": ..., "x": ..., "samples": [...], ...}]}
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

#: Units of times, in seconds.
SECONDS = {"s": 1.0, "ms": 1e-3}


@dataclass(frozen=True)
class Point:
    """One point of a series in a figure."""

    figure: str
    series: str
    x: float
    samples: list[float]
    unit: str = "s"

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def __str__(self) -> str:
        return f"{self.figure:18} {self.series:36} {self.x:14,.5g} {self.median:12.5g} {self.unit}"


@dataclass
class Row:
    """One row of a table, which documents find by its name.

    `work` says what was done. `ours`, `baselines` and `samples` are in `unit`.
    `details` holds what a single benchmark adds, by the heads of its columns; with a "figure" and an "x" the row is a
    point of each series too.
    """

    name: str
    work: str
    ours: float
    unit: str = "ms"
    baselines: dict[str, float] = field(default_factory=dict)
    section: str = ""
    keys: int = 0
    verified: bool = True
    samples: dict[str, list[float]] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ratios(self) -> dict[str, float]:
        """Each baseline over ours, of the figures that tables show; above 1, ours is better."""
        return {name: value / self.ours for name, value in self.baselines.items()}

    def points(self) -> Iterable[Point]:
        """The points of a figure: ours and each baseline; times in seconds."""
        if "figure" in self.details:
            for series, value in {"ours": self.ours, **self.baselines}.items():
                yield Point(self.details["figure"], series, self.details["x"], [value * SECONDS.get(self.unit, 1)])

    def __str__(self) -> str:
        theirs = "".join(f", {name} {self.baselines[name]:,.4g} ({each:.2f} x)" for name, each in self.ratios.items())
        return f"{self.work}: {self.ours:,.4g} {self.unit}{theirs}{'' if self.verified else ' WRONG'}"


def timed_row(name: str, work: str, samples: dict[str, list[float]], unit: str = "ms", **more: Any) -> Row:
    """Make a row of medians; of the samples, which are seconds, those of "ours" come first."""
    scaled = {who: [one / SECONDS[unit] for one in taken] for who, taken in samples.items()}
    medians = {who: statistics.median(taken) for who, taken in scaled.items()}
    return Row(name, work, medians.pop("ours"), unit, medians, samples=scaled, **more)


@dataclass
class Record:
    """The results of one command."""

    machine: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def add(self, found: Iterable[Point | Row]) -> None:
        """Store and print points or rows."""
        for one in found:
            self.points.append(one) if isinstance(one, Point) else self.rows.append(one)
            print(one, flush=True)

    def lines(self, figure: str) -> dict[str, list[Point]]:
        """Points of a figure by series, sorted by x."""
        found: dict[str, list[Point]] = {}
        for point in (*self.points, *(point for row in self.rows for point in row.points())):
            if point.figure == figure:
                found.setdefault(point.series, []).append(point)
        return {name: sorted(points, key=lambda point: point.x) for name, points in found.items()}

    def named(self, pattern: str) -> list[Row]:
        """The rows of a name, or whose names match a pattern; there is one at least."""
        found = [row for row in self.rows if fnmatchcase(row.name, pattern)]
        assert found, pattern
        return found

    def __getitem__(self, name: str) -> Row:
        """The row of a name."""
        (found,) = self.named(name)
        return found

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {"machine": self.machine, "settings": self.settings}
        content |= {"points": list(map(vars, self.points))} if self.points else {}
        content |= {"rows": [_full(row) for row in self.rows]} if self.rows else {}
        path.write_text(json.dumps(content, indent=1) + "\n")


def _full(row: Row) -> dict[str, Any]:
    """Leave out the fields of a row that say nothing."""
    given = {one.name: getattr(row, one.name) for one in fields(row)}
    kept = {name: value for name, value in given.items() if name in ("ours", "unit") or (value and value is not True)}
    return kept | ({} if row.verified else {"verified": False})


def read(path: Path) -> Record:
    content = json.loads(path.read_text())
    points, rows = content.get("points", ()), content.get("rows", ())
    return Record(
        content["machine"], content["settings"], [Point(**one) for one in points], [Row(**one) for one in rows]
    )


def slug(*parts: object) -> str:
    """The name of a row: parts without spaces, joined by slashes."""
    return "/".join(str(part).replace(", ", "-").replace(" ", "-") for part in parts)
