"""The device exchange: few tasks, few steps from task to task, one contiguous slab a (bundle, group).

On a host with fast links between its GPUs the wire is not the problem; tasks are (a step from a task to the next takes
milliseconds, whatever the task does). So one round of counting must do (see `bounds`), chunks of one worker are sorted
by one task, and the graph has few steps between the input and the output::

    chunks of bundle b          sort-local b    each chunk sorted, and what it answers to the one round of counting
        |           |
        |      sort-count b                     the answer alone: small, on the host, goes to every worker
        |           |
        |      [sort-scan]                      many chunks, or unknown sizes: the bounds of the cuts are found once
        |           |
    sort-scatter (b, g)                         the bundle's pieces for group g, copied end to end: one message
              |
         sort-merge g                           cut into pieces again, merged, both ends cut off exactly

Tasks for B bundles, G groups and C output chunks: B (2 + G) + G + C, and one more with a scan. A group that is one
output chunk of the only output is finished by that chunk's own task: one task and one step less. On four GPUs of less
than a GiB of keys each: 28 tasks and four steps for 4 chunks, 44 and five for 16.

Slabs are copies, so a sorted bundle is free as soon as its slabs are cut, and each slab once its group is finished.
Every array is complete when its task ends (`complete`): the wire knows nothing of streams.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
from dask._task_spec import List, Task, TaskRef
from dask.typing import Key

from ..chunk import complete, numpy_ops, ops_for
from ..chunk.run import Run
from ..order import Order
from ..plan import Plan
from ..table import Entries
from . import wire
from .bounds import Bounds, bound_cuts, fingerprint
from .cuts import boundary_ranks, checked_sizes
from .finish import Finish
from .local_sort import check_chunk, sort_chunk
from .pieces import Piece
from .sources import changed_chunk

#: What tasks know of the cuts: their bounds, or the answers of each bundle, from which they follow.
Told: TypeAlias = Bounds | list[list[tuple[int, Entries]]]

#: Results of scans that a process keeps: of the sorts that run at a time.
REMEMBERED_SCANS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Sorted chunks of one task, and what each answers.

    Attributes
    ----------
    chunks : tuple of int
        Their numbers, ascending.
    runs : tuple of Run
    answers : tuple of Entries
    """

    chunks: tuple[int, ...]
    runs: tuple[Run, ...]
    answers: tuple[Entries, ...]

    def __sizeof__(self) -> int:
        """Bytes held, for Dask's ``sizeof``."""
        small = sum(answer.keys.nbytes + answer.left.nbytes + answer.right.nbytes for answer in self.answers)
        return object.__sizeof__(self) + sum(map(sys.getsizeof, self.runs)) + small


def _take_apart(bundle: Bundle) -> tuple[Any, list[Any]]:
    arrays = [array for run in bundle.runs for array in run.arrays]
    return (bundle.chunks, bundle.answers, [len(run.arrays) for run in bundle.runs]), arrays


def _put_together(kept: Any, arrays: Sequence[Any]) -> Bundle:
    chunks, answers, counts = kept
    ends = pairwise(accumulate(counts, initial=0))
    runs = tuple(Run(arrays[start], tuple(arrays[start + 1 : stop])) for start, stop in ends)
    return Bundle(chunks, runs, answers)


wire.travels(Bundle, _take_apart, _put_together)


def sort_bundle(
    sources: list[list[Any]],
    chunks: tuple[int, ...],
    order: Order,
    samples: int,
    positions: bool,
    places: tuple[tuple[int, int], ...] = (),
) -> Bundle:
    """Task: sort some chunks, each for itself, and answer the round of counting.

    `places` names the chunks of arrays that are said to be sorted already: these are looked through instead.
    """
    wire.register()
    if places:
        runs = [check_chunk(*source, order=order, place=place) for source, place in zip(sources, places, strict=True)]
    else:
        runs = [sort_chunk(*source, order=order, positions=positions) for source in sources]
    answers = tuple(ops_for(run.keys).probe(run, None, order, samples=samples) for run in runs)
    complete(runs[0].keys)
    return Bundle(chunks, tuple(runs), answers)


def take_answers(bundle: Bundle) -> list[tuple[int, Entries]]:
    """Task: number and answer of each chunk of a bundle."""
    return list(zip(bundle.chunks, bundle.answers, strict=True))


def scan(told: list[list[tuple[int, Entries]]], plan: Plan) -> Bounds:
    """Task: bounds of all cuts, from the answers of all chunks."""
    numbered = dict(pair for answers in told for pair in answers)
    answers = [numbered[chunk] for chunk in range(len(plan.sizes))]
    sizes = checked_sizes(plan, np.array([answer.size for answer in answers], np.int64))
    return bound_cuts(answers, boundary_ranks(plan, sizes), numpy_ops.key_order(plan.order))


_remembered: list[tuple[list[Entries], Plan, Bounds]] = []


def bounds_of(told: Told, plan: Plan) -> Bounds:
    """What the scan found; where there is no scan, the same from the answers.

    Every task of a worker gets the same answers, which are compared by identity: those of a chunk that was computed
    again are others.
    """
    if isinstance(told, Bounds):
        return told
    answers = [answer for pairs in told for _, answer in pairs]
    for known, of_plan, bounds in list(_remembered):
        if of_plan == plan and len(known) == len(answers) and all(map(_is, known, answers)):
            return bounds
    found = scan(told, plan)
    _remembered.append((answers, plan, found))
    del _remembered[:-REMEMBERED_SCANS]
    return found


def _is(one: Any, other: Any) -> bool:
    return one is other


