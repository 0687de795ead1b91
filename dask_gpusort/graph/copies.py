r"""Copies of the tasks that make an array, for sources that are read again, and for users who clone our results.

::

    chunks made by tasks   ('x-1', 0)      ('x-1', 1)        data in the graph   'handle-1'
                               |                |                                     |
    first pass               draw             draw                                    |
                                '---. scan .---'                                      |
                                       |                                              |
                                      gate ------------------------------------.      |
                                   /        \                                    \     |
    copies                 ('x-2', 0)      ('x-2', 1)                        'handle-2', passed on

Dask keeps a chunk until all tasks that read it have run. So every key of the source gets another name, in every task
that refers to it: whatever the second pass reads is made for it. Tasks without dependencies wait for the gate. Data are
passed on behind the gate, not copied, and so what reads them waits too.

`dask.graph_manipulation.bind` renames no reference inside a `Task` (2026.8), so a slice of the copy reads the chunks of
the first pass, and Dask keeps all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import Any, TypeGuard

import dask.array as da
from dask.blockwise import Blockwise
from dask.graph_manipulation import checkpoint
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer
from dask.tokenize import tokenize
from dask.typing import Key

from ._dask import Alias, GraphNode, Task, TaskRef, clone_key, convert_legacy_task, extra_arguments


def read_again(array: Any, first: Any) -> Any:
    """Copy all tasks that make an array, to run after another array, whose graph has that of `array`, is computed."""
    # The same `array` gets the same name, so that several selections share the second pass. No other array gets copies
    # of these names: one that depends on a selection could not have what the selection waits for.
    gate, source, seed = checkpoint(first), array.dask, array.name
    layers, dependencies = dict(gate.dask.layers), dict(gate.dask.dependencies)
    waiting, seen = [array.name], {array.name}
    while waiting:
        name = waiting.pop()
        inputs, own = source.dependencies[name], renamed(name, seed)
        copied = _copy_layer(source.layers[name], [source.layers[other] for other in inputs], seed, gate.key)
        layers[own], dependencies[own] = copied, {gate.key, *(renamed(other, seed) for other in inputs)}
        if isinstance(copied, LayerCopy):  # of a layer that may have data
            dependencies[own].add(name)
        waiting += inputs - seen
        seen |= inputs
    return da.Array(HighLevelGraph(layers, dependencies), renamed(array.name, seed), array.chunks, meta=array._meta)


@lru_cache(maxsize=1 << 16)
def _renamed(name: Any, seed: Hashable) -> Any:
    return clone_key(name, seed) if isinstance(name, str) else f"copy-{tokenize(name, seed)}"


def renamed(key: Any, seed: Hashable) -> Any:
    """The name of the copy of a key, or of a layer."""
    if isinstance(key, tuple) and key and isinstance(key[0], str):
        return (_renamed(key[0], seed), *key[1:])
    return _renamed(key, seed)


def _copy_layer(layer: Layer, others: Sequence[Layer], seed: Hashable, gate: str) -> Layer:
    """The copy of a layer that refers to others. That of a `Blockwise` layer is one, which Dask fuses as it does it."""
    if not isinstance(layer, Blockwise):
        return LayerCopy(layer, partial(_output_keys, others), seed, gate)
    read = layer.numblocks.keys() - layer.io_deps
    inputs = [(name, *block) for name in read for block in product(*map(range, layer.numblocks[name]))]
    whole = {getattr(name, "key", name) for name, index in layer.indices if index is None and _is_key(name)}
    keys = {*layer.get_output_keys(), *inputs, *(whole & _output_keys(others) if whole else ())}
    copied, _ = layer.clone(keys, seed, gate)
    copied.collection_annotations = layer.collection_annotations
    return copied


def _is_key(name: Any) -> bool:
    return isinstance(name, (str, tuple, TaskRef)) and isinstance(getattr(name, "key", name), Hashable)


def _output_keys(layers: Sequence[Layer]) -> set[Key]:
    return {key for layer in layers for key in layer.get_output_keys()}


class ClonedLayer(Layer):
    """A layer of `_tasks`, made on first use, whose clones are right.

    Dask's own clone renames no reference inside a `Task`.
    """

    @cached_property
    def _tasks(self) -> Mapping[Key, Any]:
        raise NotImplementedError

    def is_materialized(self) -> bool:
        return "_tasks" in self.__dict__

    def __getitem__(self, key: Key) -> Any:
        return self._tasks[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def clone(self, keys: set[Key], seed: Hashable, bind_to: Key | None = None) -> tuple[Layer, bool]:
        return LayerCopy(self, partial(frozenset, keys), seed, bind_to), bind_to is not None  # type: ignore[arg-type]


class LayerCopy(ClonedLayer):
    """Copy a layer on first use; tasks without copied dependencies wait for the gate, if any."""

    # `outside` gives the keys of other layers that have copies.

    def __init__(self, layer: Layer, outside: Callable[[], Set[Key]], seed: Hashable, gate: str | None):
        super().__init__(collection_annotations=layer.collection_annotations)
        self.annotations = layer.annotations  # and not those of the context
        self.layer, self.outside, self.seed, self.gate = layer, outside, seed, gate

    @cached_property
    def _tasks(self) -> dict[Key, GraphNode]:
        return self._copy(self.layer)

    def get_output_keys(self) -> Set[Key]:
        return {renamed(key, self.seed) for key in self.layer.get_output_keys()}

    def cull(self, keys: set[Key], all_hlg_keys: Collection[Key]) -> tuple[Layer, Mapping[Key, set[Key]]]:
        wanted = {key for key in self.layer.get_output_keys() if renamed(key, self.seed) in keys}
        culled, _ = self.layer.cull(wanted, self._known)
        tasks = self._copy(culled)
        return MaterializedLayer(tasks, annotations=self.annotations), {
            key: set(task.dependencies) for key, task in tasks.items()
        }

    @property
    def _known(self) -> set[Key]:
        return {*self.layer.get_output_keys(), *self.outside()}

    def _copy(self, layer: Layer) -> dict[Key, GraphNode]:
        known = self._known | layer.keys()
        nodes = {key: convert_legacy_task(key, value, known) for key, value in layer.items()}
        names = {name: renamed(name, self.seed) for name in map(_name_of_exchange, nodes.values()) if name}
        copier = Copier(known, self.seed, self.gate, names)
        copied = (copier.copy(key, node) for key, node in nodes.items())
        return {task.key: task for task in copied}


@dataclass(frozen=True)
class Copier:
    """Copy the tasks of one layer."""

    known: set[Key]  # those that have copies
    seed: Hashable
    gate: str | None
    #: Names of exchanges in the layer, and of their copies. Tasks name an exchange in their arguments, and a cluster
    #: would take two that share a name for one.
    exchanges: Mapping[str, str]

    def copy(self, key: Key, node: Any) -> GraphNode:
        """The copy of a task, or of data (see the module)."""
        own = self.name(key)
        if isinstance(node, Alias) and node.target in self.known - {key}:
            return Alias(own, self.name(node.target))
        if not isinstance(node, Task):
            return Task(own, passed_on, TaskRef(key), *self._awaited)
        names = {other: self.name(other) for other in node.dependencies & self.known}
        found = node.substitute(names, key=own)
        if self.exchanges:
            found = self._in_own_exchange(found)
        return found if names or self.gate is None else _changed(found, wait, *self._awaited, found.func, *found.args)

    def name(self, key: Key) -> Any:
        """The name of the copy of a key."""
        return renamed(key, self.seed)

    @property
    def _awaited(self) -> list[TaskRef]:
        return [] if self.gate is None else [TaskRef(self.gate)]

    def _in_own_exchange(self, task: Task) -> Task:
        arguments = map(self._renamed_argument, task.args)
        extra = {name: self._renamed_argument(value) for name, value in extra_arguments(task).items()}
        if instead := getattr(extra.get("mark"), "instead", None):
            extra["mark"] = replace(extra["mark"], instead=self.copy(instead.key, instead))
        return _changed(task, task.func, *arguments, **extra)

    def _renamed_argument(self, value: Any) -> Any:
        """An argument with other names of exchanges: a name, a `GangSpec`, or the tasks that are fused to one."""
        if isinstance(value, str):
            return self.exchanges.get(value, value)
        if isinstance(value, dict):
            return {key: self._in_own_exchange(one) if type(one) is Task else one for key, one in value.items()}
        return replace(value, token=self._renamed_argument(value.token)) if _names_exchange(value) else value


def _names_exchange(value: Any) -> TypeGuard[Any]:
    """Whether a value is the `GangSpec` of a gang's tasks."""
    return is_dataclass(value) and not isinstance(value, type) and isinstance(getattr(value, "token", None), str)


def _name_of_exchange(node: Any) -> str | None:
    """The name of the exchange that a task describes to the scheduler, if it does."""
    mark = getattr(node, "mark", None)
    return str(mark.token) if _names_exchange(mark) else None


def _changed(task: Task, function: Callable[..., Any], *arguments: Any, **extra: Any) -> Task:
    """A task of the same class with another function."""
    return type(task)(task.key, function, *arguments, **task.kwargs, **{**extra_arguments(task), **extra})


def passed_on(value: Any, _: None = None) -> Any:
    """Task: data, after something else was computed."""
    return value


def wait(_: None, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Task: a task without dependencies, after something else was computed."""
    return function(*arguments, **options)
