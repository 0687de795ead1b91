"""The table of many GPUs: what it was measured on, and how it is kept and shown."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..core.report import machine as host
from ..core.report import version_of
from .measure import PHASES, Row
from .works import REPEATS, WORKS

PACKAGES = ("torch", "ucxx-cu13", "ucxx-cu12", "dask-cuda", "rmm-cu13", "rmm-cu12")


def machine(commit: str) -> dict[str, Any]:
    """What is measured on: the host, its GPUs if it has any, versions, and the commit."""
    found = host() | {"commit": commit}
    found["versions"] |= {name: version_of(name) for name in PACKAGES if version_of(name) != "none"}
    with contextlib.suppress(Exception):  # of a host without CuPy, or without a driver
        found["versions"]["cupy"] = str(__import__("cupy").__version__)
    with contextlib.suppress(Exception):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        found["GPUs"] = "; ".join(subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines())
    return found


def facts_lines(facts: Mapping[str, Any]) -> list[str]:
    """What was measured on, as a list of Markdown."""
    flat = {**facts, "versions": ", ".join(f"{name} {number}" for name, number in facts["versions"].items())}
    return [f"- {name}: {value}" for name, value in flat.items()]


def shown_commit(row: Row) -> str:
    """The commit of a row, short; a plus says that files differed from it."""
    return row.commit[:12] + "+" * row.commit[12:].endswith("+")


def report_row(row: Row) -> None:
    beside = f", PyTorch + NCCL {1e3 * row.baseline:.1f} ms" if row.baseline else ""
    runs = " ".join(f"{1e3 * seconds:.0f}" for seconds in row.seconds)
    print(
        f"{row.work:18} {row.gpus} GPUs {1e3 * row.median:8.1f} ms {row.keys / row.median / 1e9:6.1f} Gkeys/s "
        f"({runs}) peak {row.peak:.2f} verified {row.verified}{beside}",
        flush=True,
    )
    for name, phase in row.phases.items():
        print(
            f"    {name:13} {phase['tasks']:4.0f} tasks, compute {1e3 * phase['compute']:7.1f} ms, transfer "
            f"{1e3 * phase['transfer']:7.1f} ms, from {1e3 * phase['from']:6.1f} to {1e3 * phase['to']:6.1f}",
            flush=True,
        )


def write_results(rows: dict[tuple[str, int], Row], out: Path, facts: Mapping[str, Any]) -> None:
    """Markdown for people, JSON for programs."""
    out.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(rows.values(), key=lambda row: (list(WORKS).index(row.work), row.gpus))
    document = {"machine": dict(facts), "rows": [asdict(row) for row in ordered]}
    out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    lines = ["# Sorts on many GPUs of one host", "", *facts_lines(facts), ""]
    lines += [
        f"Medians of {REPEATS} warm runs, wall time from `persist` to the last chunk. Peak: most device memory "
        "that a GPU had allocated at a time, beside the input, in a GPU's shares of the data.",
        "",
    ]
    columns = ["work", "GPUs", "keys", "ours, ms", "Gkeys/s", "PyTorch + NCCL, ms", "ratio", "peak"]
    lines += [f"| {' | '.join(columns)} | verified | commit |", "|---|" + "--:|" * (len(columns) - 1) + "---|---|"]
    for row in ordered:
        if not row.seconds:
            lines.append(f"| {row.work} | {row.gpus} | {row.keys:,} | | | | | | {row.error} | {shown_commit(row)} |")
            continue
        peer = f"{1e3 * row.baseline:.1f} | {row.baseline / row.median:.2f}" if row.baseline else " | "
        lines.append(
            f"| {row.work} | {row.gpus} | {row.keys:,} | {1e3 * row.median:.1f} | "
            f"{row.keys / row.median / 1e9:.1f} | {peer} | {row.peak:.2f} x | {'yes' if row.verified else '**no**'} | "
            f"{shown_commit(row)} |"
        )
    lines += ["", "Phases: tasks, and compute + transfer of the worker that is busiest in it, ms.", ""]
    names = [*PHASES, "scheduler"]
    lines += ["| work | GPUs | " + " | ".join(names) + " |", "|---|--:|" + "--:|" * len(names)]
    for row in ordered:
        cells = [row.phases.get(name) for name in names]
        text = (f"{c['tasks']:.0f}: {1e3 * c['compute']:.1f} + {1e3 * c['transfer']:.1f}" if c else "" for c in cells)
        if row.phases:
            lines.append(f"| {row.work} | {row.gpus} | " + " | ".join(text) + " |")
    out.with_suffix(".md").write_text("\n".join(lines) + "\n")


def earlier_rows(out: Path) -> dict[tuple[str, int], Row]:
    """Rows that an earlier call has written."""
    path = out.with_suffix(".json")
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    return {(row["work"], row["gpus"]): Row(**row) for row in known if row["work"] in WORKS and row["seconds"]}
