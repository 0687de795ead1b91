"""Plans as text, one decision a line."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dask.utils import format_bytes

#: Columns of the names of decisions, before their text.
NAME_COLUMNS = 9


def format_lines(decisions: Mapping[str, str]) -> str:
    """Named decisions, a line each; empty ones are left out."""
    return "\n".join(f"{name:<{NAME_COLUMNS}} {text}" for name, text in decisions.items() if text)


def format_number(number: float) -> str:
    """A number that may be unknown (nan)."""
    return "an unknown number" if math.isnan(number) else f"{int(number):,}"


def format_chunks(count: int) -> str:
    """A number of chunks."""
    return f"{count:,} chunk{'' if count == 1 else 's'}"


def format_size(number: float) -> str:
    """Bytes that may be unknown: nan, or inf for no known limit."""
    return format_bytes(int(number)) if math.isfinite(number) else "an unknown size"


def format_tasks(tasks: int, chunks: int) -> str:
    """A number of tasks, and how many these are for each chunk."""
    return f"{tasks:,}, {tasks / max(chunks, 1):.3g} a chunk"
