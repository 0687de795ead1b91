"""What the package takes of Dask that Dask does not promise to keep, in one place.

Everything here may be moved or renamed by a release; nothing else in the package imports it from Dask. `graph` imports
and tries it first, so that a version that does not fit is told at once, and not by an AttributeError of some task.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from dask._collections import new_collection
from dask._expr import LLGExpr, ProhibitReuse
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
    "hides_otherwise",
    "is_valid_chunk_type",
    "known_tasks",
    "new_collection",
    "normalize_chunks",
    "slices_from_chunks",
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


#: What `known_tasks` has found last for each scheduler, and in which graph.
_found: WeakKeyDictionary[Any, tuple[Any, list[Any]]] = WeakKeyDictionary()


def known_tasks(scheduler: Any, tasks: Sequence[Any]) -> list[Any]:
    """The tasks of a new graph that plugins know by their class: marked ones, those that hide one, and aliases."""
    # A scheduler gives all its plugins the same list, one after another: the first one looks for all of them.
    if _found.get(scheduler, (None,))[0] is not tasks:
        _found[scheduler] = tasks, [state for state in map(scheduler.tasks.get, tasks) if _is_known(state)]
        scheduler.loop.add_callback(_found.pop, scheduler, None)
    return _found[scheduler][1]


def _is_known(state: Any) -> bool:
    """Whether plugins know a task by its class, which one gets that hides a marked one."""
    task = state.run_spec
    if type(task) is not Task:
        return isinstance(task, (MarkedTask, Alias))
    if task.func is ProhibitReuse._identity and isinstance(task.args[0], Alias):  # an alias that is renamed
        state.run_spec = Alias(state.key, task.args[0].target)
        return True
    if not task.args or not isinstance(task.args[0], (Task, dict)) or (hidden := _hidden(task)) is None:
        return False
    state.run_spec = type(hidden)(state.key, task.func, *task.args, **task.kwargs, mark=hidden.mark)
    return True


def _hidden(task: Any, others: Mapping[Any, Any] = MappingProxyType({}), returned: bool = True) -> MarkedTask | None:
    """The marked task that one hides: `dask.delayed` renames all tasks of a graph so, after which Dask may fuse them.

    It may be anywhere if it has a mark; the class of others tells what they return, which is to be returned then.
    """
    if isinstance(task, MarkedTask):
        return task if returned or task.mark is not None else None
    if isinstance(task, Alias):
        return _hidden(others.get(task.target), others, returned)
    if type(task) is not Task or not task.args:
        return None
    inner, *more = task.args
    if not isinstance(inner, dict):
        return None if more else _hidden(inner, others, returned)
    found = (_hidden(inner.get(key), inner, returned and key == more[0]) for key in (*more[:1], *inner))
    return next(filter(None, found), None)


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
        _hidden(fused),
    ]
    wanted = [
        ["first", ("second", 0), "fused"],
        [6, 15, 15],
        [["given"], ["first", "other"], ["given", "other"], ["renamed"]],
        (MarkedTask, 7, True),
        marked,
    ]
    if found != wanted:
        raise TypeError(f"tasks give {found}, not {wanted}")


def hides_otherwise() -> bool:
    """Whether Dask gives the tasks of delayed functions' arguments another form than `known_tasks` looks for."""
    marked = MarkedTask("given", _add, List(1), 2, mark=7)
    renamed = ProhibitReuse(LLGExpr({marked.key: marked})).__dask_graph__()
    return any(_hidden(task) is None for task in renamed.values())


def extra_arguments(task: Task) -> dict[str, Any]:
    """What a task has besides its key, its function and the function's arguments; subclasses of `Task` have more."""
    return {name: getattr(task, name) for name in _extra_args(type(task)) - {"key", "func"}}  # type: ignore[arg-type]
