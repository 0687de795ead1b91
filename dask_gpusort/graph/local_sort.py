"""Stage 1: sort each chunk, nothing moves. Tasks ``sort-local``, one a chunk.

Presorted chunks are checked instead. Tasks ``sort-check``.
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
    """Refuse masked keys and companions, and keys whose dtype is not the order's."""
    checked_chunk(block, order.dtype.base, what)
    for number, value in enumerate(values):
        checked_chunk(value, None, f"a chunk of values {number}")


def sort_chunk(block: Any, *values: Any, order: Order, positions: bool, chunk: int, staged: bool = False) -> Run:
    """Task: sort one chunk."""
    check_blocks(block, values, order, f"chunk {chunk} of the input")
    run: Run = ops_for(block, staged=staged).local_sort(block, values, order, positions=positions)
    complete(run.keys)
    return run


def local_sorts(
    token: str, order: Order, sources: Sequence[Sequence[Key]], *, positions: bool, staged: bool = False
) -> dict[Key, Task]:
    """Graph of the stage.

    Parameters
    ----------
    token : str
    order : Order
    sources : sequence of sequences of keys, shape (num_chunks, 1 + num_values)
        The chunks of the keys and of each companion.
    positions : bool
        Whether the keys' positions travel with them.
    staged : bool
        Whether NumPy chunks are sorted on a GPU.

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
            staged=staged,
        )
        for chunk, source in enumerate(sources)
    )
    return {task.key: task for task in tasks}


def check_chunk(block: Any, *values: Any, order: Order, origin: tuple[int, int]) -> Run:
    """Task: a presorted chunk, checked."""
    run = check_presorted(block, *values, order=order, origin=origin)
    complete(run.keys)
    return run


def check_presorted(block: Any, *values: Any, order: Order, origin: tuple[int, int]) -> Run:
    """A presorted chunk as a run; on a device it may still be in progress.

    Raises
    ------
    ValueError
        If the chunk is not sorted.
    """
    number, chunk = origin
    check_blocks(block, values, order, f"chunk {chunk} of array {number}")
    ops = ops_for(block)
    ops.check_lengths(block, values)
    keys = ops.encode(block, order)
    descent = ops.first_descent(keys, order)
    if descent is not None:
        raise ValueError(
            f"chunk {chunk} of array {number} is not sorted: element {descent} comes before element {descent - 1}; "
            "sort the array first, or give the order in which it is sorted"
        )
    return Run(keys, values)


def chunk_origins(arrays: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The array and the chunk number in it of each chunk, from (number, chunks) of the arrays."""
    return [(number, chunk) for number, chunks in arrays for chunk in range(chunks)]


def sorted_chunks(
    token: str, order: Order, sources: Sequence[Sequence[Key]], arrays: Sequence[tuple[int, int]]
) -> dict[Key, Task]:
    """Graph of the stage for presorted chunks.

    Parameters
    ----------
    token, order, sources
        As for `local_sorts`.
    arrays : sequence of (number, chunks)
        How many chunks come from each of the user's arrays, for error messages.

    Returns
    -------
    dict of key to Task
        Keys ``("sort-check-" + token, chunk)``, each a `Run`.
    """
    origins = chunk_origins(arrays)
    tasks = (
        Task((f"sort-check-{token}", chunk), check_chunk, *map(TaskRef, source), order=order, origin=origin)
        for chunk, (source, origin) in enumerate(zip(sources, origins, strict=True))
    )
    return {task.key: task for task in tasks}
