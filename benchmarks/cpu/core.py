"""What the core promises, against what one would use instead.

    python -m benchmarks.cpu.core [threads cluster chunk larger graph balance] [--repeat 3] [--quick] [--output PATH]

Writes results/core_cpu.json. Each section is a function that yields rows: the goal, our time, and the ratio to a
baseline measured in the same run. Every result is verified.
"""

from __future__ import annotations

from ..harness.command import run_rows
from . import chunk, cluster, larger, threads

SECTIONS = {
    "threads": threads.rows,
    "cluster": cluster.rows,
    "chunk": chunk.rows,
    "larger": larger.rows,
    "graph": cluster.graph_rows,
    "balance": threads.balance_rows,
}

if __name__ == "__main__":
    run_rows("benchmarks.cpu.core", __doc__, "core_cpu", SECTIONS)
