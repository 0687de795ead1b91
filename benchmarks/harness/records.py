"""Stored results: rows of tables and points of figures, with their machine and settings.

::

    {"machine": {"cpu": ..., "versions": ..., "commit": ...},
     "settings": {...},
     "rows": [{"work": ..., "ours": ..., "baselines": {...}, ...}],                    or
     "points": [{"figure": ..., "series": ..., "x": ..., "samples": [...], ...}]}
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Point:
    """One point of a series in a figure. `others`: share of the processor time that other processes took."""

    figure: str
    series: str
    x: float
    samples: list[float]
    unit: str = "s"
    others: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def __str__(self) -> str:
        return f"{self.figure:18} {self.series:36} {self.x:14,.5g} {self.median:12.5g} {self.unit}"


@dataclass
class Row:
    """One row of a table. `ours`, `baselines` and `samples` are in `unit`; `ours` is None if the run failed.

    `wanted` is the goal in words. `traffic_bytes` is the least that the algorithm must move, and `copy_share` is its
    rate as a share of the copy bandwidth of the device. `details` holds fields of a single benchmark.
    """

    work: str
    ours: float | None
    unit: str = "ms"
    section: str = ""
    keys: int = 0
    baselines: dict[str, float] = field(default_factory=dict)
    wanted: str = ""
    reached: bool | None = None
    traffic_bytes: int = 0
    copy_share: float | None = None
    verified: bool = True
    samples: dict[str, list[float]] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """The first baseline over ours, of the figures that tables show; above 1, ours is better."""
        return next(iter(self.baselines.values())) / self.ours if self.baselines and self.ours else None

    def aiming(self, least: float | None = None, most: float | None = None) -> Row:
        """Set the goal, the least ratio to the first baseline or the most that `ours` may be; return the row."""
        if least is not None and self.ratio is not None:
            self.wanted, self.reached = f"{least} x {next(iter(self.baselines))}", self.ratio >= least
        elif most is not None and self.ours is not None:
            self.wanted, self.reached = f"at most {most} {self.unit}", self.ours <= most
        return self

    def as_dict(self) -> dict[str, Any]:
        """The fields that are not empty."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in found.items() if name == "ours" or value not in (None, "", {}, [])}

    def __str__(self) -> str:
        ours = "failed" if self.ours is None else f"{self.ours:,.4g} {self.unit}"
        baselines = "".join(f", {name} {value:,.4g}" for name, value in self.baselines.items())
        ratio = f", ratio {self.ratio:.2f}" if self.ratio else ""
        wanted = f" (wanted: {self.wanted})" if self.wanted else ""
        copy = f", {100 * self.copy_share:.0f} % of copy" if self.copy_share else ""
        return f"{self.work}: {ours}{baselines}{ratio}{wanted}{copy}{'' if self.verified else ' WRONG'}"


@dataclass
class Record:
    """The results of one command."""

    machine: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def add(self, found: Iterable[Point] | Iterable[Row]) -> None:
        """Store and print points or rows."""
        for one in found:
            self.points.append(one) if isinstance(one, Point) else self.rows.append(one)
            print(one, flush=True)

    def lines(self, figure: str) -> dict[str, list[Point]]:
        """Points of a figure by series, sorted by x."""
        found: dict[str, list[Point]] = {}
        for point in self.points:
            if point.figure == figure:
                found.setdefault(point.series, []).append(point)
        return {name: sorted(points, key=lambda point: point.x) for name, points in found.items()}

    def row(self, start: str, baseline: str = "") -> Row:
        """The first row whose work starts with `start`; with `baseline`, the first one that is compared with it."""
        for row in self.rows:
            if row.work.startswith(start) and (not baseline or any(baseline in name for name in row.baselines)):
                return row
        raise KeyError(f"no row {start!r}")

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {"machine": self.machine, "settings": self.settings}
        for name in ("points", "rows"):
            if getattr(self, name):
                content[name] = [one.as_dict() for one in getattr(self, name)]
        path.write_text(json.dumps(content, indent=1) + "\n")


def read(path: Path) -> Record:
    content = json.loads(path.read_text())
    points = [Point(**point) for point in content.get("points", [])]
    # Files of earlier commits have a ratio too, the median of the rounds' ratios.
    rows = [Row(**{name: value for name, value in row.items() if name != "ratio"}) for row in content.get("rows", [])]
    return Record(content["machine"], content.get("settings", {}), points, rows)
