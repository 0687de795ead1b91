"""The plan for an array and its indices, by the scheduler in use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import dask.array as da

from ...config import setting
from ...plan import Workers
from ...plan.positions import (
    INDEX_BYTES,
    Addressed,
    PositionsExchange,
    PositionsPlan,
    bundle_chunks,
    choose_addressing,
    largest_bytes,
    names_few_chunks,
)
from ..collection import chunk_library
from ..rechunk import chunk_limit
from ..scheduler import (
    ONE_PROCESS,
    choose_exchange,
    host_memory,
    install_or_else,
    scheduler_in_use,
    workers_in_use,
)

#: Elements, or indices, of each chunk, and the bytes that move with each.
Moved = tuple[Sequence[float], int]


def plan_take(array: Any, indices: Any, axis: int) -> PositionsPlan:
    """The plan of `take`: the rows of an array, each of all elements at one position."""
    plan = plan_positions(array, indices, axis)
    if plan.strategy != "exchange":
        return plan
    row = array.dtype.itemsize * math.prod(size for dim, size in enumerate(array.shape) if dim != axis)
    in_chunk = [math.prod(sizes) for sizes in product(*indices.chunks)]
    return replace(plan, exchange=plan_exchange(array, (array.chunks[axis], row), (in_chunk, row + INDEX_BYTES)))


def plan_take_along(array: Any, indices: Any, axis: int) -> PositionsPlan:
    """The plan of `take_along_axis`; an exchange is that of one lane."""
    plan, item = plan_positions(array, indices, axis), array.dtype.itemsize
    if plan.strategy != "exchange":
        return plan
    moved = (array.chunks[axis], item), (indices.chunks[axis], item + INDEX_BYTES)
    return replace(plan, exchange=plan_exchange(array, *moved))


def plan_put_along(array: Any, indices: Any, values: Any, axis: int) -> PositionsPlan:
    """The plan of `put_along_axis`; an exchange is that of one lane."""
    plan, item = plan_positions(array, indices, axis, values.dtype.itemsize), array.dtype.itemsize + INDEX_BYTES
    if plan.strategy != "exchange":
        return plan
    return replace(plan, exchange=plan_exchange(array, (array.chunks[axis], item), (indices.chunks[axis], item)))


def plan_slices(array: Any, positions: Any, axis: int) -> PositionsPlan | None:
    """The plan of `take` of few indices in memory; None if they are taken as indices in a Dask array are."""
    if not names_few_chunks(positions.size, array.shape[axis], array.size, da.array_expr_enabled()):
        return None
    return PositionsPlan("slices", "few", _addressed(array, positions.size, 1, axis), math.inf)


def plan_positions(array: Any, indices: Any, axis: int, moved_bytes: int = 0) -> PositionsPlan:
    """The plan for reading, or for writing values of `moved_bytes` each, but for the exchange."""
    count = 0 if 0 in indices.shape else indices.size
    addressed = _addressed(array, count, indices.numblocks[axis] if moved_bytes else 1, axis, moved_bytes)
    shared, memory = shared_memory(array)
    return PositionsPlan(*choose_addressing(addressed, shared, memory, setting("exchange")), addressed, memory)


def _addressed(array: Any, indices: float, least_chunks: int, axis: int, moved_bytes: int = 0) -> Addressed:
    others = [dim for dim in range(array.ndim) if dim != axis]
    return Addressed(
        chunks=max(array.numblocks[axis], least_chunks),
        size=array.shape[axis],
        lanes=math.prod(array.shape[dim] for dim in others),
        itemsize=array.dtype.itemsize,
        indices=indices,
        limit=chunk_limit(array),
        index_bytes=8 + moved_bytes if moved_bytes else 0,
        blocks=math.prod(array.numblocks[dim] for dim in others),
    )


def plan_exchange(array: Any, elements: Moved, indices: Moved) -> PositionsExchange:
    """The exchange between the chunks of elements and the chunks of indices, on the scheduler of an array."""
    groups, bundles = (bundle_chunks(*moved, _workers(array), setting("groups")) for moved in (elements, indices))
    return PositionsExchange(
        groups=groups,
        bundles=bundles,
        kept=keeps_runs(array),
        group_bytes=largest_bytes(groups, *elements),
        bundle_bytes=largest_bytes(bundles, *indices),
    )


def shared_memory(array: Any) -> tuple[bool, float]:
    """Whether all tasks run in one memory, and the bytes that joined chunks may take there."""
    kind, _ = scheduler_in_use(array)
    workers = _workers(array)
    shared = kind in ONE_PROCESS or workers.processes == 1 or (workers.devices and workers.threads == 1)
    memory = math.inf if workers.memory is None else workers.memory * workers.threads
    return shared, memory * setting("held_share")


def _workers(array: Any) -> Workers:
    kind, client = scheduler_in_use(array)
    workers = workers_in_use(kind, client, chunk_library(array))
    memory = host_memory() if workers.memory is None and kind in ONE_PROCESS else None
    return workers if memory is None else replace(workers, memory=memory // workers.threads)


def keeps_runs(array: Any) -> bool:
    """Whether workers keep what moves."""
    kind, client = scheduler_in_use(array)
    asked = setting("exchange")
    wanted = asked if asked in ("auto", "runs") else "tasks"
    chosen = choose_exchange(wanted, kind, chunk_library(array))
    return install_or_else(chosen, wanted, client)[0] == "runs"
