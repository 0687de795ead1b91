"""Section "larger": the example that sorts more than the memory of the cluster, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .measure import Effort
from .report import ROOT, Row

EXAMPLE = ROOT / "examples" / "larger_than_memory.py"
#: Peak memory of a worker of 1 GiB that is asked for.
MOST_MEMORY = 900 * 2**20


def rows(effort: Effort) -> Iterator[Row]:
    """Run the example once: it verifies its result itself."""
    sizes = ("16 MiB", "1 MiB") if effort.quick else ("4 GiB", "32 MiB")
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        command = [sys.executable, str(EXAMPLE), "--size", sizes[0], "--chunk", sizes[1], "--report", str(report)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        figures = json.loads(report.read_text())
    peak, restarts = max(figures["peaks"]), figures["restarts"]
    title = f"{sizes[0]} of int64 in chunks of {sizes[1]}, Zarr to Zarr, two workers of 1 GiB"
    seconds = figures["seconds"]
    yield Row("larger", title, "finishes", seconds, "s", reached=restarts == 0, samples={"ours": [seconds]})
    peaks = {"workers": [value / 2**20 for value in figures["peaks"]]}
    yield Row(
        "larger",
        "peak memory of a worker in it",
        "under 900 MiB, none started again",
        peak / 2**20,
        "MiB",
        reached=peak < MOST_MEMORY and not restarts,
        samples=peaks,
    )
