"""The device exchange: few tasks, few steps from task to task, one contiguous slab a (bundle, group).

On a host with fast links between its GPUs the wire is not the problem; tasks are (a step from a task to the next takes
milliseconds, whatever the task does). So one round of counting must do (see `bounds`), chunks of one worker are sorted
by one task, and the graph has few steps between the input and the output. Chunks of a task that may be are sorted as
one run (see `plan.groups.join_chunks`), which from then on is what a chunk is elsewhere::

    chunks of bundle b          sort-local b    sorted run by run, and what each answers to the one round of counting
        |           |
        |      sort-count b                     the answer alone: small, on the host, goes to every worker
        |           |
        |      [sort-scan]                      many runs, or unknown sizes: the bounds of the cuts are found once
        |           |
    sort-scatter (b, g)                         the bundle's pieces for group g, copied end to end: one message
              |
        [sort-freed b]                          large data: nothing is finished before all bundles are cut up
              |
         sort-merge g                           cut into pieces again, merged, both ends cut off exactly

Tasks for B bundles, G groups and C output chunks: B (2 + G) + G + C, one more with a scan, B more for large data. A
group that is one output chunk of the only output is finished by that chunk's own task: one task and one step less. On
four GPUs of less than a GiB of keys each: 28 tasks and four steps for 4 chunks, 44 and five for 16.

Slabs are copies, so a sorted bundle is free as soon as its slabs are cut, and each slab once its group is finished.
Left alone, Dask finishes group after group and cuts a slab off every bundle for each: in the end all bundles are held
beside nearly all groups. Where that is more than a GPU holds, all bundles are cut up first, bundle by bundle, and the
keys are held once at any time. (Counted for 55 GB of keys on each of two GPUs of 141 GB, by the bytes of results in
Dask's order of tasks, without time: 35 GB spilled group by group, none bundle by bundle.) Still more keys are finished
group by group, and spilled.

Every array is complete when its task ends (`complete`): the wire knows nothing of streams.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
from dask._task_spec import List, Task, TaskRef
from dask.typing import Key

from ..chunk import complete, numpy_ops, ops_for
from ..chunk.run import Run
from ..graph import serialization
from ..order import Order
from ..plan import Plan
from ..table import Entries
from .bounds import Bounds, bound_cuts, fingerprint
from .cut_runs import Piece
from .cuts import boundary_ranks, checked_sizes
from .finish import Finish
from .input_checks import changed_run
from .local_sort import check_blocks, look_through

#: Numbers of runs, and what each answers.
Answers: TypeAlias = list[tuple[int, Entries]]
#: What tasks know of the cuts: their bounds, or the answers of each bundle, from which they follow.
Told: TypeAlias = Bounds | list[Answers]

#: Results of scans that a process keeps: of the sorts that run at a time.
REMEMBERED_SCANS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Sorted runs of one task, and what each answers.

    Attributes
    ----------
    numbers : tuple of int
        Of the runs, ascending.
    runs : tuple of Run
    answers : tuple of Entries
        Each says how long the chunks of its run are.
    """

    numbers: tuple[int, ...]
    runs: tuple[Run, ...]
    answers: tuple[Entries, ...]

    def __sizeof__(self) -> int:
        """Bytes held, for Dask's ``sizeof``."""
        small = sum(answer.keys.nbytes + answer.left.nbytes + answer.right.nbytes for answer in self.answers)
        return object.__sizeof__(self) + sum(map(sys.getsizeof, self.runs)) + small


def _take_apart(bundle: Bundle) -> tuple[Any, list[Any]]:
    arrays = [array for run in bundle.runs for array in run.arrays]
    return (bundle.numbers, bundle.answers, [len(run.arrays) for run in bundle.runs]), arrays


def _put_together(kept: Any, arrays: Sequence[Any]) -> Bundle:
    numbers, answers, counts = kept
    ends = pairwise(accumulate(counts, initial=0))
    runs = tuple(Run(arrays[start], tuple(arrays[start + 1 : stop])) for start, stop in ends)
    return Bundle(numbers, runs, answers)


serialization.travels(Bundle, _take_apart, _put_together)


def sort_bundle(
    sources: list[list[list[Any]]],
    numbers: tuple[int, ...],
    order: Order,
    samples: int,
    positions: bool,
    places: tuple[tuple[int, int], ...] = (),
) -> Bundle:
    """Task: sort some runs of chunks, each for itself, and answer the round of counting.

    Parameters
    ----------
    sources : list of lists of lists of arrays
        Of each run its chunks, each the keys and their companions.
    numbers : tuple of int
        Of the runs.
    order, samples, positions
        As in the plan, and whether positions travel.
    places : tuple of (array, chunk)
        Of runs that are said to be sorted already, a chunk each: these are looked through instead.
    """
    serialization.register()
    if places:
        runs = [look_through(*chunk, order=order, place=place) for (chunk,), place in zip(sources, places, strict=True)]
    else:
        runs = [_sort_joined(chunks, order, positions) for chunks in sources]
    answers = tuple(_answer(run, chunks, order, samples) for run, chunks in zip(runs, sources, strict=True))
    complete(runs[0].keys)
    return Bundle(numbers, tuple(runs), answers)


