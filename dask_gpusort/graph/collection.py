"""Dask arrays from a recipe, of the class that Dask uses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import dask.array as da
from dask.blockwise import Blockwise
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer
from dask.tokenize import tokenize
from dask.typing import Key
from dask.utils import key_split
from tlz import merge

from ._dask import Alias, GraphNode, Task, TaskRef, new_collection
from .copies import ClonedLayer
from .runtime import held_chunks
from .tasks import ArrayRecipe, Chunks, output_name

#: Most pairs of a first and a last task with which Dask orders a graph as it is. A sort of 250, 500 and 1,000 chunks
#: takes it 56, 216 and 760 ms so, and 18, 32 and 61 with one last task, with which Dask does not fuse those behind it.
MOST_ORDERED = 1 << 16


#: Makes the tasks of a layer, and those of one output array, by its name.
Build: TypeAlias = Callable[[], Mapping[Key, Task]]
BuildOutput: TypeAlias = Callable[[str], Mapping[Key, Task]]


@dataclass(frozen=True)
class Output:
    """One output array: an empty array of its type and dtype, and its chunks."""

    meta: Any
    chunks: Chunks


class StageLayer(ClonedLayer):
    """A layer that makes its tasks on first use."""

    def __init__(self, build: Build):
        super().__init__()
        self.build = build

    @cached_property
    def _tasks(self) -> Mapping[Key, Task]:
        return self.build()

    def get_output_keys(self) -> Set[Key]:
        return self._tasks.keys()


def no_result(*chunks: Any) -> None:
    """Task: nothing, behind all output chunks (see `OutputLayer`)."""


class OutputLayer(StageLayer):
    """Make the layer of one output array."""

    # Where every last task of a graph needs every first one, Dask orders it in a time, and in memory, that grow with
    # the product of their numbers: 5,000 of each take 6 s and 2.6 GB. Where that is much, one task is put behind all
    # output chunks of a culled graph, to be its only last one (0.3 s for 10,000 of each). Nobody asks for its result,
    # so no scheduler runs it.
    #
    # If all chunks are computed, the tasks are those of `whole`, if it is given: fewer of them.

    def __init__(self, build: BuildOutput, name: str, first_tasks: int, whole: BuildOutput | None = None):
        super().__init__(partial(build, name))
        self.build_output = build
        self.name = name
        self.first_tasks = first_tasks
        self.whole = whole

    def cull(self, keys: set[Key], all_hlg_keys: Collection[Key]) -> tuple[Layer, Mapping[Key, set[Key]]]:
        if self.whole is not None and keys.issuperset(self._chunks_in(self._tasks)):
            return OutputLayer(self.whole, self.name, self.first_tasks).cull(keys, all_hlg_keys)
        layer, dependencies = super().cull(keys, all_hlg_keys)
        chunks = self._chunks_in(layer)
        if self.first_tasks * len(chunks) <= MOST_ORDERED:
            return layer, dependencies
        last = Task((f"sort-end-{self.name}", 0), no_result, *map(TaskRef, chunks))
        ended = MaterializedLayer({**layer, last.key: last}, annotations=layer.annotations)
        return ended, {**dependencies, last.key: set()}

    def _chunks_in(self, keys: Iterable[Key]) -> list[Key]:
        return [key for key in keys if isinstance(key, tuple) and key[0] == self.name]


def new_arrays(recipe: ArrayRecipe, inputs: Sequence[Any], outputs: Sequence[Output], prefix: str) -> tuple[Any, ...]:
    """Make the output arrays of one recipe; `outputs` are in the order of the finished groups' arrays."""
    if not da.array_expr_enabled():
        return _new_graphs(recipe, inputs, outputs, prefix)
    return tuple(
        new_collection(SortedExpr(recipe, output, which, prefix, *(array.expr for array in inputs)))
        for which, output in enumerate(outputs)
    )


