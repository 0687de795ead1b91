"""Keys alone in one memory: count, scan, scatter, and sort last, so that each key is sorted once.

::

    all chunks ----> sort-sample (one)                     splitters
                        |
    chunk c ------> sort-count                             the chunk divided at the splitters; its counts are a row
              (every chunk)                                of the table
                        |
                    sort-scan (one)                        the table, its scan, and where each group is cut
                        |
                    sort-merge g                           a group is joined, and sorted
                        |
                    output chunks                          from a group and the next one

Equal keys are the same bits here, so their order is not kept. See `table.splitters` for the cuts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
from dask.typing import Key

from ..chunk.checks import Blocks, declared_chunks
from ..chunk.memory import RETURNED_BYTES, RunList, return_free_memory
from ..chunk.numpy_split import Divided, divide, divide_in_place, order_nans, sample_keys, sort_pieces
from ..graph._dask import List, Task
from ..graph.tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunk_of
from ..order import Order
from ..plan import SortPlan
from ..table import IntArray, exclusive_scan
from ..table.splitters import after, choose_splitters, find_cuts

#: Keys of the sample, for the square of the number of groups: the sizes of groups then deviate by some 4 %.
SAMPLED_KEYS = 128
#: Size of a group, in output chunks, up to which these are views, which keep the group in memory.
KEPT_PARTS = 16


class Table(RunList):
    """Hold all divided runs, and the cuts of the groups."""

    def __init__(self, runs: list[np.ndarray], cuts: IntArray, divided: list[Divided]):
        super().__init__(runs, sum(run.nbytes for run in runs))
        self.cuts = cuts
        self.numbers = [run.numbers for run in divided]
        self.negatives = sum(run.negatives for run in divided)
        self.starts = exclusive_scan(np.array(list(map(len, runs)), np.int64))


class Group(NamedTuple):
    """Hold the sorted keys of a group's segment."""

    start: int  # rank of its first key
    keys: np.ndarray
    starts: IntArray  # shape (runs + 1,): global position of each run's first key in the input


def find_splitters(runs: list[Blocks], plan: SortPlan) -> np.ndarray:
    """Task: the splitters, from samples of all runs."""
    chunks = list(chain(*(run.checked() for run in runs)))
    step = max(1, int(sum(map(len, chunks)) / (SAMPLED_KEYS * len(plan.groups) ** 2)))
    sample = [sample_keys(keys, plan.order, step, seed) for seed, keys in enumerate(chunks)]
    return choose_splitters(np.concatenate(sample), np.arange(1, len(plan.groups)) / len(plan.groups))


def divide_run(run: Blocks, order: Order, splitters: np.ndarray) -> Divided:
    """Task: a run, divided at the splitters."""
    return divide(run.checked(), order, splitters)


def ranks_of_groups(size: int, groups: int) -> IntArray:
    """The ranks at which equal groups begin, and the number of keys."""
    return np.array([size * group // groups for group in range(groups + 1)], np.int64)


def scan_table(divided: list[Divided], splitters: np.ndarray, plan: SortPlan, made: bool) -> Table:
    """Task: where each group is cut. Chunks that tasks have `made` are freed by now."""
    runs, ends = order_nans(divided, plan.order), np.stack([run.ends for run in divided])
    ranks = ranks_of_groups(int(ends[:, -1].sum()), len(plan.groups))
    cuts, far = find_cuts(ends, splitters, ranks)
    if far:
        runs = [keys.copy() for keys in runs]  # the results of other tasks stay as they are
        every = np.sort(np.concatenate(runs))
        splitters = np.union1d(splitters, np.union1d(every[far], after(every[far])))
        again = [divide_in_place(keys, run.numbers, splitters) for keys, run in zip(runs, divided, strict=True)]
        cuts, far = find_cuts(np.stack(again), splitters, ranks)
        assert not far
    if made and sum(run.nbytes for run in runs) >= RETURNED_BYTES:
        return_free_memory()
    return Table(runs, cuts, divided)


def sort_group(table: Table, group: int, order: Order) -> Group:
    """Task: join and sort the keys of a group's segment."""
    ends = zip(table.runs, table.cuts[:, group], table.cuts[:, group + 1], table.numbers, strict=True)
    pieces, nans = zip(*((keys[a : min(b, n)], keys[max(a, n) : b]) for keys, a, b, n in ends), strict=True)
    start = int(table.cuts[:, group].sum())
    keys = sort_pieces(pieces, order, table.negatives - start)
    return Group(start, np.concatenate([keys, *nans]) if any(map(len, nans)) else keys, table.starts)


def take_ranks(groups: list[Group], start: int, stop: int) -> np.ndarray:
    """Task: the keys of some ranks, from neighbouring groups."""
    within = [slice(max(start - group.start, 0), max(stop - group.start, 0)) for group in groups]
    parts = [(group.keys, part) for group, part in zip(groups, within, strict=True) if len(group.keys[part])]
    if len(parts) > 1:
        return np.concatenate([keys[part] for keys, part in parts])
    keys, part = (parts or [(groups[0].keys, slice(0))])[0]
    cut = keys[part]
    return cut if keys.nbytes <= KEPT_PARTS * cut.nbytes else cut.copy()


def take_chunk(groups: list[Group], chunk: int) -> np.ndarray:
    """Task: an output chunk of unknown size: it has the size of the input chunk of the same number."""
    return take_ranks(groups, *groups[0].starts[[chunk, chunk + 1]].tolist())


@dataclass(frozen=True)
class SortLast(ArrayRecipe):
    """Hold all that the tasks of a sort are made from that sorts last."""

    plan: SortPlan
    names: tuple[str, ...]  # of the only input

    takes_held_chunks = True

    @property
    def first_tasks(self) -> int:
        return len(self.plan.runs)

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the input chunks to the sorted groups; chunks in `held` become part of them."""
        plan, tasks, (name,) = self.plan, Tasks(self.token), self.names
        declared = declared_chunks("the input", plan.order.dtype, (plan.sizes,))
        runs = [
            Task(None, Blocks, List(*(chunk_of((name, one), held) for one in run)), [declared[one] for one in run])
            for run in plan.runs
        ]
        splitters = tasks.add("sort-sample", 0, find_splitters, List(*runs), plan)
        divided = [
            tasks.add("sort-count", number, divide_run, run, plan.order, splitters) for number, run in enumerate(runs)
        ]
        table = tasks.add("sort-scan", 0, scan_table, List(*divided), splitters, plan, not held)
        for group in range(len(plan.groups)):
            tasks.add("sort-merge", group, sort_group, table, group, plan.order)
        return tasks

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the sorted groups to the output chunks."""
        tasks, groups, (sizes,) = Tasks(self.token), len(self.plan.groups), chunks
        known = not any(map(math.isnan, sizes))
        starts = list(accumulate(map(int, sizes), initial=0)) if known else []
        ranks = ranks_of_groups(starts[-1], groups) if known else None
        for chunk in range(len(sizes)):
            if ranks is None:
                tasks.put((name, chunk), take_chunk, tasks.refs("sort-merge", range(groups)), chunk)
                continue
            start, stop = starts[chunk : chunk + 2]
            first, last = (int(np.searchsorted(ranks, rank, "right")) - 1 for rank in (start, max(start, stop - 1)))
            # The last keys of a group are in the segment of the next one.
            own = range(min(first, groups - 1), min(last + 2, groups))
            tasks.put((name, chunk), take_ranks, tasks.refs("sort-merge", own), start, stop)
        return tasks
