"""The exchange by tasks: few tasks, a short critical path, one contiguous shard for each (bundle, group).

It is the exchange of CuPy chunks, and of NumPy chunks where workers cannot keep runs. On a host with fast links
between its GPUs the network is not the bottleneck. Tasks are: each one on the critical path costs milliseconds, however
little it does. The same is true of a sort of many small chunks, where a task costs about as much as the sort of a
chunk. So there is one round of counting (see `table.bounds`), and one task sorts the chunks of one worker. Where
allowed, a task's chunks are sorted as one run, which then plays the role of a chunk (see
`plan.division.join_chunks`)::

    chunks of bundle b          sort-local b    runs sorted one by one, each with its summary
        |           |
        |      sort-count b                     the summaries alone: small, on the host, sent to every worker
        |           |
        |      [sort-scan]                      many runs, or unknown sizes: one task bounds the cuts
        |           |
    sort-scatter (b, g)                         the bundle's pieces for group g, copied end to end: one message
              |
        [sort-freed b]                          large data: all bundles are cut before any group is finished,
              |                                 [sort-turn g] and groups wait for earlier ones
         sort-merge g                           divided into pieces again, merged, both ends trimmed exactly

With B bundles, G groups and C output chunks there are B (2 + G) + G + C tasks, one more with a scan, and B and up to G
more for large data. If a group is one chunk of the only output, that chunk's task finishes the group: one task and one
step less. On four GPUs with less than a GiB of keys each: 28 tasks and four steps for 4 chunks, 44 and five for 16.

Shards are copies. A sorted bundle is freed once its shards are cut, and a shard once its group is finished. By default
Dask finishes group after group and cuts one shard off every bundle for each, so at the end all bundles coexist with
nearly all groups. If a GPU cannot hold both, all bundles are cut first, bundle by bundle, and the keys are held once at
any time (see `plan.memory`).

Then groups are finished in turns, one group on each GPU. A worker fetches the shards of all groups that it is given,
however many. So a group is given to it only after the turn before the last one (tasks ``sort-turn``): the shards of one
group arrive while another is merged. Tasks name the worker that has their bundle or group (`PlacedTask`). Without that
Dask copies bundles to less busy workers to cut them: of two workers with 75 MB of keys each, planned as GPUs, one held
117 MB of results, with it each held 86 to 88.

Every array is complete when its task ends (`complete`), because transfers ignore CUDA streams.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import getitem
from typing import Any, TypeAlias
from weakref import ref

from dask.typing import Key

from ...chunk import complete, ops_for
from ...chunk.run import Run
from ...plan import Plan
from ...table import Bounds, RankSummary
from .. import serialization
from .._dask import List, Task
from ..placement import PlacedTask
from ..tasks import Tasks
from .finish import Finish
from .local import LocalSort, RunSource, chunk_arrays, sorted_run
from .scan import PlannedBounds, bound_cuts
from .scatter import Piece

#: Numbers and summaries of runs.
NumberedSummaries: TypeAlias = list[tuple[int, RankSummary]]
#: The bounds of the cuts, or the summaries of each bundle, from which the bounds follow.
CutInfo: TypeAlias = PlannedBounds | list[NumberedSummaries]


#: The chunks of each run, how a run is made from them, and the keys of each chunk.
Sources: TypeAlias = tuple[Sequence[RunSource], LocalSort, Sequence[Sequence[Key]]]

#: Scan results that a process keeps, one for each concurrent sort.
REMEMBERED_SCANS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Hold the sorted runs of one task, and their summaries."""

    numbers: tuple[int, ...]  # of the runs, ascending
    runs: tuple[Run, ...]
    summaries: tuple[RankSummary, ...]

    def __sizeof__(self) -> int:
        """Bytes held, for Dask's ``sizeof``."""
        small = sum(summary.keys.nbytes + summary.left.nbytes + summary.right.nbytes for summary in self.summaries)
        return object.__sizeof__(self) + sum(map(sys.getsizeof, self.runs)) + small


def _split(bundle: Bundle) -> tuple[Any, list[Any]]:
    arrays = [array for run in bundle.runs for array in run.arrays]
    return (bundle.numbers, bundle.summaries, [len(run.arrays) for run in bundle.runs]), arrays


