"""Measured points that figures are drawn from, the files they are kept in, and when two of them may be compared.

::

    {"machine": {"cpu": ..., "versions": ..., "commit": ...},       where and with what
     "settings": {...},                                             how
     "points": [{"figure": "peers", "series": "numpy.sort", "x": 10000, "samples": [...], ...}, ...]}
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
#: What makes a machine another one, as far as records tell: processor, cores and memory, or GPU.
IDENTITY = ("cpu", "cores", "memory_bytes", "device", "GPUs")


class DifferentMachinesError(ValueError):
    """Two measurements are not of one machine, so their ratio says nothing of what was measured."""


@dataclass(frozen=True)
class Point:
    """One place of a line in a figure.

    Attributes
    ----------
    figure, series : str
    x : float
        Mostly the number of keys.
    samples : list of float
        All measurements.
    unit : str
    others : float or None
        Share of the processor time spent meanwhile that other processes took, None if it is not known.
    """

    figure: str
    series: str
    x: float
    samples: list[float]
    unit: str = "s"
    others: float | None = None

    @property
    def median(self) -> float:
        """Median of the measurements."""
        return statistics.median(self.samples)


@dataclass(frozen=True)
class Record:
    """The points of one run of one script."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    points: list[Point] = field(default_factory=list)

    def lines(self, figure: str) -> dict[str, list[Point]]:
        """Points of a figure by series, each in the order of x."""
        found: dict[str, list[Point]] = {}
        for point in self.points:
            if point.figure == figure:
                found.setdefault(point.series, []).append(point)
        return {name: sorted(points, key=lambda point: point.x) for name, points in found.items()}

    def write(self, path: Path) -> None:
        """Keep the record as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"machine": self.machine, "settings": self.settings, "points": [asdict(p) for p in self.points]}
        path.write_text(json.dumps(content, indent=1) + "\n")


def read(path: Path) -> Record:
    """A record that was kept."""
    content = json.loads(path.read_text())
    return Record(content["machine"], content["settings"], [Point(**point) for point in content["points"]])


def check_one_machine(*machines: Mapping[str, Any]) -> None:
    """Raise unless all measurements are of one machine.

    Raises
    ------
    DifferentMachinesError
        Says in what the machines differ.
    """
    first, *rest = machines
    if not any(map(first.get, IDENTITY)):
        raise DifferentMachinesError("no ratio: the measurement does not say on what machine it was made")
    for other in rest:
        differ = [name for name in IDENTITY if first.get(name) != other.get(name)]
        if differ:
            told = "; ".join(f"{name}: {first.get(name)} and {other.get(name)}" for name in differ)
            raise DifferentMachinesError(f"no ratio of two machines ({told}): measure both on one, in one run")


def times_faster(ours: tuple[Point, Mapping[str, Any]], theirs: tuple[Point, Mapping[str, Any]]) -> float:
    """How many times less time one measurement took than another.

    Parameters
    ----------
    ours, theirs : (Point, machine)

    Raises
    ------
    DifferentMachinesError
    ValueError
        If the points are not of the same size or not in the same unit.
    """
    check_one_machine(ours[1], theirs[1])
    if (ours[0].x, ours[0].unit) != (theirs[0].x, theirs[0].unit):
        raise ValueError(f"no ratio of {ours[0].x:g} {ours[0].unit} and {theirs[0].x:g} {theirs[0].unit}")
    return theirs[0].median / ours[0].median


def commit_of(directory: Path) -> str:
    """The commit that is checked out in a directory, with a plus if files differ from it; "unknown" without git."""

    def git(*command: str) -> str:
        done = subprocess.run(["git", *command], cwd=directory, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    if shutil.which("git") is None:
        return "unknown"
    head = git("rev-parse", "HEAD")
    # Results, this run's among them, do not change what is measured.
    changed = git("status", "--porcelain", "--", ":/", ":(top,exclude)benchmarks/results")
    return f"{head or 'unknown'}{'+' if changed else ''}"
