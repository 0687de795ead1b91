"""Section "larger": the example that sorts more than the memory of the cluster, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..harness.jobs import Effort
from ..harness.machine import ROOT
from ..harness.records import Row

EXAMPLE = ROOT / "examples" / "larger_than_memory.py"
#: Peak memory, in MiB, that a worker of 1 GiB has to stay below.
MOST_MEMORY = 900


def rows(effort: Effort) -> Iterator[Row]:
    """Run the example once; it verifies its result itself."""
    size, chunk = ("16 MiB", "1 MiB") if effort.quick else ("4 GiB", "32 MiB")
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        command = [sys.executable, str(EXAMPLE), "--size", size, "--chunk", chunk, "--report", str(report)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        found = json.loads(report.read_text())
    seconds, peaks, restarts = found["seconds"], [peak / 2**20 for peak in found["peaks"]], found["restarts"]
    title = f"{size} of int64 in chunks of {chunk}, Zarr to Zarr, two workers of 1 GiB"
    yield Row(title, seconds, "s", "larger", wanted="finishes", reached=restarts == 0, samples={"ours": [seconds]})
    yield Row(
        section="larger",
        work="peak memory of a worker in it",
        wanted=f"under {MOST_MEMORY} MiB, none started again",
        ours=max(peaks),
        unit="MiB",
        reached=max(peaks) < MOST_MEMORY and not restarts,
        samples={"workers": peaks},
    )