def _sort_joined(chunks: list[list[Any]], order: Order, positions: bool) -> Run:
    """Some chunks, sorted as one."""
    ops = ops_for(chunks[0][0])
    for keys, *values in chunks:
        check_blocks(keys, values, order)
        ops.check_lengths(keys, values)
    columns = list(zip(*chunks, strict=True))
    keys, *values = (column[0] if len(column) == 1 else ops.concatenate(column) for column in columns)
    run: Run = ops.local_sort(keys, values, order, positions=positions)
    return run


def _answer(run: Run, chunks: list[list[Any]], order: Order, samples: int) -> Entries:
    answer: Entries = ops_for(run.keys).probe(run, None, order, samples=samples)
    return replace(answer, sizes=np.array([len(chunk[0]) for chunk in chunks], np.int64))


def take_answers(bundle: Bundle) -> Answers:
    """Task: number and answer of each run of a bundle."""
    return list(zip(bundle.numbers, bundle.answers, strict=True))


def scan(told: list[Answers], plan: Plan) -> Bounds:
    """Task: bounds of all cuts, from the answers of all runs."""
    numbered = dict(pair for answers in told for pair in answers)
    answers = [numbered[run] for run in range(len(plan.runs))]
    sizes = np.empty(len(plan.sizes), np.int64)
    for chunks, answer in zip(plan.runs, answers, strict=True):
        sizes[list(chunks)] = answer.sizes
    sizes = checked_sizes(plan, sizes)
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
    """Task: what a bundle has for a group, its runs' pieces end to end in memory of their own."""
    serialization.register()
    bounds = bounds_of(told, plan)
    for number, run, answer in zip(bundle.numbers, bundle.runs, bundle.answers, strict=True):
        # Chunks that were lost and computed again must be what they were.
        length = bounds.starts[number + 1] - bounds.starts[number]
        if len(run) != length or fingerprint(answer) != bounds.prints[number]:
            raise changed_run(plan.runs[number], plan.order)
    pieces = [run[bounds.piece(number, group)] for number, run in zip(bundle.numbers, bundle.runs, strict=True)]
    slab = Run.concat(pieces)
    complete(slab.keys)
    return slab


def note_freed(slabs: list[Run]) -> None:
    """Task: a bundle's slabs are all cut."""


def merge_slabs(
    slabs: list[Run], told: Told, group: int, plan: Plan, finish: Finish, freed: Sequence[None] = ()
) -> tuple[Any, ...]:
    """Task: finish a group from its slabs.

    `freed` is waited for, and says nothing.

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
    """The piece of each run that has keys for the group; one if none has."""
    lengths = bounds.lengths(group)
    found: dict[int, Run] = {}
    held = sum(len(slab) > 0 for slab in slabs)
    for numbers, slab in zip(plan.sources, slabs, strict=True):
        ends = list(accumulate((int(lengths[number]) for number in numbers), initial=0))
        if len(slab) != ends[-1]:
            raise RuntimeError(f"group {group} received {len(slab)} keys where the cuts say {ends[-1]}")
        # The finish may write to its pieces; of those of several slabs it makes a copy anyway.
        own = slab.copy() if held == 1 else slab
        for number, (start, stop) in zip(numbers, pairwise(ends), strict=True):
            if start < stop:
                found[number] = own[start:stop]
    return [(int(bounds.starts[number]), found[number]) for number in sorted(found)] or [(0, slabs[0])]


def merge_chunk(
    slabs: list[Run], told: Told, group: int, plan: Plan, finish: Finish, freed: Sequence[None] = ()
) -> Any:
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
    serialization.register()
    tasks: list[Task] = []
    for number, runs in enumerate(plan.sources):
        blocks = List(*(List(*(List(*map(TaskRef, sources[chunk])) for chunk in plan.runs[run])) for run in runs))
        named = tuple(places[chunk] for run in runs for chunk in plan.runs[run]) if places else ()
        options = (runs, plan.order, plan.samples, finish.with_positions, named)
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
            given = _given(token, plan, group, finish)
            tasks.append(Task((f"sort-merge-{token}", group), merge_slabs, *given))
    for number in range(len(plan.sources) if plan.apart else 0):
        cut = List(*(TaskRef((f"sort-scatter-{token}", number, group)) for group in range(len(plan.groups))))
        tasks.append(Task((f"sort-freed-{token}", number), note_freed, cut))
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
    return {key: Task(key, merge_chunk, *_given(token, plan, group, finish)) for group, key in keys.items()}


def _told(token: str, plan: Plan) -> Any:
    if plan.scans:
        return TaskRef((f"sort-scan-{token}", 0))
    return List(*(TaskRef((f"sort-count-{token}", number)) for number in range(len(plan.sources))))


def _given(token: str, plan: Plan, group: int, finish: Finish) -> tuple[Any, ...]:
    """What a task is given that finishes a group."""
    bundles = range(len(plan.sources))
    slabs = List(*(TaskRef((f"sort-scatter-{token}", number, group)) for number in bundles))
    freed = List(*(TaskRef((f"sort-freed-{token}", number)) for number in bundles if plan.apart))
    return slabs, _told(token, plan), group, plan, finish, freed
