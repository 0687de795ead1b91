"""Values for positions in several groups of chunks: each group receives what is written to it.

Data flow, for O bundles of indices and values and T groups of the array::

    indices, values of bundle o                chunks of group t
        |                                          |
    put-requests o      divided by group           |
        |                                          |
    put-shard (o, t)    offsets, values  --->  put-merge t      a copy of the group, written bundle by bundle
                                                   |
                                               output chunks

Bundles are in C order, and requests for a group keep their order. So the last value for a position stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from dask.typing import Key

from ...chunk import complete, ops_for
from ...chunk.run import Run
from ...plan import Size
from ...plan.positions import Bundles
from .._dask import List
from ..input_checks import checked_chunk, declared_chunks, wrong_size
from ..sort.finish import take_part
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunks_of
from .requests import GroupedAxis, cut_shard, make_requests


@dataclass(frozen=True)
class GroupWriter:
    """Make a group from what it held before and from values: a function that can be pickled."""

    size: int  # positions of the group

    def __call__(self, chunks: Sequence[Any], shards: Iterable[Run]) -> tuple[Any]:
        """Write all shards to the group in their order."""
        blocks = [checked_chunk(block, None) for block in chunks]
        ops = ops_for(blocks[0])
        whole = ops.concatenate_along(blocks, 0)
        if len(whole) != self.size:
            raise wrong_size(f"a group of chunks has {len(whole)} elements", self.size)
        for shard in shards:
            ops.put(whole, shard.keys, *shard.values)
        return (complete(whole),)


def write_group(chunks: list[Any], shards: list[Run], writer: GroupWriter) -> tuple[Any]:
    """Task: a group with the values of all shards."""
    return writer(chunks, shards)


@dataclass(frozen=True)
class Put(ArrayRecipe):
    """Hold all that the tasks of one write by an exchange are made from."""

    names: tuple[str, ...]  # of the indices, of the values, and of the array
    axis: GroupedAxis  # of the array
    groups: Bundles  # of the array's chunks
    bundles: Bundles  # of the chunks of indices
    dtypes: tuple[np.dtype[Any], ...]  # of the indices and of the values
    sizes: tuple[Size, ...]  # indices, and values, in each chunk
    kept: bool = False  # whether workers keep what moves, in memory or in files

    def writer(self, group: int) -> GroupWriter:
        """The function that makes a group."""
        return GroupWriter(self.axis.size_of(group))

    def before(self, group: int) -> List:
        """The chunks of a group before it is written."""
        return List(*chunks_of(self.names[-1], ((chunk,) for chunk in self.groups.chunks(group))))

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the chunks to the written groups."""
        tasks = Tasks(self.token)
        if self.kept:
            # Imported here, because it imports distributed.
            from .kept_positions import put_kept

            put_kept(tasks, self)
            return tasks
        requests = [tasks.add("put-requests", bundle, make_requests, *own) for bundle, own in enumerate(self.requested)]
        for group in range(len(self.groups)):
            shards = [
                tasks.add("put-shard", (bundle, group), cut_shard, own, group) for bundle, own in enumerate(requests)
            ]
            tasks.add("put-merge", group, write_group, self.before(group), List(*shards), self.writer(group))
        return tasks

    @property
    def requested(self) -> Iterator[tuple[Any, ...]]:
        """The arguments of `make_requests` for each bundle."""
        arrays = zip(("the indices", "the values"), self.dtypes, strict=True)
        declared = [declared_chunks(what, dtype, (self.sizes,)) for what, dtype in arrays]
        for bundle in range(len(self.bundles)):
            chunks = self.bundles.chunks(bundle)
            own, moved = (List(*chunks_of(name, ((chunk,) for chunk in chunks))) for name in self.names[:2])
            said = [[array[chunk] for chunk in chunks] for array in declared]
            yield own, List(moved), self.axis, said

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the written groups to the chunks of one output."""
        tasks = Tasks(self.token)
        for group in range(len(self.groups)):
            own = self.groups.chunks(group)
            ends = pairwise(accumulate((int(chunks[0][chunk]) for chunk in own), initial=0))
            for chunk, part in zip(own, ends, strict=True):
                tasks.put((name, chunk), take_part, tasks.ref("put-merge", group), which, *part)
        return tasks
