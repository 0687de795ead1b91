"""Two jobs measured in turns, as a row: the first is ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .measure import Effort, in_turns, seconds_of, times_faster
from .report import Row


def row_of_two(
    effort: Effort, section: str, what: str, asked: str, least: float | None, jobs: Mapping[str, tuple[Any, ...]]
) -> Row:
    """Measure two jobs in turns.

    Parameters
    ----------
    effort : Effort
    section, what, asked : str
        As in the row.
    least : float or None
        How many times faster than the second job the first has to be, None if nothing is asked.
    jobs : mapping of str to tuple
        As `measure.in_turns` takes them.
    """
    found = in_turns(effort, jobs)
    ours, theirs = found.values()
    ratio = times_faster(ours, theirs)
    return Row(
        section,
        what,
        asked,
        1000 * seconds_of(ours),
        "ms",
        ratio,
        f"{list(found)[1]}, {1000 * seconds_of(theirs):,.3g} ms",
        None if least is None else ratio >= least,
        {name: [1000 * sample.seconds for sample in samples] for name, samples in found.items()},
    )
