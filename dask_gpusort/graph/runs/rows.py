r"""Searches through runs that workers keep: no task's result is held while others are made.

A search moves each needle twice::

    chunks of keys            chunks of needles
          |                         |
    search-join, one a group  search-sort o         kept: sorted keys; sorted needles, their positions in the bundle
          |                         |
     search-scan -----------> search-cut o          where groups begin, of keys and among needles
          |                         |
          |                   search-asked          where all needles are
           \                  /
            search-rank, one a group                kept: positions, and what was found there; portion by portion
                    |
              search-found
                    |
              search-scatter o                      written to their positions
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from dask.typing import Key

from ...chunk.run import Run
from ...table import IntArray
from .._dask import List
from ..input_checks import DeclaredChunk, changed_source
from ..search.lookup import (
    GroupStarts,
    Lookup,
    Question,
    cut_bundle,
    group_ends,
    in_shapes,
    join_keys,
    look_up_piece,
    scan_groups,
    sort_bundle,
)
from ..tasks import NOTHING, Tasks
from .keep_and_take import check_listed, keep, open_run, take_run, take_slices
from .plugins import ListTask, RunTask
from .store import Handle

#: Most requests of a portion: offsets, positions and replies take some 16 MiB where elements have 8 bytes.
PORTION_REQUESTS = 1 << 19


@dataclass(frozen=True)
class Kept:
    """Hold runs that a task keeps for several receivers."""

    handles: list[Handle]
    #: Shape (receivers + 1,) of each run: where the part for each receiver begins, and the end.
    ends: list[np.ndarray[Any, np.dtype[np.int64]]]
    shapes: tuple[tuple[int, ...], ...] = ()  # of each chunk of needles, if the runs have them


#: Rows of a run for one receiver: their sender, the run, the first row and the last + 1.
Part: TypeAlias = tuple[int, Handle, int, int]


def list_kept(kept: list[Kept]) -> list[Kept]:
    """Task: where all runs are."""
    check_listed([handle for one in kept for handle in one.handles], (ends for one in kept for ends in one.ends))
    return kept


def shapes_of(asked: list[Kept]) -> list[tuple[tuple[int, ...], ...]]:
    """Task: the shapes of each bundle's chunks."""
    return [needles.shapes for needles in asked]


def reply_to(kept: Sequence[Kept], group: int, reply: Callable[[Any], Any]) -> Kept:
    """Keep the positions of the requests for a group, and the replies to their keys, portion by portion."""
    ends: list[np.ndarray[Any, np.dtype[np.int64]]] = []

    def replies() -> Iterator[Run]:
        for portion in _portions(kept, group):
            counts = [0] * len(kept)
            for sender, _, first, last in portion:
                counts[sender] += last - first
            ends.append(np.array(list(accumulate(counts, initial=0)), np.int64))
            requests = Run.concat(take_rows(portion), copy=None)
            yield Run(requests.values[0], (reply(requests.keys),))

    return Kept(keep(replies()), ends)


def fill_kept(
    shapes: list[tuple[tuple[int, ...], ...]], dtype: np.dtype[Any], found: list[Kept], bundle: int
) -> tuple[Any, ...]:
    """Task: what was found for the chunks of a bundle."""
    whole, filled = np.empty(sum(map(math.prod, shapes[bundle])), dtype), 0
    for portion in _portions(found, bundle):
        for run in take_rows(portion):
            whole[run.keys] = run.values[0]
            filled += len(run)
    if filled != len(whole):
        raise changed_source(f"{filled} needles were looked up, of {len(whole)} in a bundle")
    return in_shapes(whole, shapes[bundle])


def take_rows(rows: Sequence[Part]) -> list[Run]:
    """Take rows of kept runs."""
    return take_slices([handle for _, handle, *_ in rows], [(first, last) for *_, first, last in rows])


