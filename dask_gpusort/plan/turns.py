"""An exchange by tasks on GPUs, where bundles, and then groups, take turns: their sizes, and the memory they take.

A GPU sorts one bundle, and merges one group, at a time (see `cupy_joins.exclusive`). If its memory is needed, all
bundles are cut before a group is merged (`Plan.cut_first`). So the keys are held once, besides the bundle or the group
whose turn it is::

    sort     sorted bundles, and chunks that wait | chunks of a finished bundle | step of the bundle
    cut      sorted bundles, and shards           | shards of bundles not freed yet
    merge    shards, and finished groups          | shards of a finished group  | step of the group

Dask frees what a task has read after the next task has begun. Bundles and groups are as large as the rest of the memory
allows: fewer tasks, fewer pieces to merge.

Each of several GPUs has an equal share of the keys, and of the bundles and groups. A group's shards are on all GPUs.
One GPU merges it, from copies of the others' shards. Meanwhile the shards of its next group arrive
(`Plan.awaited_by`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..order import POSITION_BYTES, Order
from .join import join_bytes
from .terms import InputChunks, chunks_of_workers

#: Share of a GPU's memory that the sort may take. The rest is lost between the blocks of CuPy's pool, which are split
#: for smaller arrays: where the plan took nine tenths of a pool of 4 GiB, 2 GiB of uint32 were sorted and 2.4 GiB were
#: not, nor was `argsort` of 1 GiB.
TURNS_FRACTION = 0.65
#: Share of a GPU's memory up to which keys and a kept input leave enough of it: all sorts tried of half the memory
#: ended (64 and 200 chunks, 1 and 16 threads), none of six tenths.
KEPT_FRACTION = 1 / 2
#: Bytes of a position in a run.
RUN_POSITION_BYTES = 4
#: Bundles of which shards exist before the bundle is freed: several threads cut ahead.
CUT_BUNDLES = 2
#: Most bundles. Smaller ones would save less than 3 % of the memory.
MOST_BUNDLES = 32
#: Most groups of a GPU.
MOST_GROUPS = 64
#: Groups of a GPU whose shards it fetches at the same time: one is merged while the next arrives.
FETCHED_GROUPS = 2


@dataclass(frozen=True)
class Turns:
    """Account for the memory of an exchange on GPUs, in bytes for each key and its companions."""

    keys: float  # that each GPU holds
    given: int  # in the input
    in_run: int  # in a sorted run
    output: int  # in the output
    step: float  # that the sort of a bundle takes beside its chunks, or the merge of a group beside its shards
    held: bool  # whether the input is kept in memory beside the sort
    memory: int  # bytes of each GPU
    devices: int = 1

    @property
    def bundle_keys(self) -> float:
        """Most keys of a bundle, if no chunk is larger."""
        each = max(self._sort_step - self.in_run, CUT_BUNDLES * self.in_run)
        return max(self._free / each, self.keys / MOST_BUNDLES)

    def num_groups(self, num_bundles: int, num_chunks: int) -> int:
        """Count groups: more than output chunks, whose parts are copied once more, only if a step is too large."""
        # A group's shards, once freed, leave one hole in the memory of every bundle. Only after about as many groups as
        # there are bundles have the holes grown to the size of a group. Until then every group takes new memory: on a
        # pool of 4 GiB, 2 GiB of uint32 in 4 bundles did not fit in 4 groups.
        with_holes = self._groups_of(self._merge_step + num_bundles / self.devices * self.output)
        return min(with_holes, max(num_chunks, self._groups_of(self._merge_step)))

    def _groups_of(self, step: float) -> int:
        return self.devices * math.ceil(self.keys / max(self._free / step, self.keys / MOST_GROUPS, 1))

    def cuts_first(self, num_bundles: int, group: float) -> bool:
        """Whether all bundles must be cut before a group, of at most so many keys, is merged.

        Between several GPUs shards move while other bundles are cut, unless sorted bundles and finished groups fill the
        memory.
        """
        if self.devices == 1:
            return num_bundles > 1
        return self._kept + self._more_if_both(group) > TURNS_FRACTION * self.memory

    def _more_if_both(self, group: float) -> float:
        """Bytes beside the larger of bundles and groups if both are held."""
        return self.keys * min(self.in_run, self.output) + group * self._merge_step

    @property
    def fits(self) -> bool:
        """Whether a pool can be expected to hold the sort."""
        return self._kept <= KEPT_FRACTION * self.memory

    def peak(
        self, bundles: Iterable[float], groups: Iterable[float], divided_chunk: float, *, cut_first: bool = True
    ) -> float:
        """Compute the most bytes of a GPU in use, beside the input if it is kept; arguments but the last count keys."""
        # `divided_chunk` is the largest output chunk that several groups make.
        bundle, group = max(bundles, default=0), max(groups, default=0)
        rest = group * self._merge_step if cut_first or self.devices == 1 else self._more_if_both(group)
        return max(
            self.keys * self.in_run + bundle * (self._sort_step - self.in_run),
            (self.keys + CUT_BUNDLES * bundle) * self.in_run,
            self.keys * max(self.in_run, self.output) + rest,
            (self.keys + divided_chunk) * self.output,
        )

    @property
    def _sort_step(self) -> float:
        # Kept chunks are counted as input. Others are freed after the next bundle's turn has begun.
        return self.step + (0 if self.held else 2 * self.given)

    @property
    def _merge_step(self) -> float:
        fetched = (1 + FETCHED_GROUPS) * (self.devices - 1) / self.devices
        return (1 + fetched) * self.in_run + self.step

    @property
    def _kept(self) -> float:
        """Bytes of the sorted runs, or of the outputs that take their place, and of an input that is kept."""
        return self.keys * (max(self.in_run, self.output) + self.given * self.held)

    @property
    def _free(self) -> float:
        """Bytes that the bundle or the group may take whose turn it is."""
        return TURNS_FRACTION * self.memory - self._kept


def make_turns(order: Order, given: InputChunks, memory: int, devices: int) -> Turns:
    """Account for the memory of an exchange of chunks of known sizes on GPUs of `memory` bytes each."""
    keys, moved = sum(given.sizes), given.companion_bytes
    held_there = (sum(given.sizes[chunk] for chunk in chunks) for chunks in chunks_of_workers(given))
    if given.positions:
        moved -= POSITION_BYTES
    in_run = order.transit_dtype.itemsize + moved + (RUN_POSITION_BYTES if given.positions else 0)
    return Turns(
        keys=max(keys / devices, *held_there, 0),
        given=order.transit_dtype.itemsize + moved,
        in_run=in_run,
        output=POSITION_BYTES if given.positions else in_run,
        step=_step_bytes(order, given, in_run) / keys if keys else 0.0,
        held=given.held,
        memory=memory,
        devices=devices,
    )


def _step_bytes(order: Order, given: InputChunks, in_run: int) -> float:
    """Count bytes that the sort of all keys as one bundle takes beside its chunks."""
    # It is the figure of a join, but for what the two do differently, as measured on CuPy's pool: a bundle's positions
    # are in memory of their own, and its outputs replace what the sort has read. Wide keys alone take 2.5 times their
    # bytes on one thread and 4.5 on several.
    joined, rows = join_bytes(order, given), sum(given.sizes) * in_run
    if given.positions and not given.packed:
        return joined + rows if order.coded else joined
    if order.coded and not given.companions:
        return joined
    return joined - (rows if given.companions or given.packed else 2 * rows)
