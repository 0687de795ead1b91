"""Stage 1: sort each chunk, nothing moves. Tasks ``sort-local``, one a chunk.

Chunks that are said to be sorted already are looked through instead. Tasks ``sort-check``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask._task_spec import Task, TaskRef
from dask.typing import Key

from ..chunk import complete, ops_for
from ..chunk.run import Run
from ..order import Order
from .input_checks import checked_chunk


def check_blocks(block: Any, values: Sequence[Any], order: Order, what: str = "a chunk of the input") -> None:
    """Refuse keys of another dtype than the order's, and masked keys and companions."""
    checked_chunk(block, order.dtype.base, what)
    for number, value in enumerate(values):
        checked_chunk(value, None, f"a chunk of values {number}")


def sort_chunk(block: Any, *values: Any, order: Order, positions: bool, chunk: int) -> Run:
    """Task: sort one chunk."""
    check_blocks(block, values, order, f"chunk {chunk} of the input")
    run: Run = ops_for(block).local_sort(block, values, order, positions=positions)
    complete(run.keys)
    return run


def local_sorts(token: str, order: Order, sources: Sequence[Sequence[Key]], *, positions: bool) -> dict[Key, Task]:
    """Graph of the stage.

    Parameters
    ----------
    token : str
    order : Order
    sources : sequence of sequences of keys, shape (num_chunks, 1 + num_values)
        The chunks of the keys and of each companion.
    positions : bool
        Whether the keys' positions travel too.

    Returns
    -------
    dict of key to Task
        Keys ``("sort-local-" + token, chunk)``, each a `Run`.
    """
    tasks = (
        Task(
            (f"sort-local-{token}", chunk),
            sort_chunk,
            *map(TaskRef, source),
            order=order,
            positions=positions,
            chunk=chunk,
        )
        for chunk, source in enumerate(sources)
    )
    return {task.key: task for task in tasks}


def check_chunk(block: Any, *values: Any, order: Order, place: tuple[int, int]) -> Run:
    """Task: a chunk that is sorted already, once it is found to be so."""
    run = look_through(block, *values, order=order, place=place)
    complete(run.keys)
    return run


def look_through(block: Any, *values: Any, order: Order, place: tuple[int, int]) -> Run:
    """As `check_chunk`, for a task that does more."""
    check_blocks(block, values, order, f"chunk {place[1]} of array {place[0]}")
    ops = ops_for(block)
    ops.check_lengths(block, values)
    keys = ops.encode(block, order)
    fall = ops.first_fall(keys, order)
    if fall is not None:
        raise ValueError(
            f"chunk {place[1]} of array {place[0]} is not sorted: element {fall} comes before element {fall - 1}; "
            "sort the array first, or give the order in which it is sorted"
        )
    return Run(keys, values)


def source_places(arrays: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Array and number in it of each chunk, from the numbers of the arrays and of their chunks."""
    return [(number, chunk) for number, chunks in arrays for chunk in range(chunks)]


def sorted_chunks(
    token: str, order: Order, sources: Sequence[Sequence[Key]], arrays: Sequence[tuple[int, int]]
) -> dict[Key, Task]:
    """Graph of the stage for chunks that are sorted already.

    Parameters
    ----------
    token, order, sources
        As for `local_sorts`.
    arrays : sequence of (number, chunks)
        Which of the user's arrays the chunks come from, for what is said of those that are not sorted.

    Returns
    -------
    dict of key to Task
        Keys ``("sort-check-" + token, chunk)``, each a `Run`.
    """
    places = source_places(arrays)
    tasks = (
        Task((f"sort-check-{token}", chunk), check_chunk, *map(TaskRef, source), order=order, place=place)
        for chunk, (source, place) in enumerate(zip(sources, places, strict=True))
    )
    return {task.key: task for task in tasks}
