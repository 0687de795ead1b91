"""Measure what the core promises and write the table."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from . import balance, chunk, cluster, graph, larger, threads
from .measure import Effort
from .report import ROOT, Row, as_markdown, machine, table, write

SECTIONS = {
    "threads": threads.rows,
    "cluster": cluster.rows,
    "chunk": chunk.rows,
    "larger": larger.rows,
    "graph": graph.rows,
    "balance": balance.rows,
}
RESULTS = ROOT / "benchmarks" / "results"


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.core", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each job (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes, once: only to see that everything works")
    parser.add_argument(
        "--output", type=Path, help="directory for the results (default: benchmarks/results, for a whole run alone)"
    )
    options = parser.parse_args()
    unknown = set(options.sections) - SECTIONS.keys()
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}: choose from {', '.join(SECTIONS)}")
    return options


def main() -> None:
    """Run the sections that were asked for; a wrong result raises."""
    options = parse()
    names = [name for name in SECTIONS if name in (options.sections or SECTIONS)]
    effort = Effort(options.quick, 1 if options.quick else options.repeat)
    settings = {"quick": effort.quick, "repeat": effort.repeat, "sections": names}
    where = machine()
    console = Console()
    rows: list[Row] = []
    for name in names:
        console.rule(name)
        for row in SECTIONS[name](effort):
            # Small sizes reach nothing and miss nothing.
            rows.append(replace(row, reached=None) if effort.quick else row)
            console.print(table(rows[-1:]).splitlines()[-1], markup=False, highlight=False, soft_wrap=True)
    console.rule()
    console.print(as_markdown(rows, where, settings), markup=False, highlight=False, soft_wrap=True)
    whole = not options.quick and len(names) == len(SECTIONS)
    if directory := options.output or (RESULTS if whole else None):
        write(directory, rows, where, settings)
        console.print(f"written to {directory}")


if __name__ == "__main__":
    main()
