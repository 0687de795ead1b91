"""What the package takes of Dask that Dask does not promise to keep, in one place.

Everything here may be moved or renamed by a release; nothing else in the package imports it from Dask. `graph` imports
and tries it first, so that a version that does not fit is told at once, and not by an AttributeError of some task.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

from dask._collections import new_collection
from dask._task_spec import Alias, GraphNode, List, Task, TaskRef, _extra_args, convert_legacy_task
from dask.array import Array, array_expr_enabled
from dask.array.chunk_types import is_valid_chunk_type
from dask.array.core import normalize_chunks, slices_from_chunks
from dask.base import clone_key, get_scheduler
from dask.core import flatten
from dask.layers import ArrayBlockwiseDep
from dask.local import get_sync

if array_expr_enabled():
    from dask.array._array_expr._collection import from_graph
    from dask.array._array_expr._expr import ArrayExpr
else:
    from_graph = None  # type: ignore[assignment]

__all__ = [
    "Alias",
    "ArrayBlockwiseDep",
    "ArrayExpr",
    "GraphNode",
    "List",
    "MarkedTask",
    "Task",
    "TaskRef",
    "array_from_graph",
    "clone_key",
    "convert_legacy_task",
    "extra_arguments",
    "flatten",
    "get_scheduler",
    "get_sync",
    "is_valid_chunk_type",
    "new_collection",
    "normalize_chunks",
    "slices_from_chunks",
    "unwrap_marked",
]


def array_from_graph(array: Any, from_graph: Any = from_graph) -> Any:
    """An array with the graph and chunks of another one, by `from_graph` of a package of expressions if any."""
    graph = array.__dask_graph__()
    if from_graph is None:
        return Array(dict(graph), array.name, array.chunks, meta=array._meta)
    return from_graph(graph, array._meta, array.chunks, list(flatten(array.__dask_keys__())), array.name)


def _add(numbers: Sequence[int], more: int) -> int:
    return sum(numbers) + more


class MarkedTask(Task):
    """Mark a task that a plugin of the scheduler knows by its class, so that Dask does not fuse it with others."""

    __slots__ = ("mark",)

    def __init__(self, key: Any, func: Any, /, *args: Any, mark: Any = None, **kwargs: Any):
        self.mark = mark
        super().__init__(key, func, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r})"

    @property
    def block_fusion(self) -> bool:
        return True


def unwrap_marked(states: Iterable[Any]) -> None:
    """Mark tasks that hide a marked one: `dask.delayed` renames all keys of a graph so, and may fuse what it made."""
    for state in states:
        task = state.run_spec
        if type(task) is Task and (hidden := _hidden(task)) is not None:
            state.run_spec = type(hidden)(state.key, task.func, *task.args, **task.kwargs, mark=hidden.mark)


def _hidden(task: Task) -> MarkedTask | None:
    """The marked task that another one returns, alone or as the last of those that are fused."""
    if len(task.args) > 1 and isinstance(task.args[0], dict):
        task = task.args[0].get(task.args[1], task)
    args = task.args if type(task) is Task else ()
    return args[0] if len(args) == 1 and isinstance(args[0], MarkedTask) else None


def check_tasks() -> None:
    """Refuse tasks that do not refer to others, contain others, are fused, renamed or pickled as is expected here."""
    task = Task("first", _add, List(TaskRef("given"), 2), 3)
    marked = MarkedTask(("second", 0), _add, List(task.ref(), TaskRef("other")), Task(None, _add, List(4), 0), mark=7)
    fused = Task.fuse(task, marked, key="fused")
    copies = pickle.loads(pickle.dumps([task, marked, fused]))
    found = [
        [copy.key for copy in copies],
        [copy({"given": 1, "first": 6, "other": 5}) for copy in copies],
        [sorted(copy.dependencies) for copy in (*copies, task.substitute({"given": "renamed"}))],
        (type(copies[1]), copies[1].mark, copies[1].block_fusion),
    ]
    wanted = [
        ["first", ("second", 0), "fused"],
        [6, 15, 15],
        [["given"], ["first", "other"], ["given", "other"], ["renamed"]],
        (MarkedTask, 7, True),
    ]
    if found != wanted:
        raise TypeError(f"tasks give {found}, not {wanted}")


def extra_arguments(task: Task) -> dict[str, Any]:
    """What a task has besides its key, its function and the function's arguments; subclasses of `Task` have more."""
    return {name: getattr(task, name) for name in _extra_args(type(task)) - {"key", "func"}}  # type: ignore[arg-type]
