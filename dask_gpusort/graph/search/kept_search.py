r"""A search through runs that workers keep: no task's result is held while others are made.

::

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

Import this module only where a client of distributed is in use: it imports distributed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...chunk import ops_for
from ...chunk.run import Run
from ...table import IntArray
from .._dask import List
from ..input_checks import DeclaredChunk
from ..positions.kept_positions import Asked, Kept, fill_kept, list_kept, reply_to, shapes_of
from ..positions.requests import Rows
from ..runs.keep_and_take import check_listed, keep, open_run, take_run
from ..runs.plugins import ListTask, RunTask
from ..runs.store import Handle
from ..tasks import Tasks
from .lookup import Lookup, Scan, cut_bundle, group_ends, scan_groups, sort_bundle
from .question import Question, join_keys, wanted_of

#: Where the keys of each group are, and where groups begin.
Keys: TypeAlias = tuple[list[Handle], Scan]


def search_kept(tasks: Tasks, lookup: Lookup) -> None:
    """Add the tasks from the chunks of keys and needles to the results of bundles."""
    question, keep = lookup.question, {"kind": RunTask}
    joins = [tasks.add("search-join", group, keep_keys, *own, **keep) for group, own in enumerate(lookup.joined())]
    scan = tasks.add("search-scan", 0, scan_kept, List(*joins), kind=ListTask)
    sorts = [
        tasks.add("search-sort", bundle, keep_needles, *own, question, **keep)
        for bundle, own in enumerate(lookup.needles)
    ]
    cuts = [tasks.add("search-cut", bundle, cut_kept, own, scan, question) for bundle, own in enumerate(sorts)]
    asked = tasks.add("search-asked", 0, list_needles, List(*sorts), List(*cuts), kind=ListTask)
    ranks = [
        tasks.add("search-rank", group, keep_found, scan, asked, group, question, **keep) for group in range(len(joins))
    ]
    found = tasks.add("search-found", 0, list_kept, List(), List(*ranks), kind=ListTask)
    shapes = tasks.add("search-shapes", 0, shapes_of, asked)
    for bundle in range(len(sorts)):
        tasks.add("search-scatter", bundle, fill_kept, shapes, Rows(question.dtype, ()), found, bundle)


def keep_keys(*arguments: Any) -> tuple[Handle, tuple[Any, int]]:
    """Task: keep the keys of a group; the arguments are those of `join_keys`. Gives what `group_ends` gives, too."""
    found = join_keys(*arguments)
    (handle,) = keep([Run(found[0])])
    return handle, group_ends(found)


def scan_kept(kept: list[tuple[Handle, tuple[Any, int]]]) -> Keys:
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

    def look_up(needles: Any) -> Any:
        ranks = ops_for(needles).rank(run.keys, needles, question.transit, question.side)
        found = wanted_of(run.keys, needles, ranks, question)
        return found + scan.starts[group] if question.is_rank else found

    return reply_to(asked[1], group, look_up)
