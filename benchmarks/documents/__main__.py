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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ..figures.catalogue import FIGURES
from ..harness.machine import RESULTS, ROOT
from .blocks import filled
from .pages import FILES, page


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), ROOT / "benchmarks" / "README.md"]


def stale(results: Path, texts: list[Path]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Names of the stale figures, pages and blocks, and what writes each."""
    for name, figure in FIGURES.items():
        path = results / f"{name}.svg"
        stored = path.read_text() if path.exists() else ""
        if figure.record(results) is not None and f"digest {figure.digest(results)}" not in stored:
            yield path.name, partial(figure.save, results, path)
    for name, file in FILES.items():
        path = results / f"{name}.md"
        if file.note and (results / f"{name}.json").exists():
            text = page(name, results)
            if not path.exists() or path.read_text() != text:
                yield path.name, partial(path.write_text, text)
    for path in texts:
        text = path.read_text()
        blocks = {name: both for name, both in filled(text, results, path).items() if both[0] != both[1]}
        for old, new in blocks.values():
            text = text.replace(old, new)
        if blocks:
            yield f"{path.name}: {', '.join(blocks)}", partial(path.write_text, text)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.documents", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something is stale")
    parser.add_argument("--results", type=Path, help="pages and figures of this directory alone")
    options = parser.parse_args()
    found = list(stale(options.results or RESULTS, [] if options.results else documents()))
    for name, write in found:
        print(f"stale: {name}" if options.check else f"written: {name}")
        if not options.check:
            write()
    if options.check and found:
        sys.exit("run `python -m benchmarks.documents`")


if __name__ == "__main__":
    main()
