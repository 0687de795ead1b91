"""Numbers and tables as Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def number(value: float | None, digits: int = 3) -> str:
    """A number with a few significant digits and no exponent; empty for None."""
    if value is None:
        return ""
    if abs(value) >= 10**digits:
        return f"{float(f'{value:.{digits}g}'):,.0f}"
    if float(f"{value:.{digits}g}") == 0:
        return "0"
    return f"{value:#.{digits}g}".rstrip(".") if abs(value) >= 1e-4 else f"{value:.{digits}g}"


def ratio(value: float | None) -> str:
    """A ratio of times: two decimals below 10, one below 20."""
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 20 else f"{value:.0f}"


def together(values: Iterable[float | None], show: Any = number, unit: str = "") -> str:
    """The values of one cell, separated by slashes, or one if all are shown alike; empty if a value is missing."""
    texts = [show(value) for value in values]
    shown = texts[:1] if len(set(texts)) == 1 else texts
    return f"{' / '.join(shown)} {unit}".rstrip() if all(texts) else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1) -> str:
    """A Markdown table whose first `text` columns are text and whose other columns are numbers."""
    align = ["---"] * text + ["--:"] * (len(head) - text)
    return "\n".join([f"| {' | '.join(head)} |", f"|{'|'.join(align)}|", *(f"| {' | '.join(row)} |" for row in rows)])


def link(name: str, path: Path, document: Path) -> str:
    """A link of a document to a file, by the name of what the file shows."""
    return f"[`{name}`]({os.path.relpath(path, document.parent)})"


def short_commit(commit: str) -> str:
    """The first digits of a commit. A plus means that files differed from the commit."""
    return commit[:12] + "+" * commit[12:].endswith("+")
