"""The graph of a gang, and what its members do. Tasks ``sort-gang`` and ``sort-joined``, or the output's own."""

from __future__ import annotations

import time
import zlib
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...chunk import complete, library_of, ops_for
from ...chunk.run import Run
from ...plan import Plan
from .. import serialization
from .._dask import List, MarkedTask, Task
from .._distributed import context_meter
from ..input_checks import changed_run
from ..sort.by_tasks import Bundle, Sources, pieces_in_order, scan, sort_bundle, take_shard, take_summaries
from ..sort.finish import Finish, GroupRef
from ..sort.local import LocalSort, RunSource, chunk_arrays
from ..sort.scan import Bounds, fingerprint
from ..tasks import Tasks
from .communicator import Shards
from .coordinator import DIGEST_BYTES
from .member import GangSpec, Start, enlist


class GangTask(MarkedTask):
    """The task of a member. Its mark is the `GangSpec`."""

    __slots__ = ()


def gang_exchange(
    tasks: Tasks, plan: Plan, sources: Sources, finish: Finish, timeout: float, on_devices: bool = False
) -> None:
    """Add a gang, from the input chunks to the outputs of its members (see `member_outputs`)."""
    for rank in range(len(plan.sources)):
        spec = GangSpec(tasks.token, rank, len(plan.sources), timeout, on_devices)
        arguments = _arguments(spec, plan, sources, finish)
        member = tasks.add("sort-gang", rank, sort_in_gang, *arguments, kind=GangTask, mark=spec)
        tasks.add("sort-joined", rank, note_joined, member)


def member_chunks(
    chunks: Tasks,
    plan: Plan,
    sources: Sources,
    finish: Finish,
    timeout: float,
    on_devices: bool = False,
) -> Tasks:
    """Make the graph of a gang of which each member is a chunk of the only output: one step less than behind members.

    `chunks` are the same chunks as tasks behind members of another gang.
    """
    found = Tasks(chunks.token)
    for rank, (key, task) in enumerate(chunks.items()):
        spec = GangSpec(f"{key[0]}", rank, len(plan.sources), timeout, on_devices)  # type: ignore[index]
        arguments = _arguments(spec, plan, sources, finish)
        found.put(key, sort_as_chunk, *arguments, kind=GangTask, mark=replace(spec, instead=task))
    return found


def _arguments(spec: GangSpec, plan: Plan, sources: Sources, finish: Finish) -> tuple[Any, ...]:
    """Arguments of `sort_in_gang`."""
    serialization.register()
    runs, local, keys = sources
    numbers = plan.sources[spec.rank]
    own = tuple(runs[number] for number in numbers)
    return List(*(chunk_arrays(source, keys) for source in own)), numbers, own, local, spec, plan, finish


def member_outputs(tasks: Tasks, plan: Plan, all_wanted: bool) -> tuple[list[GroupRef], GroupRef]:
    """Name the outputs of each member, and the bounds of the cuts, as arguments of tasks."""
    # Unless all output chunks are wanted and each member makes some, each of them must need every member, because
    # members cannot run without each other.
    ranks = range(len(plan.sources))
    joined = [tasks.ref("sort-joined", rank) for rank in ranks]
    alone = all_wanted and plan.all_have_chunks
    behind = List(*(() if alone else joined))
    outputs: list[GroupRef] = [Task(None, take_outputs, tasks.ref("sort-gang", rank), behind) for rank in ranks]
    return outputs, joined[0]


def take_outputs(made: tuple[tuple[Any, ...], Bounds | None], joined: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of a member. `joined` makes the task need all members, and is not used."""
    return made[0]


def note_joined(made: tuple[tuple[Any, ...], Bounds | None]) -> Bounds | None:
    """Task: a member has finished. If chunk sizes are unknown, the result is the bounds of the cuts."""
    return made[1]


def sort_in_gang(
    arrays: list[list[Any]],
    numbers: tuple[int, ...],
    sources: tuple[RunSource, ...],
    local: LocalSort,
    spec: GangSpec,
    plan: Plan,
    finish: Finish,
) -> tuple[tuple[Any, ...], Bounds | None]:
    """Task: run one member of a gang, for its part of each output, and the bounds if chunk sizes are unknown."""
    begin = time.monotonic()
    with context_meter.meter("sort"):
        bundle = sort_bundle(arrays, numbers, sources, local, plan.samples, plan.radix_bits)
    work = SortWork(bundle, spec.rank, plan, finish)
    del bundle
    on_devices = library_of(work.bundle.runs[0].keys) == "cupy"
    with enlist(spec, on_devices, time.monotonic() - begin) as member:
        member.exchange(take_summaries(work.bundle), work)
    with context_meter.meter("merge"):
        complete(work.arrays[0])
    return work.arrays, None if plan.known else work.bounds


def sort_as_chunk(*arguments: Any) -> Any:
    """Task: one member of a gang, which makes one chunk of the only output array."""
    (chunk,), _ = sort_in_gang(*arguments)
    return chunk


class SortWork:
    """Work on a member's sorted bundle (see `member.Work`)."""

    bounds: Bounds  # of the last attempt, the same in all members
    received: list[Run]  # the shards of all members, by rank
    arrays: tuple[Any, ...]  # the member's part of each output, once merged

    def __init__(self, bundle: Bundle, rank: int, plan: Plan, finish: Finish):
        # The bundle is kept until all shards have arrived, because an exchange may be repeated.
        self.bundle, self.rank, self.plan, self.finish_group = bundle, rank, plan, finish

    def digest(self) -> bytes:
        """Checksum of the summaries. Pickles of equal Python objects may differ, so it is not that of a pickle."""
        return zlib.crc32(np.array(list(map(fingerprint, self.bundle.summaries))).tobytes()).to_bytes(DIGEST_BYTES)

    def exchanges(self, start: Start) -> Generator[Shards, list[Run], None]:
        """Cut the shard for the group of each member, and count the keys that each sends."""
        plan = self.plan
        for rank in start.changed:
            raise changed_run(plan.runs[plan.sources[rank][0]], plan.order)
        self.bounds = scan(start.summaries, plan)
        sent = [take_shard(self.bundle, self.bounds, group, copy=False) for group in range(len(plan.sources))]
        lengths = self.bounds.lengths(self.rank)
        self.received = yield Shards(sent, [int(lengths[list(numbers)].sum()) for numbers in plan.sources])

    def finish(self) -> None:
        """Free the bundle, except what others still fetch, and merge the member's group."""
        received = self.received
        del self.bundle, self.received
        pieces = pieces_in_order(received, self.bounds, self.rank, self.plan)
        with ops_for(received[0].keys).exclusive():
            self.arrays = self.finish_group(pieces, self.bounds.kept(self.rank))
