"""The graph of a gang, and what its members do. Tasks ``sort-gang`` and ``sort-joined``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dask._task_spec import List, Task, TaskRef
from dask.typing import Key
from distributed.metrics import context_meter

from ...chunk import complete, library_of
from ...chunk.run import Run
from ...plan import Plan
from .. import serialization
from ..bounds import Bounds
from ..finish import Finish, GroupRef
from ..input_checks import changed_run
from ..local_sort import LocalSort, RunSource, chunk_arrays
from ..task_exchange import Bundle, Sources, finish_shards, scan, shard_ends, sort_bundle, take_shard, take_summaries
from .member import GangSpec, Start, enlist


class GangTask(Task):
    """The task of a member. The scheduler knows it by its class, so Dask must not fuse it with others."""

    spec: GangSpec

    __slots__ = tuple(__annotations__)

    def __init__(self, key: Any, func: Callable[..., Any], /, *args: Any, spec: GangSpec, **kwargs: Any):
        self.spec = spec
        super().__init__(key, func, *args, **kwargs)

    def __repr__(self) -> str:
        return f"GangTask({self.key!r})"

    @property
    def block_fusion(self) -> bool:
        return True


def gang_exchange(token: str, plan: Plan, sources: Sources, finish: Finish, timeout: float) -> dict[Key, Task]:
    """Graph of a gang, from the input chunks to the finished groups.

    Parameters
    ----------
    token : str
    plan : Plan
    sources : Sources
        As for `task_exchange.exchange_by_tasks`.
    finish : Finish
    timeout : float
        In seconds, as in `GangSpec`.

    Returns
    -------
    dict of key to Task
        The outputs are what `finished_groups` gives.
    """
    serialization.register()
    runs, local, keys = sources
    tasks: list[Task] = []
    for rank, numbers in enumerate(plan.sources):
        own = tuple(runs[number] for number in numbers)
        arrays = List(*(chunk_arrays(source, keys) for source in own))
        spec = GangSpec(token, rank, len(plan.sources), timeout)
        arguments = (arrays, numbers, own, local, spec, plan, finish)
        member = GangTask((f"sort-gang-{token}", rank), sort_in_gang, *arguments, spec=spec)
        tasks += [member, Task((f"sort-joined-{token}", rank), note_joined, member.ref(), plan)]
    return {task.key: task for task in tasks}


def finished_groups(token: str, plan: Plan, all_wanted: bool) -> tuple[list[GroupRef], GroupRef]:
    """The finished groups, and the bounds of the cuts, as arguments of tasks.

    Parameters
    ----------
    token : str
    plan : Plan
    all_wanted : bool
        Whether the groups of all members are computed. Otherwise every output chunk must need every member, because
        members cannot run without each other.
    """
    joined = [TaskRef((f"sort-joined-{token}", rank)) for rank in range(len(plan.sources))]
    groups: list[GroupRef] = []
    for rank, own in enumerate(plan.member_groups):
        member, behind = TaskRef((f"sort-gang-{token}", rank)), List(*(() if all_wanted else joined))
        groups += [Task(None, take_group, member, number, behind) for number in range(len(own))]
    return groups, joined[0]


def take_group(finished: tuple[Any, ...], number: int, joined: Sequence[Any]) -> Any:
    """One group of a member. `joined` makes the task need all members, and is not used."""
    return finished[number]


def note_joined(finished: tuple[Any, ...], plan: Plan) -> Bounds | None:
    """Task: a member has finished. If chunk sizes are unknown, the result is the bounds of the cuts."""
    return None if plan.known else finished[-1]


def sort_in_gang(
    arrays: list[list[Any]],
    numbers: tuple[int, ...],
    sources: tuple[RunSource, ...],
    local: LocalSort,
    spec: GangSpec,
    plan: Plan,
    finish: Finish,
) -> tuple[Any, ...]:
    """Task: one member of a gang.

    Parameters
    ----------
    arrays, numbers, sources, local
        As for `task_exchange.sort_bundle`.
    spec : GangSpec
    plan : Plan
    finish : Finish

    Returns
    -------
    tuple
        The finished groups, each a tuple of arrays as from `task_exchange.finish_group`; then the `Bounds`, if chunk
        sizes are unknown.
    """
    with context_meter.meter("sort"):
        bundle = sort_bundle(arrays, numbers, sources, local, plan.samples)
    work = Work(bundle, spec.rank, plan)
    del bundle
    on_devices = library_of(work.bundle.runs[0].keys) == "cupy"
    with enlist(spec, on_devices) as member:
        shards = member.exchange(take_summaries(work.bundle), work.cut)
        work.release()
        with context_meter.meter("merge"):
            groups = finish_shards(shards, work.bounds, plan.member_groups[spec.rank], plan, finish)
    return groups if plan.known else (*groups, work.bounds)


class Work:
    """The sorted bundle of a member, and its bounds, which are the same in all members.

    Attributes
    ----------
    bundle : Bundle
        Kept until all shards have arrived, because an exchange may be repeated.
    bounds : Bounds
        Known after `cut`.
    """

    bounds: Bounds

    def __init__(self, bundle: Bundle, rank: int, plan: Plan):
        self.bundle, self.rank, self.plan = bundle, rank, plan

    def cut(self, start: Start) -> tuple[list[Run], list[int]]:
        """The shards for all members, and how many keys each sends."""
        plan = self.plan
        for rank in start.changed:
            raise changed_run(plan.runs[plan.sources[rank][0]], plan.order)
        self.bounds = scan(start.summaries, plan)
        shards = [take_shard(self.bundle, self.bounds, groups, copy=False) for groups in plan.member_groups]
        complete(shards[0].keys)
        own = plan.member_groups[self.rank]
        return shards, [shard_ends(self.bounds, numbers, own)[-1] for numbers in plan.sources]

    def release(self) -> None:
        """Free the bundle, except what others still fetch."""
        del self.bundle
