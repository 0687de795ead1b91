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
from .._dask import List, Task, TaskRef
from ..input_checks import declared_chunks
from ..local_sort import NOTHING
from ..recipe import ArrayRecipe, Chunks
from .requests import GroupedAxis, Rows, cut_offsets, fill_from_replies, join_group, keys_of, make_requests, order_of


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

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> dict[Key, Task]:
        """Tasks from the chunks to the filled bundles."""
        if self.kept:
            # Imported here, because it imports distributed.
            from .kept_positions import take_kept

            return {task.key: task for task in take_kept(self)}
        return {task.key: task for task in (*self._requests(), *self._sources(), *self._replies())}

    @property
    def source_keys(self) -> list[Key]:
        """Keys of the source's chunks."""
        return keys_of(self.names[0], (self.groups.ends[-1],), len(self.rows.shape))

    def _sources(self) -> Iterator[Task]:
        chunks = self.source_keys
        for group in range(len(self.groups)):
            own = List(*(TaskRef(chunks[chunk]) for chunk in self.groups.chunks(group)))
            yield Task((f"take-source-{self.token}", group), join_group, own, self.axis.size_of(group))

    @property
    def requested(self) -> Iterator[tuple[Any, ...]]:
        """The arguments of `make_requests` for each bundle."""
        declared = declared_chunks("the indices", self.index_dtype, self.index_chunks)
        for bundle in range(len(self.bundles)):
            said = [declared[chunk] for chunk in self.bundles.chunks(bundle)]
            yield List(*(TaskRef((self.names[1], *one.index)) for one in said)), List(), self.axis, [said]

    def _requests(self) -> Iterator[Task]:
        for bundle, own in enumerate(self.requested):
            yield Task((f"take-requests-{self.token}", bundle), make_requests, *own)

    def _replies(self) -> Iterator[Task]:
        for bundle in range(len(self.bundles)):
            requests = TaskRef((f"take-requests-{self.token}", bundle))
            found = []
            for group in range(len(self.groups)):
                shard = Task((f"take-shard-{self.token}", bundle, group), cut_offsets, requests, group)
                source = TaskRef((f"take-source-{self.token}", group))
                found.append(Task((f"take-reply-{self.token}", bundle, group), reply, source, shard.ref()))
                yield from (shard, found[-1])
            order = Task((f"take-order-{self.token}", bundle), order_of, requests)
            replies = List(*(task.ref() for task in found))
            yield from (
                order,
                Task((f"take-fill-{self.token}", bundle), fill_from_replies, order.ref(), replies, self.rows),
            )

    def output(self, name: str, which: int, chunks: Chunks, *, all_wanted: bool = False) -> dict[Key, Task]:
        """Tasks from the filled bundles to the output chunks."""
        keys = keys_of(name, [len(sizes) for sizes in self.index_chunks], len(self.rows.shape))
        tasks = (
            Task(keys[chunk], getitem, TaskRef((f"take-fill-{self.token}", bundle)), number)
            for bundle in range(len(self.bundles))
            for number, chunk in enumerate(self.bundles.chunks(bundle))
        )
        return {task.key: task for task in tasks}