def _new_graphs(recipe: ArrayRecipe, inputs: Sequence[Any], outputs: Sequence[Output], prefix: str) -> tuple[Any, ...]:
    names = [output_name(prefix, recipe.token, which, output.chunks) for which, output in enumerate(outputs)]
    placed: list[dict[str, Any]] = [{"which": which, "chunks": output.chunks} for which, output in enumerate(outputs)]
    cuts: list[BuildOutput] = [partial(recipe.output, **one) for one in placed]
    wholes = [recipe.whole_output and partial(recipe.whole_output, **one) for one in placed]
    build: Build = recipe.stages
    first_tasks = recipe.first_tasks
    if recipe.takes_held_chunks:
        held = {array.name: held_chunks(array) for array in inputs}
        inputs = [array for array in inputs if not held[array.name]]
        build = partial(recipe.stages, merge(held.values()))
        first_tasks = sum(array.npartitions for array in inputs) or first_tasks
    if len(outputs) == 1:
        # Dask optimises one layer in less time than two.
        whole = None if wholes[0] is None else partial(_both, build, wholes[0])
        layer = OutputLayer(partial(_both, build, cuts[0]), names[0], first_tasks, whole)
        graphs = [HighLevelGraph.from_collections(names[0], layer, inputs)]
    else:
        stages = f"sort-stages-{recipe.token}"
        base = HighLevelGraph.from_collections(stages, StageLayer(build), inputs)
        graphs = [
            HighLevelGraph(
                {**base.layers, name: OutputLayer(cut, name, first_tasks, whole)}, {**base.dependencies, name: {stages}}
            )
            for name, cut, whole in zip(names, cuts, wholes, strict=True)
        ]
    found = zip(graphs, names, outputs, strict=True)
    return tuple(da.Array(graph, name, output.chunks, meta=output.meta) for graph, name, output in found)


def _both(stages: Build, output: BuildOutput, name: str) -> Mapping[Key, Any]:
    """All tasks of one array; where each stage is one output chunk's, both are one task.

    Dask would fuse them to a task of another name, and an alias, which a scheduler takes one more step for.
    """
    first, last = stages(), output(name)
    needed = [key for task in last.values() for key in task.dependencies] if len(first) == len(last) else []
    own = len(needed) == len(last) and first.keys() == set(needed)
    if not own or any(not task.dependencies.isdisjoint(first) for task in first.values()):
        return {**first, **last}
    return {
        key: Task.fuse(first[stage], task, key=key) for (key, task), stage in zip(last.items(), needed, strict=True)
    }


def named(array: Any, function: str) -> Any:
    """The array that a function made, with its name; as it is if its last layer, or expression, gives no way to it."""
    if key_split(array.name) == function:
        return array
    if da.array_expr_enabled():
        # Classes have one of these parameters, or none.
        return new_collection(array.expr.substitute_parameters({"prefix": function, "token": function}))
    # The present name tells the chunks from all others.
    old, name, graph = array.name, f"{function}-{tokenize(array.name)}", array.dask
    layers, dependencies = dict(graph.layers), dict(graph.dependencies)
    layer = layers.pop(old)
    if isinstance(layer, OutputLayer):
        layers[name] = OutputLayer(layer.build_output, name, layer.first_tasks, layer.whole)
    elif type(layer) is Blockwise:
        task = layer.task.substitute({}, key=name)
        read = layer.indices, layer.numblocks, layer.concatenate, layer.new_axes, layer.output_blocks
        layers[name] = Blockwise(name, layer.output_indices, task, *read, io_deps=layer.io_deps)
    elif type(layer) is MaterializedLayer:
        layers[name] = MaterializedLayer(dict(_renamed(*one, old, name) for one in layer.items()))
    else:
        return array
    dependencies[name] = dependencies.pop(old)
    return da.Array(HighLevelGraph(layers, dependencies), name, array.chunks, meta=array._meta)


def _renamed(key: Any, node: Any, old: str, name: str) -> tuple[Key, Any]:
    """A task with its key, which contains another name of the array if it is an output chunk's."""
    if not isinstance(key, tuple) or key[0] != old:
        return key, node
    key = (name, *key[1:])
    if isinstance(node, Alias):
        return key, Alias(key, node.target)
    return key, node.substitute({}, key=key) if isinstance(node, GraphNode) else node


if da.array_expr_enabled():
    from ._dask import ArrayExpr

    class SortedExpr(ArrayExpr):
        """One output array of a sort; the operands after the parameters are the input arrays."""

        _parameters = ["recipe", "output", "which", "prefix"]  # noqa: RUF012 - the base class declares it so

        @property
        def args(self) -> list[Any]:
            return self.operands[len(self._parameters) :]

        @cached_property
        def _recipe(self) -> ArrayRecipe:
            """The recipe with the inputs' present names: the optimiser renames them."""
            recipe: ArrayRecipe = self.operand("recipe")
            return replace(recipe, names=tuple(array._name for array in self.args))

        @cached_property
        def _name(self) -> str:
            return output_name(self.operand("prefix"), self._recipe.token, self.operand("which"), self.chunks)

        @cached_property
        def _meta(self) -> Any:
            return self.operand("output").meta

        @cached_property
        def chunks(self) -> tuple[tuple[float, ...], ...]:
            found: tuple[tuple[float, ...], ...] = self.operand("output").chunks
            return found

        def _layer(self) -> dict[Any, Any]:
            output = self._recipe.output(self._name, self.operand("which"), self.chunks)
            return {**self._recipe.stages(), **output}
