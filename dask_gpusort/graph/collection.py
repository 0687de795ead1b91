"""From stages to Dask arrays: one recipe for the tasks serves both of Dask's array classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import dask.array as da
from dask._task_spec import Task
from dask.highlevelgraph import HighLevelGraph, Layer
from dask.tokenize import tokenize
from dask.typing import Key

from ..plan import Plan
from .cuts import find_cuts
from .exchange import exchange
from .finish import Finish, output_chunks
from .local_sort import local_sorts

Chunks = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Recipe:
    """What the tasks of one sort are made from.

    Attributes
    ----------
    plan : Plan
    with_keys, with_positions : bool
        What the finished groups hold, beside the companions.
    names : tuple of str
        The input arrays, keys first; all chunked alike along their first dimension, and not along others.
    extra_dims : tuple of int
        Dimensions of each input behind the first.
    """

    plan: Plan
    with_keys: bool
    with_positions: bool
    names: tuple[str, ...]
    extra_dims: tuple[int, ...]

    @cached_property
    def token(self) -> str:
        return tokenize(self.plan, self.with_keys, self.with_positions, self.names)

    def stages(self) -> dict[Key, Task]:
        """Tasks from the input chunks to the finished groups."""
        plan, token = self.plan, self.token
        sources = [
            [(name, chunk) + (0,) * extra for name, extra in zip(self.names, self.extra_dims, strict=True)]
            for chunk in range(len(plan.sizes))
        ]
        sorts = local_sorts(token, plan.order, sources, positions=self.with_positions)
        runs = list(sorts)
        counts, cuts = find_cuts(token, plan, runs)
        finish = Finish(plan.order, self.with_keys, self.with_positions)
        return {**sorts, **counts, **exchange(token, plan, runs, cuts, finish)}

    def output(self, name: str, which: int, extra_dims: int) -> dict[Key, Task]:
        """Tasks from the finished groups to the chunks of one output array."""
        groups = [(f"sort-merge-{self.token}", group) for group in range(len(self.plan.groups))]
        cuts = (f"sort-scan-{self.token}", self.plan.rounds)
        return output_chunks(name, self.plan, groups, cuts, which, extra_dims)


@dataclass(frozen=True)
class Output:
    """One output array: an empty array of its type and dtype, and its chunks behind the sorted dimension."""

    meta: Any
    trailing: Chunks = ()


class StageLayer(Layer):
    """A layer whose tasks are made when they are first asked for."""

    def __init__(self, build: Callable[[], dict[Key, Task]]):
        super().__init__()
        self.build = build

    @cached_property
    def _tasks(self) -> dict[Key, Task]:
        return self.build()

    def is_materialized(self) -> bool:
        return "_tasks" in self.__dict__

    def get_output_keys(self) -> Set[Key]:
        return self._tasks.keys()

    def __getitem__(self, key: Key) -> Task:
        return self._tasks[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


def new_arrays(recipe: Recipe, inputs: Sequence[Any], outputs: Sequence[Output], prefix: str) -> tuple[Any, ...]:
    """The output arrays of one sort.

    Parameters
    ----------
    recipe : Recipe
    inputs : sequence of dask arrays
        Those that the recipe names.
    outputs : sequence of Output
        In the order of the finished groups' arrays.
    prefix : str
        Of the outputs' names.

    Returns
    -------
    tuple of dask arrays
    """
    make = _new_expression if da.array_expr_enabled() else _new_graph
    return tuple(make(recipe, inputs, output, which, prefix) for which, output in enumerate(outputs))


def _new_graph(recipe: Recipe, inputs: Sequence[Any], output: Output, which: int, prefix: str) -> Any:
    stages = f"sort-stages-{recipe.token}"
    name = f"{prefix}-{tokenize(recipe.token, which)}"
    base = HighLevelGraph.from_collections(stages, StageLayer(recipe.stages), inputs)
    layer = StageLayer(partial(recipe.output, name, which, len(output.trailing)))
    graph = HighLevelGraph({**base.layers, name: layer}, {**base.dependencies, name: {stages}})
    return da.Array(graph, name, (recipe.plan.chunks, *output.trailing), meta=output.meta)


def _new_expression(recipe: Recipe, inputs: Sequence[Any], output: Output, which: int, prefix: str) -> Any:
    # Array query planning is decided once, when dask.array is imported; its classes exist in newer versions alone.
    from .expression import SortedExpr, new_collection

    return new_collection(SortedExpr(recipe, output, which, prefix, *(array.expr for array in inputs)))


def rename(recipe: Recipe, names: Sequence[str]) -> Recipe:
    """The same recipe for inputs of other names, as the optimiser of query planning gives them."""
    return replace(recipe, names=tuple(names))