def in_portions(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Divide rows of runs, in the order of their senders, into portions that are taken at once."""
    portion: list[Part] = []
    held = 0
    for sender, handle, first, last in parts:
        for start in range(first, max(last, first + 1), PORTION_REQUESTS):
            portion.append((sender, handle, start, min(start + PORTION_REQUESTS, last)))
            held += min(PORTION_REQUESTS, last - start)
            if held >= PORTION_REQUESTS:
                yield portion
                portion, held = [], 0
    if portion:
        yield portion


def _portions(kept: Sequence[Kept], receiver: int) -> Iterator[list[Part]]:
    """The rows for a receiver, in portions."""
    parts = (
        (sender, handle, int(ends[receiver]), int(ends[receiver + 1]))
        for sender, one in enumerate(kept)
        for handle, ends in zip(one.handles, one.ends, strict=True)
    )
    return in_portions(part for part in parts if part[3] > part[2])


#: Where the keys of each group are, and where groups begin.
Keys: TypeAlias = tuple[list[Handle], GroupStarts]


class KeptLookup(Lookup):
    """Keep the sorted keys, the sorted needles, and what was found."""

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the chunks of keys and needles to the results of bundles."""
        tasks, question, keep = Tasks(self.token), self.question, {"kind": RunTask}
        joins = [tasks.add("search-join", group, keep_keys, *own, **keep) for group, own in enumerate(self.joined())]
        scan = tasks.add("search-scan", 0, scan_kept, List(*joins), kind=ListTask)
        sorts = [
            tasks.add("search-sort", bundle, keep_needles, *own, question, **keep)
            for bundle, own in enumerate(self.needles)
        ]
        cuts = [tasks.add("search-cut", bundle, cut_kept, own, scan, question) for bundle, own in enumerate(sorts)]
        asked = tasks.add("search-asked", 0, list_needles, List(*sorts), List(*cuts), kind=ListTask)
        ranks = [
            tasks.add("search-rank", group, keep_found, scan, asked, group, question, **keep)
            for group in range(len(joins))
        ]
        found = tasks.add("search-found", 0, list_kept, List(*ranks), kind=ListTask)
        shapes = tasks.add("search-shapes", 0, shapes_of, asked)
        for bundle in range(len(sorts)):
            tasks.add("search-scatter", bundle, fill_kept, shapes, question.dtype, found, bundle)
        return tasks


def keep_keys(*arguments: Any) -> tuple[Handle, tuple[int, list[Any]]]:
    """Task: keep the keys of a group; the arguments are those of `join_keys`. Gives what `group_ends` gives, too."""
    keys, values = found = join_keys(*arguments)
    (handle,) = keep([Run(keys, () if values is None else (values,))])
    return handle, group_ends(found)


def scan_kept(kept: list[tuple[Handle, tuple[int, list[Any]]]]) -> Keys:
    """Task: where the keys of each group are, and where groups begin."""
    handles, ends = map(list, zip(*kept, strict=True))
    check_listed(handles)
    return handles, scan_groups(ends)


def keep_needles(blocks: list[Any], declared: list[DeclaredChunk], question: Question) -> Kept:
    """Task: keep the needles of a bundle, sorted. They are cut when the keys are there, and do not wait for these."""
    run, shapes = sort_bundle(blocks, declared, question)
    return Kept(keep([run]), [], shapes)


def cut_kept(needles: Kept, keys: Keys, question: Question) -> IntArray:
    """Task: where the needles for each group begin in a bundle."""
    return np.array(cut_bundle(open_run(needles.handles[0]).keys, keys[1], question), np.int64)


def list_needles(needles: list[Kept], cuts: list[IntArray]) -> list[Kept]:
    """Task: where all needles are."""
    return list_kept([replace(own, ends=[ends]) for own, ends in zip(needles, cuts, strict=True)])


def keep_found(keys: Keys, asked: list[Kept], group: int, question: Question) -> Kept:
    """Task: look up the needles for a group."""
    handles, scan = keys
    run = take_run(handles[group])
    found = run.keys, next(iter(run.values), None)
    return reply_to(asked, group, lambda needles: look_up_piece(found, needles, scan, group, question, ordered=False))
