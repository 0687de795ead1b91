r"""Reads, writes, searches and sets through runs that workers keep: no task's result is held while others are made.

A read moves runs twice: the source and the requests to the groups, and the replies back::

    source chunk c          bundle o
        |                       |
    take-rows c             take-requests o      kept: offsets in a group, positions in the bundle
          \                   /
               take-asked                        where all of them are
                   |
              take-reply s                       kept: positions in the bundle, elements; portion by portion
                   |
              take-replied
                   |
              take-fill o                        written to their positions

A write moves runs once: ``put-requests``, ``put-asked``, ``put-merge``.

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from dask.typing import Key

from ...chunk.run import Run
from ...table import IntArray
from .._dask import List
from ..input_checks import DeclaredChunk, changed_source, checked_chunk
from ..positions.exchange import GroupedAxis, Put, Rows, Shapes, Take, fill_bundle, make_requests, write_group
from ..search.lookup import (
    GroupStarts,
    Lookup,
    Question,
    cut_bundle,
    group_ends,
    join_keys,
    look_up_piece,
    scan_groups,
    sort_bundle,
)
from ..tasks import NOTHING, Tasks
from .keep_and_take import check_listed, keep, open_run, rows_as_run, take_run, take_slices
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
    shapes: Shapes = ()  # of each chunk of indices, if the runs are requests


class Part(NamedTuple):
    """Rows of a run for one receiver."""

    sender: int
    handle: Handle
    start: int
    stop: int


#: The rows of each chunk of a source, and the requests of each bundle.
Asked: TypeAlias = tuple[list[Handle], list[Kept]]


class KeptTake(Take):
    """Keep the source, the requests and the replies."""

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the chunks of the source and the requests to the filled bundles."""
        tasks, keep, groups = Tasks(self.token), {"kind": RunTask}, range(len(self.groups))
        rows = [tasks.add("take-rows", number, keep_rows, chunk, **keep) for number, chunk in enumerate(self.source)]
        requests = [
            tasks.add("take-requests", bundle, keep_requests, *own, **keep) for bundle, own in enumerate(self.requested)
        ]
        asked = tasks.add("take-asked", 0, list_kept, List(*rows), List(*requests), kind=ListTask)
        sources = [(self.groups.chunks(group), self.axis.size_of(group)) for group in groups]
        replies = [
            tasks.add("take-reply", group, keep_replies, asked, group, *own, **keep)
            for group, own in enumerate(sources)
        ]
        replied = tasks.add("take-replied", 0, list_kept, List(), List(*replies), kind=ListTask)
        shapes = tasks.add("take-shapes", 0, shapes_of, asked)
        for bundle in range(len(requests)):
            tasks.add("take-fill", bundle, fill_kept, shapes, self.rows, replied, bundle)
        return tasks


class KeptPut(Put):
    """Keep the requests, with the values."""

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the requests to the written groups."""
        tasks = Tasks(self.token)
        requests = [
            tasks.add("put-requests", bundle, keep_requests, *own, kind=RunTask)
            for bundle, own in enumerate(self.requested)
        ]
        asked = tasks.add("put-asked", 0, list_kept, List(), List(*requests), kind=ListTask)
        for group in range(len(self.groups)):
            tasks.add("put-merge", group, write_kept, self.before(group), asked, group, self.axis.size_of(group))
        return tasks


def list_kept(rows: list[Handle], kept: list[Kept]) -> Asked:
    """Task: where all runs are."""
    handles = [handle for one in kept for handle in one.handles]
    check_listed([*rows, *handles], (ends for one in kept for ends in one.ends))
    return rows, kept


def shapes_of(asked: Asked) -> list[Shapes]:
    """Task: the shapes of each bundle's chunks."""
    return [requests.shapes for requests in asked[1]]


def keep_rows(block: Any) -> Handle:
    """Task: keep a chunk of the source."""
    checked_chunk(block, None)
    (handle,) = keep([rows_as_run(block)])
    return handle


