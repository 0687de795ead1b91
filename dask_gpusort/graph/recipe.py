"""The recipe of one sort: all that its tasks are made from, for either of Dask's array classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dask._task_spec import Task
from dask.tokenize import tokenize
from dask.typing import Key

from ..plan import Plan
from .cuts import find_cuts
from .device_exchange import direct_outputs, exchange_on_devices
from .exchange import exchange
from .finish import Finish, output_chunks
from .local_sort import chunk_origins, local_sorts, sorted_chunks

Chunks = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Recipe:
    """All that the tasks of one sort are made from.

    Attributes
    ----------
    plan : Plan
    with_keys, with_positions : bool
        Whether the finished groups hold keys, and positions, besides the companions.
    names : tuple of str
        Names of the input arrays, keys first; all with the same chunks along the first dimension, and one along others.
    extra_dims : tuple of int
        Dimensions of each input after the first.
    presorted : tuple of (number, chunks)
        For presorted chunks, how many come from each of the user's arrays; else empty.
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
        """The function that finishes a group."""
        return Finish(self.plan.order, self.with_keys, self.with_positions, self.plan.staged)

    @property
    def direct(self) -> dict[int, int]:
        """Groups that are one chunk of the only output, and the number of that chunk."""
        return self.plan.whole_chunks if len(self.names) == 1 else {}

    def stages(self) -> dict[Key, Task]:
        """Tasks from the input chunks to the finished groups."""
        plan, token = self.plan, self.token
        sources = [
            [(name, chunk) + (0,) * extra for name, extra in zip(self.names, self.extra_dims, strict=True)]
            for chunk in range(len(plan.sizes))
        ]
        if plan.exchange == "device":
            origins = chunk_origins(self.presorted)
            return exchange_on_devices(token, plan, sources, self.finish, self.direct, origins)
        if self.presorted:
            sorts = sorted_chunks(token, plan.order, sources, self.presorted)
        else:
            sorts = local_sorts(token, plan.order, sources, positions=self.with_positions, staged=plan.staged)
        runs = list(sorts)
        counts, cuts = find_cuts(token, plan, runs)
        return {**sorts, **counts, **exchange(token, plan, runs, cuts, self.finish)}

    def output(self, name: str, which: int, chunks: Chunks) -> dict[Key, Task]:
        """Tasks from the finished groups to the chunks of one output array."""
        groups = [(f"sort-merge-{self.token}", group) for group in range(len(self.plan.groups))]
        cuts = (f"sort-scan-{self.token}", self.plan.rounds)
        tasks = output_chunks(name, self.plan, groups, cuts, which, len(chunks) - 1)
        keys: dict[int, Key] = {group: (name, chunk) for group, chunk in self.direct.items()}
        return {**tasks, **direct_outputs(keys, self.token, self.plan, self.finish)}


def output_name(prefix: str, token: str, which: int, chunks: Chunks) -> str:
    """Name of one output array of a recipe; several sorts may share their stages and differ in the output's chunks."""
    return f"{prefix}-{tokenize(token, which, chunks)}"
