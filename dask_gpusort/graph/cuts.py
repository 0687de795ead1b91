"""Stage 2: find the exact cuts between groups. Tasks ``sort-count`` and ``sort-scan``.

::

    run c --- sort-count 0 -- entries (and digits) --> sort-scan 0 -- brackets --> sort-count 1 --> sort-scan 1 --> cuts
                (every chunk)                            (one)                     (every chunk)      (one)

What comes back from a chunk is bounded by the plan and small, so the one scan task stays small however many chunks
there are. The last round receives every distinct key that is still in question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from dask._task_spec import List, Task, TaskRef
from dask.typing import Key
from tlz import concat

from .. import table
from ..chunk import numpy_ops, ops_for
from ..chunk.run import Run
from ..order import Order
from ..plan import Plan


def count(
    runs: Sequence[Run], brackets: table.Brackets | None, order: Order, samples: int | None, radix_bits: int
) -> list[table.Entries]:
    """Task: tell how sorted chunks lie in the brackets."""
    return [ops_for(run.keys).probe(run, brackets, order, samples=samples, radix_bits=radix_bits) for run in runs]


def checked_sizes(plan: Plan, answers: Sequence[table.Entries]) -> np.ndarray:
    """Keys in each chunk, int64, shape (chunks,); refuses chunks that are not as long as the plan was told."""
    sizes = np.array([answer.size for answer in answers], np.int64)
    expected = np.array(plan.sizes)
    wrong = np.flatnonzero((sizes != expected) & ~np.isnan(expected))
    if len(wrong):
        chunk = int(wrong[0])
        raise ValueError(
            f"chunk {chunk} of the input has {sizes[chunk]} keys where its chunk size says {plan.sizes[chunk]}: "
            "call compute_chunk_sizes() on it before sorting"
        )
    return sizes


def boundary_ranks(plan: Plan, sizes: np.ndarray) -> np.ndarray:
    """Global rank of each boundary between groups, shape (groups - 1,), from the true chunk sizes."""
    chunks = sizes if math.isnan(sum(plan.chunks)) else np.array(plan.chunks, np.int64)
    starts = table.exclusive_scan(chunks)
    ranks = [starts[first] + chunks[first] * part // parts for first, _, part, parts in plan.groups[1:] if parts]
    return np.array(ranks, np.int64)


def first_scan(bundles: Sequence[Sequence[table.Entries]], plan: Plan) -> table.Brackets:
    """Task: the first brackets, from every chunk's samples and, on the radix path, digits."""
    answers = list(concat(bundles))
    sizes = checked_sizes(plan, answers)
    ranks = boundary_ranks(plan, sizes)
    order = numpy_ops.key_order(plan.order)
    searched, _ = table.open_brackets(sizes, ranks)
    none = answers[0].keys[:0]
    if not len(searched):
        return table.disjoint(sizes, ranks, none, none, order)
    digits = None
    if plan.radix_bits:
        low, high = table.digit_brackets([answer.digits for answer in answers], ranks[searched], plan.radix_bits)
        ends = numpy_ops.needles(low, plan.order), numpy_ops.needles(high, plan.order)
        digits = table.disjoint(sizes, ranks, ends[0], ends[1], order)
        answers = table.restrict_all(answers, None, digits, order)
    return table.narrow(sizes, ranks, digits, answers, order)


def next_scan(bundles: Sequence[Sequence[table.Entries]], brackets: table.Brackets, plan: Plan) -> table.Brackets:
    """Task: narrow the brackets by one more round."""
    if not len(brackets.low):
        return brackets
    order = numpy_ops.key_order(plan.order)
    return table.narrow(brackets.sizes, brackets.ranks, brackets, list(concat(bundles)), order)


def last_scan(bundles: Sequence[Sequence[table.Entries]], brackets: table.Brackets, plan: Plan) -> table.Cuts:
    """Task: the exact cuts."""
    return table.cut(brackets, list(concat(bundles)), numpy_ops.key_order(plan.order))


def only_scan(bundles: Sequence[Sequence[table.Entries]], plan: Plan) -> table.Cuts:
    """Task: the cuts where there is one group, which takes everything."""
    return table.cut(first_scan(bundles, plan), list(concat(bundles)), numpy_ops.key_order(plan.order))


def find_cuts(token: str, plan: Plan, runs: Sequence[Key]) -> tuple[dict[Key, Task], Key]:
    """Graph of the stage.

    Parameters
    ----------
    token : str
    plan : Plan
    runs : sequence of keys, one a chunk
        Each a `Run`.

    Returns
    -------
    dict of key to Task
    key
        Of the `Cuts`.
    """
    tasks: list[Task] = []
    brackets: TaskRef | None = None
    for number in range(plan.rounds + 1):
        last = number == plan.rounds
        counts = [
            Task(
                (f"sort-count-{token}", number, start),
                count,
                List(*map(TaskRef, runs[start:stop])),
                brackets,
                plan.order,
                # One group has no boundaries: its only round just counts the keys of the chunks.
                None if last and plan.rounds else plan.samples,
                0 if number else plan.radix_bits,
            )
            for start, stop in plan.counted
        ]
        answers = List(*(task.ref() for task in counts))
        key = (f"sort-scan-{token}", number)
        if brackets is None:
            scan = Task(key, only_scan if last else first_scan, answers, plan)
        else:
            scan = Task(key, last_scan if last else next_scan, answers, brackets, plan)
        brackets = scan.ref()
        tasks += [*counts, scan]
    return {task.key: task for task in tasks}, tasks[-1].key
