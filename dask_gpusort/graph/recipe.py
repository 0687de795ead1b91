"""What the tasks of one sort are made from, whichever of Dask's array classes holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dask._task_spec import Task
from dask.tokenize import tokenize
from dask.typing import Key

from ..plan import Plan
from .cuts import find_cuts
from .device_exchange import exchange_slabs, finish_chunks
from .exchange import exchange
from .finish import Finish, output_chunks
from .local_sort import local_sorts, sorted_chunks, source_places

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
    presorted : tuple of (number, chunks)
        If the chunks are sorted already, the user's arrays that they come from; else empty.
    """

    plan: Plan
    with_keys: bool
    with_positions: bool
    names: tuple[str, ...]
    extra_dims: tuple[int, ...]
    presorted: tuple[tuple[int, int], ...] = ()

    @cached_property
    def token(self) -> str:
        return tokenize(self.plan, self.with_keys, self.with_positions, self.names, self.presorted)

    @property
    def finish(self) -> Finish:
        """What finishes a group."""
        return Finish(self.plan.order, self.with_keys, self.with_positions)

    @property
    def direct(self) -> dict[int, int]:
        """Groups that are an output chunk of the only output, and which."""
        return self.plan.whole_chunks if len(self.names) == 1 else {}

    def stages(self) -> dict[Key, Task]:
        """Tasks from the input chunks to the finished groups."""
        plan, token = self.plan, self.token
        sources = [
            [(name, chunk) + (0,) * extra for name, extra in zip(self.names, self.extra_dims, strict=True)]
            for chunk in range(len(plan.sizes))
        ]
        if plan.exchange == "device":
            places = source_places(self.presorted)
            return exchange_slabs(token, plan, sources, self.finish, self.direct, places)
        if self.presorted:
            sorts = sorted_chunks(token, plan.order, sources, self.presorted)
        else:
            sorts = local_sorts(token, plan.order, sources, positions=self.with_positions)
        runs = list(sorts)
        counts, cuts = find_cuts(token, plan, runs)
        return {**sorts, **counts, **exchange(token, plan, runs, cuts, self.finish)}

    def output(self, name: str, which: int, extra_dims: int) -> dict[Key, Task]:
        """Tasks from the finished groups to the chunks of one output array."""
        groups = [(f"sort-merge-{self.token}", group) for group in range(len(self.plan.groups))]
        cuts = (f"sort-scan-{self.token}", self.plan.rounds)
        tasks = output_chunks(name, self.plan, groups, cuts, which, extra_dims)
        keys: dict[int, Key] = {group: (name, chunk) for group, chunk in self.direct.items()}
        return {**tasks, **finish_chunks(keys, self.token, self.plan, self.finish)}


@dataclass(frozen=True)
class Output:
    """One output array: an empty array of its type and dtype, and its chunks behind the sorted dimension."""

    meta: Any
    trailing: Chunks = ()


def rename(recipe: Recipe, names: Sequence[str]) -> Recipe:
    """The same recipe for inputs of other names, as the optimiser of query planning gives them."""
    return replace(recipe, names=tuple(names))