def _join(kept: Any, arrays: Sequence[Any]) -> Bundle:
    numbers, summaries, counts = kept
    ends = pairwise(accumulate(counts, initial=0))
    runs = tuple(Run(arrays[start], tuple(arrays[start + 1 : stop])) for start, stop in ends)
    return Bundle(numbers, runs, summaries)


serialization.add_class(Bundle, _split, _join)


def sort_bundle(
    arrays: list[list[Any]],
    numbers: tuple[int, ...],
    sources: tuple[RunSource, ...],
    local: LocalSort,
    samples: int,
    radix_bits: int,
) -> Bundle:
    """Task: sort runs of chunks, as for `local.sort_run`, one by one, and summarize each."""
    serialization.register()
    ops = ops_for(arrays[0][0])
    with ops.exclusive():
        runs = [sorted_run(chunks, source, local) for chunks, source in zip(arrays, sources, strict=True)]
    summaries = tuple(ops.summarize_run(run, local.order, samples=samples, radix_bits=radix_bits) for run in runs)
    complete(runs[0].keys)
    return Bundle(numbers, tuple(runs), summaries)


def take_summaries(bundle: Bundle) -> NumberedSummaries:
    """Task: number and summary of each run of a bundle."""
    return list(zip(bundle.numbers, bundle.summaries, strict=True))


def scan(bundles: list[NumberedSummaries], plan: Plan) -> PlannedBounds:
    """Task: bounds of all cuts, from the summaries of all runs."""
    numbered = dict(pair for bundle in bundles for pair in bundle)
    return bound_cuts([numbered[run] for run in range(len(plan.runs))], plan)


_remembered: list[tuple[list[ref[RankSummary]], PlannedBounds]] = []


def bounds_of(cut_info: CutInfo, plan: Plan | None) -> PlannedBounds:
    """Give the bounds that the scan task found, or without one find them from the summaries and the plan."""
    # All tasks of a worker receive the same summary objects, so results are looked up by identity. A chunk that is
    # computed again has a new summary, which misses. A result is kept as long as its summaries are.
    if isinstance(cut_info, Bounds):
        return cut_info
    assert plan is not None
    summaries = [summary for pairs in cut_info for _, summary in pairs]
    for known, bounds in list(_remembered):
        if bounds.plan == plan and len(known) == len(summaries) and all(map(_refers_to, known, summaries)):
            return bounds
    found = scan(cut_info, plan)
    _remembered.append(([ref(summary, _forget_dead) for summary in summaries], found))
    del _remembered[:-REMEMBERED_SCANS]
    return found


def _refers_to(known: ref[RankSummary], summary: RankSummary) -> bool:
    return known() is summary


def _forget_dead(_: Any) -> None:
    _remembered[:] = [one for one in _remembered if all(summary() is not None for summary in one[0])]


def cut_shard(bundle: Bundle, cut_info: CutInfo, group: int, plan: Plan | None) -> Run:
    """Task: cut the shard of a bundle for a group: its runs' pieces end to end, copied."""
    # `plan` is None if a scan task gives it.
    serialization.register()
    bounds = bounds_of(cut_info, plan)
    for number, run, summary in zip(bundle.numbers, bundle.runs, bundle.summaries, strict=True):
        bounds.check(number, run, summary)
    shard = take_shard(bundle, bounds, group, copy=True)
    complete(shard.keys)
    return shard


def take_shard(bundle: Bundle, bounds: Bounds, group: int, *, copy: bool) -> Run:
    """The shard of a bundle for a group: its runs' pieces end to end; a view of one run if allowed."""
    pieces = [run[bounds.piece(number, group)] for number, run in zip(bundle.numbers, bundle.runs, strict=True)]
    return pieces[0] if len(pieces) == 1 and not copy else Run.concat(pieces)


def note_done(_: Any) -> None:
    """Task: all shards of a bundle are cut, or a group is finished."""


def finish_group(
    shards: list[Run], cut_info: CutInfo, group: int, plan: Plan | None, finish: Finish, earlier: Sequence[None] = ()
) -> tuple[Any, ...]:
    """Task: finish a group from its shards: the sorted keys if wanted, then the values; positions are global."""
    # `plan` is None if a scan task gives it. `earlier` makes the task wait for the bundles or for earlier groups, and
    # is not used.
    bounds = bounds_of(cut_info, plan)
    with ops_for(shards[0].keys).exclusive():
        found = finish(pieces_in_order(shards, bounds, group, bounds.plan), bounds.kept(group))
    complete(found[0])
    return found


