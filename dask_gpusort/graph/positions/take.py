"""Elements at positions in several groups of chunks: requests go to the groups, elements come back.

Data flow, for O bundles of indices and S groups of the source::

    indices of bundle o                            source chunks of group s
        |                                                   |
    take-requests o     divided by group                take-source s     joined
        |           |                                       |
        |       take-shard (o, s)      offsets ------> take-reply (o, s)
        |                                                   |
    take-order o        what goes where                     |  elements
        |                                                   |
    take-fill o  <------------------------------------------
        |
    output chunks

Each reply is a task of its own, so no task holds more than a group and a bundle, wherever the indices point. Where
workers keep what moves, it is a portion of a task (see `kept_positions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np
from dask.typing import Key

from ...chunk import complete, ops_for
from ...plan.positions import Bundles
from .._dask import List
from ..input_checks import declared_chunks
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunks_of
from .requests import GroupedAxis, Rows, cut_offsets, fill_from_replies, join_group, make_requests, order_of


def reply(source: Any, offsets: Any) -> Any:
    """Task: the elements of a group at some offsets."""
    return complete(ops_for(source).take(source, offsets, 0))


@dataclass(frozen=True)
class Take(ArrayRecipe):
    """Hold all that the tasks of one read by an exchange are made from."""

    names: tuple[str, ...]  # of the source and of the indices
    axis: GroupedAxis  # the first axis of the source
    groups: Bundles  # of the source's chunks
    bundles: Bundles  # of the chunks of indices in C order
    index_dtype: np.dtype[Any]
    index_chunks: Chunks  # sizes in each dimension, nan where unknown
    rows: Rows  # of the source, whose dimensions after the first are one chunk each
    kept: bool = False  # whether workers keep what moves, in memory or in files

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the chunks to the filled bundles."""
        tasks = Tasks(self.token)
        if self.kept:
            # Imported here, because it imports distributed.
            from .kept_positions import take_kept

            take_kept(tasks, self)
            return tasks
        chunks, groups = self.source, range(len(self.groups))
        for group in groups:
            own = List(*(chunks[chunk] for chunk in self.groups.chunks(group)))
            tasks.add("take-source", group, join_group, own, self.axis.size_of(group))
        for bundle, asked in enumerate(self.requested):
            requests, replies = tasks.add("take-requests", bundle, make_requests, *asked), []
            for group in groups:
                shard = tasks.add("take-shard", (bundle, group), cut_offsets, requests, group)
                replies.append(tasks.add("take-reply", (bundle, group), reply, tasks.ref("take-source", group), shard))
            order = tasks.add("take-order", bundle, order_of, requests)
            tasks.add("take-fill", bundle, fill_from_replies, order, List(*replies), self.rows)
        return tasks

    @property
    def source(self) -> list[Any]:
        """References to the source's chunks."""
        return chunks_of(self.names[0], np.ndindex(self.groups.ends[-1]), len(self.rows.shape))

    @property
    def requested(self) -> Iterator[tuple[Any, ...]]:
        """The arguments of `make_requests` for each bundle."""
        declared = declared_chunks("the indices", self.index_dtype, self.index_chunks)
        for bundle in range(len(self.bundles)):
            said = [declared[chunk] for chunk in self.bundles.chunks(bundle)]
            yield List(*chunks_of(self.names[1], (one.index for one in said))), List(), self.axis, [said]

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the filled bundles to the output chunks."""
        tasks, behind = Tasks(self.token), (0,) * len(self.rows.shape)
        indices = list(np.ndindex(*map(len, self.index_chunks)))
        for bundle in range(len(self.bundles)):
            for number, chunk in enumerate(self.bundles.chunks(bundle)):
                tasks.put((name, *indices[chunk], *behind), getitem, tasks.ref("take-fill", bundle), number)
        return tasks
