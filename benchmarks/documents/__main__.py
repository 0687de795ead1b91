"""Write the tables and figures of the documents from stored results, or check that they are up to date.

    python -m benchmarks.documents [--check] [--results DIRECTORY]

Writes results/*.md, the figures results/*.svg, and every block between `<!-- table: NAME -->` and
`<!-- end of table -->` in README.md, docs and benchmarks/README.md. ``--check`` changes nothing and fails
with the names of stale texts and figures. A figure is stale if its data or the code that draws it have changed; the
metadata of the figure hold a digest of both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from ..figures.catalogue import FIGURES
from ..harness.machine import RESULTS, ROOT
from .blocks import filled
from .reports import REPORTS, report


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), ROOT / "benchmarks" / "README.md"]


def stale_texts(results: Path, texts: list[Path]) -> Iterator[tuple[str, Path, str]]:
    """Stale texts: the name, the file, and the text that the file should have."""
    for name in REPORTS:
        path = results / f"{name}.md"
        if (results / f"{name}.json").exists():
            text = report(name, results)
            if not path.exists() or path.read_text() != text:
                yield path.name, path, text
    for path in texts:
        text = path.read_text()
        names = []
        for name, (old, new) in filled(text, results, path).items():
            if old != new:
                names.append(name)
                text = text.replace(old, new)
        if names:
            yield f"{path.name}: {', '.join(names)}", path, text


def stale_figures(results: Path) -> Iterator[str]:
    """Names of the figures that are missing or do not show their stored data."""
    for name, figure in FIGURES.items():
        path = results / f"{name}.svg"
        stored = path.read_text() if path.exists() else ""
        if figure.record(results) is not None and f"digest {figure.digest(results)}" not in stored:
            yield name


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.documents", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something is stale")
    parser.add_argument("--results", type=Path, help="reports and figures of this directory alone")
    options = parser.parse_args()
    results = options.results or RESULTS
    found = []
    for name in stale_figures(results):
        found.append(f"{name}.svg")
        if not options.check:
            FIGURES[name].save(results, results / f"{name}.svg")
    for name, path, text in stale_texts(results, [] if options.results else documents()):
        found.append(name)
        if not options.check:
            path.write_text(text)
    for name in found:
        print(f"stale: {name}" if options.check else f"written: {name}")
    if options.check and found:
        sys.exit("run `python -m benchmarks.documents`")


if __name__ == "__main__":
    main()