def pieces_in_order(shards: list[Run], bounds: Bounds, group: int, plan: Plan) -> list[Piece]:
    """The non-empty pieces of a group, in order of the runs; one empty piece if there are none."""
    found: dict[int, Run] = {}
    lengths = bounds.lengths(group).tolist()
    for numbers, shard in zip(plan.sources, shards, strict=True):
        ends = list(accumulate((lengths[number] for number in numbers), initial=0))
        if len(shard) != ends[-1]:
            raise RuntimeError(f"group {group} received {len(shard)} keys where the cuts say {ends[-1]}")
        cut = zip(numbers, pairwise(ends), strict=True)
        found |= {number: shard[start:stop] for number, (start, stop) in cut if start < stop}
    pieces = [(int(bounds.starts[number]), found[number]) for number in sorted(found)] or [(0, shards[0][:0])]
    # The finish may write to its pieces. It copies several anyway, unless they are neighbours in memory.
    of_one_shard = sum(any(number in found for number in source) for source in plan.sources) == 1
    return [(start, piece.copy()) for start, piece in pieces] if of_one_shard else pieces


def exchange_by_tasks(
    tasks: Tasks,
    plan: Plan,
    sources: Sources,
    finish: Finish,
    direct: Collection[int] = (),
) -> None:
    """Add all stages from the input chunks to the finished groups, ``sort-merge``, but those in `direct`."""
    serialization.register()
    _sort_and_count(tasks, plan, *sources)
    bundles, groups = range(len(plan.sources)), range(len(plan.groups))
    cut_info, unscanned = _cut_info(tasks, plan), None if plan.scans else plan
    for group in groups:
        for number in bundles:
            own = tasks.ref("sort-local", number), cut_info, group, unscanned
            tasks.add("sort-scatter", (number, group), cut_shard, *own, **_placed(_worker_of(plan, number)))
        if group not in direct:
            finish_one(tasks, tasks.key("sort-merge", group), plan, group, finish)
    for number in bundles if plan.cut_first else ():
        shards = List(*(tasks.ref("sort-scatter", number, group) for group in groups))
        tasks.add("sort-freed", number, note_done, shards)


def _sort_and_count(
    tasks: Tasks, plan: Plan, sources: Sequence[RunSource], local: LocalSort, keys: Sequence[Sequence[Key]]
) -> None:
    for number, runs in enumerate(plan.sources):
        own = tuple(sources[run] for run in runs)
        arrays = List(*(chunk_arrays(source, keys) for source in own))
        arguments = (arrays, runs, own, local, plan.samples, plan.radix_bits)
        bundle = tasks.add("sort-local", number, sort_bundle, *arguments, **_placed(_worker_of(plan, number)))
        tasks.add("sort-count", number, take_summaries, bundle)
    if plan.scans:
        tasks.add("sort-scan", 0, scan, tasks.refs("sort-count", range(len(plan.sources))), plan)


def _cut_info(tasks: Tasks, plan: Plan) -> Any:
    return tasks.ref("sort-scan", 0) if plan.scans else tasks.refs("sort-count", range(len(plan.sources)))


def finish_one(tasks: Tasks, key: Key, plan: Plan, group: int, finish: Finish, alone: bool = False) -> None:
    """Add the task that finishes a group, `alone` to its only array, and one that notes it if others wait for it."""
    bundles, awaited = range(len(plan.sources)), plan.awaited_by(group)
    shards = List(*(tasks.ref("sort-scatter", number, group) for number in bundles))
    earlier = tasks.refs("sort-turn", awaited)
    if plan.cut_first and not awaited:
        earlier = tasks.refs("sort-freed", bundles)
    arguments = (shards, _cut_info(tasks, plan), group, None if plan.scans else plan, finish, earlier)
    options = _placed(group if plan.turn_size < len(plan.groups) else None)
    if alone:
        made = tasks.put(key, getitem, Task(None, finish_group, *arguments), 0, **options)
    else:
        made = tasks.put(key, finish_group, *arguments, **options)
    if group in plan.awaited:
        tasks.add("sort-turn", group, note_done, made)


def _worker_of(plan: Plan, bundle: int) -> str | int | None:
    return plan.bundle_workers[bundle] if plan.bundle_workers else None


def _placed(worker: str | int | None) -> dict[str, Any]:
    """The options of a task for a worker, if one is given."""
    return {} if worker is None else {"kind": PlacedTask, "mark": worker}
