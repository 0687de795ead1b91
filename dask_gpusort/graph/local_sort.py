"""Stage 1: sort each chunk, nothing moves. Tasks ``sort-local``, one a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask._task_spec import Task, TaskRef
from dask.typing import Key

from ..chunk import complete, ops_for
from ..chunk.run import Run
from ..order import Order


def sort_chunk(block: Any, *values: Any, order: Order, positions: bool) -> Run:
    """Task: sort one chunk."""
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
        Task((f"sort-local-{token}", chunk), sort_chunk, *map(TaskRef, source), order=order, positions=positions)
        for chunk, source in enumerate(sources)
    )
    return {task.key: task for task in tasks}
