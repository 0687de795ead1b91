"""Keep results of distinct keys in runs on workers: no task's result is held while others are made.

Import this module only where a client of distributed is in use: it imports distributed.
"""

from __future__ import annotations

from typing import Any

from dask.typing import Key

from ...chunk.run import Run
from .._dask import List, Task
from ..positions.kept_positions import keep_rows
from ..runs.keep_and_take import check_listed, keep, take_run
from ..runs.plugins import ListTask, RunTask
from ..runs.store import Handle
from ..tasks import Tasks
from .local import spread
from .number import Edge, Numbering, Scan, edge_of, number_chunk, scan_edges


def number_kept(tasks: Tasks, numbering: Numbering) -> None:
    """Add the tasks from the sorted chunks, which are kept, to the results of each."""
    edges = [
        tasks.add("unique-edges", chunk, keep_sorted, block, numbering, kind=RunTask)
        for chunk, block in enumerate(numbering.blocks)
    ]
    scan = tasks.add("unique-scan", 0, scan_kept, List(*edges), numbering.equal_nan, kind=ListTask)
    for chunk in range(len(edges)):
        tasks.add("unique-number", chunk, number_again, scan, chunk, numbering)


def keep_sorted(arrays: list[Any], numbering: Numbering) -> tuple[Handle, Edge | None]:
    """Task: keep a sorted chunk, and tell its ends."""
    edge = edge_of(arrays, numbering)
    (handle,) = keep([Run(arrays[0], tuple(arrays[1:]))])
    return handle, edge


def scan_kept(kept: list[tuple[Handle, Edge | None]], equal_nan: bool) -> tuple[list[Handle], Scan]:
    """Task: where the sorted chunks are, and the offset of each one's groups."""
    handles, edges = map(list, zip(*kept, strict=True))
    check_listed(handles)
    return handles, scan_edges(edges, equal_nan)


def number_again(kept: tuple[list[Handle], Scan], chunk: int, numbering: Numbering) -> tuple[Any, ...]:
    """Task: the results of one sorted chunk, which is kept."""
    handles, scan = kept
    return number_chunk(list(take_run(handles[chunk]).arrays), scan, chunk, numbering)


def keep_of_keys(tasks: Tasks, key: Key, found: Task) -> None:
    """Add the task that keeps what is known of each key of a chunk."""
    tasks.put(key, keep_rows, found, kind=RunTask)


def spread_kept(known: Any, *of_keys: Handle) -> Any:
    """Task: as `spread`, of arrays that are kept."""
    return spread(known, *(take_run(handle).values[0] for handle in of_keys))