def cut_slab(bundle: Bundle, told: Told, group: int, plan: Plan) -> Run:
    """Task: what a bundle has for a group, its chunks' pieces end to end in memory of their own."""
    wire.register()
    bounds = bounds_of(told, plan)
    for chunk, run, answer in zip(bundle.chunks, bundle.runs, bundle.answers, strict=True):
        # A chunk that was lost and computed again must be what it was.
        if len(run) != bounds.starts[chunk + 1] - bounds.starts[chunk] or fingerprint(answer) != bounds.prints[chunk]:
            raise changed_chunk(chunk, plan.order)
    pieces = [run[bounds.piece(chunk, group)] for chunk, run in zip(bundle.chunks, bundle.runs, strict=True)]
    slab = Run.concat(pieces)
    complete(slab.keys)
    return slab


def merge_slabs(slabs: list[Run], told: Told, group: int, plan: Plan, finish: Finish) -> tuple[Any, ...]:
    """Task: finish a group from its slabs.

    Returns
    -------
    tuple of arrays
        Of equal length: the sorted keys if wanted, then the values; positions are global.
    """
    bounds = bounds_of(told, plan)
    found = finish(_pieces_in_order(slabs, bounds, group, plan), bounds.kept(group))
    complete(found[0])
    return found


def _pieces_in_order(slabs: list[Run], bounds: Bounds, group: int, plan: Plan) -> list[Piece]:
    """The piece of each chunk that has keys for the group; one if none has."""
    lengths = bounds.lengths(group)
    found: dict[int, Run] = {}
    held = sum(len(slab) > 0 for slab in slabs)
    for chunks, slab in zip(plan.sources, slabs, strict=True):
        ends = list(accumulate((int(lengths[chunk]) for chunk in chunks), initial=0))
        if len(slab) != ends[-1]:
            raise RuntimeError(f"group {group} received {len(slab)} keys where the cuts say {ends[-1]}")
        # The finish may write to its pieces; of those of several slabs it makes a copy anyway.
        own = slab.copy() if held == 1 else slab
        for chunk, (start, stop) in zip(chunks, pairwise(ends), strict=True):
            if start < stop:
                found[chunk] = own[start:stop]
    return [(int(bounds.starts[chunk]), found[chunk]) for chunk in sorted(found)] or [(0, slabs[0])]


def merge_chunk(slabs: list[Run], told: Told, group: int, plan: Plan, finish: Finish) -> Any:
    """Task: the one output chunk that a group is, of a sort that has one output array."""
    (chunk,) = merge_slabs(slabs, told, group, plan, finish)
    return chunk


def exchange_slabs(
    token: str,
    plan: Plan,
    sources: Sequence[Sequence[Key]],
    finish: Finish,
    direct: Collection[int] = (),
    places: Sequence[tuple[int, int]] = (),
) -> dict[Key, Task]:
    """Graph of all stages from the input chunks to the finished groups.

    Parameters
    ----------
    token : str
    plan : Plan
    sources : sequence of sequences of keys, shape (num_chunks, 1 + num_values)
        The chunks of the keys and of each companion.
    finish : Finish
    direct : collection of int
        Groups that the output's own tasks finish (see `finish_chunks`).
    places : sequence of (array, chunk)
        Of chunks that are sorted already, for what is said of those that are not.

    Returns
    -------
    dict of key to Task
        The other finished groups are ``("sort-merge-" + token, group)``; the bounds, if a task finds them,
        ``("sort-scan-" + token, 0)``.
    """
    wire.register()
    tasks: list[Task] = []
    for number, chunks in enumerate(plan.sources):
        blocks = List(*(List(*map(TaskRef, sources[chunk])) for chunk in chunks))
        named = tuple(places[chunk] for chunk in chunks) if places else ()
        options = (chunks, plan.order, plan.samples, finish.with_positions, named)
        tasks.append(Task((f"sort-local-{token}", number), sort_bundle, blocks, *options))
        tasks.append(Task((f"sort-count-{token}", number), take_answers, tasks[-1].ref()))
    if plan.scans:
        answers = List(*(TaskRef((f"sort-count-{token}", number)) for number in range(len(plan.sources))))
        tasks.append(Task((f"sort-scan-{token}", 0), scan, answers, plan))
    told = _told(token, plan)
    for group in range(len(plan.groups)):
        for number in range(len(plan.sources)):
            bundle = TaskRef((f"sort-local-{token}", number))
            tasks.append(Task((f"sort-scatter-{token}", number, group), cut_slab, bundle, told, group, plan))
        if group not in direct:
            mine = _slabs(token, plan, group)
            tasks.append(Task((f"sort-merge-{token}", group), merge_slabs, mine, told, group, plan, finish))
    return {task.key: task for task in tasks}


def finish_chunks(keys: Mapping[int, Key], token: str, plan: Plan, finish: Finish) -> dict[Key, Task]:
    """Graph of the output chunks that are a group each, without a step between the finish and the output.

    Parameters
    ----------
    keys : mapping of int to key
        Of the output chunk, for each such group.
    token : str
    plan : Plan
    finish : Finish

    Returns
    -------
    dict of key to Task
    """
    told = _told(token, plan)
    return {
        key: Task(key, merge_chunk, _slabs(token, plan, group), told, group, plan, finish)
        for group, key in keys.items()
    }


def _told(token: str, plan: Plan) -> Any:
    if plan.scans:
        return TaskRef((f"sort-scan-{token}", 0))
    return List(*(TaskRef((f"sort-count-{token}", number)) for number in range(len(plan.sources))))


def _slabs(token: str, plan: Plan, group: int) -> List:
    return List(*(TaskRef((f"sort-scatter-{token}", number, group)) for number in range(len(plan.sources))))
