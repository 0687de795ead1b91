"""The table: rows, the machine they were measured on, and the files they are kept in."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from ..points import ROOT, commit_of

PACKAGES = ("dask", "distributed", "numpy", "pandas", "zarr")


@dataclass(frozen=True)
class Row:
    """One promise and what became of it.

    Attributes
    ----------
    section, what : str
    asked : str
        In words; empty where the row is only there to be compared with.
    measured : float
    unit : str
    ratio : float or None
        To the peer, measured in turns with ours: more than 1 is better.
    peer : str
    reached : bool or None
        Whether what is asked was reached, None if nothing is.
    samples : dict of str to list of float
        All measurements, in the row's unit.
    """

    section: str
    what: str
    asked: str
    measured: float
    unit: str
    ratio: float | None = None
    peer: str = ""
    reached: bool | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)


def machine() -> dict[str, Any]:
    """What the measurements were made on."""
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_before": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in PACKAGES},
        "commit": commit_of(ROOT),
    }


def cpu_model() -> str:
    """Name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def version_of(name: str) -> str:
    """Version of an installed package, or "none"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| | asked | measured | beside | times | |", "|---|---|---|---|---|---|"]
    for row in rows:
        mark = {None: "", True: "reached", False: "**missed**"}[row.reached]
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        measured = f"{row.measured:,.3g}" if row.measured < 1000 else f"{row.measured:,.0f}"
        lines.append(f"| {row.what} | {row.asked} | {measured} {row.unit} | {row.peer} | {ratio} | {mark} |")
    return "\n".join(lines)


def as_markdown(
    rows: Sequence[Row], where: dict[str, Any], settings: dict[str, Any], script: str = "benchmarks.core"
) -> str:
    """The whole report of a script."""
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    memory = where["memory_bytes"] / 2**30
    head = (
        f"Measured by `python -m {script}{' --quick' if settings['quick'] else ''}` on {where['cpu']}, "
        f"{where['cores']} cores, {memory:.0f} GiB (load before: {where['load_before']:.1f}); "
        f"Python {where['python']}, {versions}; commit {where['commit'][:12]}"
        f"{'+' if where['commit'].endswith('+') else ''}. Medians of {settings['repeat']}, in turns; "
        "every result was checked. *times*: how many times better than what stands beside it."
    )
    if settings["quick"]:
        head += " **Small sizes: these figures say nothing of speed.**"
    return f"{head}\n\n{table(rows)}\n"


def write(
    directory: Path,
    rows: Sequence[Row],
    where: dict[str, Any],
    settings: dict[str, Any],
    script: str = "benchmarks.core",
) -> None:
    """Keep the report of a script as JSON and Markdown, ``core_cpu.*`` for ``benchmarks.core``."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {"machine": where, "settings": settings, "rows": [asdict(row) for row in rows]}
    stem = f"{script.rpartition('.')[2]}_cpu"
    (directory / f"{stem}.json").write_text(json.dumps(content, indent=1) + "\n")
    (directory / f"{stem}.md").write_text(as_markdown(rows, where, settings, script))