def keep_requests(
    indices: list[Any],
    values: list[list[Any]],
    axis: GroupedAxis,
    declared: Sequence[Sequence[DeclaredChunk]],
) -> Kept:
    """Task: keep a bundle's requests, in the order of their groups; the arguments are those of `make_requests`."""
    found = make_requests(indices, values, axis, declared)
    order = () if values else (found.order,)
    handles = keep([Run(found.run.keys, (*found.run.values, *order))])
    return Kept(handles, [np.array(found.ends, np.int64)], found.shapes)


def keep_replies(asked: Asked, group: int, chunks: range, size: int) -> Kept:
    """Task: reply to the requests for a group, whose source is some chunks of so many elements in all."""
    handles, kept = asked
    own = [handles[chunk] for chunk in chunks]
    pieces = take_slices(own, [(0, handle.length) for handle in own])
    rows = Run.concat(pieces, copy=None).values[0]
    if len(rows) != size:
        raise changed_source(f"group {group} received {len(rows)} of {size} elements")
    return reply_to(kept, group, lambda offsets: rows.take(offsets, 0))


def reply_to(kept: Sequence[Kept], group: int, reply: Callable[[Any], Any]) -> Kept:
    """Keep the positions of the requests for a group, and the replies to their keys, portion by portion."""
    ends: list[np.ndarray[Any, np.dtype[np.int64]]] = []

    def replies() -> Iterator[Run]:
        for portion in _portions(kept, group):
            counts = [0] * len(kept)
            for part in portion:
                counts[part.sender] += part.stop - part.start
            ends.append(np.array(list(accumulate(counts, initial=0)), np.int64))
            requests = Run.concat(_taken(portion), copy=None)
            yield Run(requests.values[0], (reply(requests.keys),))

    return Kept(keep(replies()), ends)


def fill_kept(shapes: list[Shapes], rows: Rows, replied: Asked, bundle: int) -> list[Any]:
    """Task: the elements that the chunks of a bundle requested."""
    runs = (run for portion in _portions(replied[1], bundle) for run in _taken(portion))
    return fill_bundle(shapes[bundle], ((run.keys, run.values[0]) for run in runs), rows)


def write_kept(chunks: list[Any], asked: Asked, group: int, size: int) -> tuple[Any, ...]:
    """Task: a group with the values for it, read and written in portions."""
    return write_group(chunks, (run for portion in _portions(asked[1], group) for run in _taken(portion)), size)


def _taken(portion: Sequence[Part]) -> list[Run]:
    return take_slices([part.handle for part in portion], [(part.start, part.stop) for part in portion])


def _portions(kept: Sequence[Kept], receiver: int) -> Iterator[list[Part]]:
    """The rows for a receiver, in the order of their senders; about as many at once as a portion has."""
    portion: list[Part] = []
    held = 0
    for part in _parts(kept, receiver):
        portion.append(part)
        held += part.stop - part.start
        if held >= PORTION_REQUESTS:
            yield portion
            portion, held = [], 0
    if portion:
        yield portion


def _parts(kept: Sequence[Kept], receiver: int) -> Iterator[Part]:
    for sender, one in enumerate(kept):
        for handle, ends in zip(one.handles, one.ends, strict=True):
            first, last = (int(end) for end in ends[receiver : receiver + 2])
            for start in range(first, last, PORTION_REQUESTS):
                yield Part(sender, handle, start, min(start + PORTION_REQUESTS, last))


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
        found = tasks.add("search-found", 0, list_kept, List(), List(*ranks), kind=ListTask)
        shapes = tasks.add("search-shapes", 0, shapes_of, asked)
        for bundle in range(len(sorts)):
            tasks.add("search-scatter", bundle, fill_kept, shapes, Rows(question.dtype, ()), found, bundle)
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


def list_needles(needles: list[Kept], cuts: list[IntArray]) -> Asked:
    """Task: where all needles are."""
    cut = [replace(own, ends=[ends]) for own, ends in zip(needles, cuts, strict=True)]
    return list_kept([], cut)


def keep_found(keys: Keys, asked: Asked, group: int, question: Question) -> Kept:
    """Task: look up the needles for a group."""
    handles, scan = keys
    run = take_run(handles[group])
    found = run.keys, next(iter(run.values), None)
    return reply_to(
        asked[1], group, lambda needles: look_up_piece(found, needles, scan, group, question, ordered=False)
    )
