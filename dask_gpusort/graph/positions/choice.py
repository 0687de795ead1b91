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
    describe_positions,
    largest_bytes,
    names_few_chunks,
)
from ..exchanges import choose_exchange, install_or_else
from ..explain import note
from ..rechunk import chunk_limit
from ..runtime import Runtime

#: Elements, or indices, of each chunk, and the bytes that move with each.
Moved = tuple[Sequence[float], int]


def plan_take(array: Any, indices: Any, axis: int) -> PositionsPlan:
    """The plan of `take`: the rows of an array, each of all elements at one position."""
    row = array.dtype.itemsize * math.prod(size for dim, size in enumerate(array.shape) if dim != axis)
    in_chunk = [math.prod(sizes) for sizes in product(*indices.chunks)]
    return _plan(array, indices, axis, (array.chunks[axis], row), (in_chunk, row + INDEX_BYTES))


def plan_take_along(array: Any, indices: Any, axis: int) -> PositionsPlan:
    """The plan of `take_along_axis`; an exchange is that of one lane."""
    item = array.dtype.itemsize
    return _plan(array, indices, axis, (array.chunks[axis], item), (indices.chunks[axis], item + INDEX_BYTES))


def plan_put_along(array: Any, indices: Any, values: Any, axis: int) -> PositionsPlan:
    """The plan of `put_along_axis`; an exchange is that of one lane."""
    item = array.dtype.itemsize + INDEX_BYTES
    moved = (array.chunks[axis], item), (indices.chunks[axis], item)
    return _plan(array, indices, axis, *moved, written_bytes=values.dtype.itemsize)


def plan_slices(array: Any, positions: Any, axis: int) -> PositionsPlan | None:
    """The plan of `take` of few indices in memory; None if they are taken as indices in a Dask array are."""
    if not names_few_chunks(positions.size, array.shape[axis], array.size, da.array_expr_enabled()):
        return None
    return _noted(PositionsPlan("slices", "few", _addressed(array, positions.size, 1, axis), math.inf))


def _plan(
    array: Any, indices: Any, axis: int, elements: Moved, requests: Moved, written_bytes: int = 0
) -> PositionsPlan:
    """The plan for reading, or for writing values; elements and requests are what an exchange of one lane moves."""
    runtime = Runtime.of(array)
    count = 0 if 0 in indices.shape else indices.size
    addressed = _addressed(array, count, indices.numblocks[axis] if written_bytes else 1, axis, written_bytes)
    workers = _workers(runtime)
    shared = runtime.one_process or workers.processes == 1 or (workers.devices and workers.threads == 1)
    memory = math.inf if workers.memory is None else workers.memory * workers.threads
    memory *= setting("held_share")
    chosen = choose_addressing(addressed, shared, memory, setting("exchange"))
    plan = PositionsPlan(*chosen, addressed, memory)
    if plan.strategy != "exchange":
        return _noted(plan)
    groups, bundles = (bundle_chunks(*moved, workers, setting("groups")) for moved in (elements, requests))
    exchange = PositionsExchange(
        groups=groups,
        bundles=bundles,
        kept=keeps_runs(runtime),
        group_bytes=largest_bytes(groups, *elements),
        bundle_bytes=largest_bytes(bundles, *requests),
    )
    return _noted(replace(plan, exchange=exchange))


def _noted(plan: PositionsPlan) -> PositionsPlan:
    note(plan, lambda made: describe_positions(plan, made.tasks, made.found_chunks))
    return plan


def _addressed(array: Any, indices: float, least_chunks: int, axis: int, written_bytes: int = 0) -> Addressed:
    others = [dim for dim in range(array.ndim) if dim != axis]
    return Addressed(
        chunks=max(array.numblocks[axis], least_chunks),
        size=array.shape[axis],
        lanes=math.prod(array.shape[dim] for dim in others),
        itemsize=array.dtype.itemsize,
        indices=indices,
        limit=chunk_limit(array),
        index_bytes=8 + written_bytes if written_bytes else 0,
        blocks=math.prod(array.numblocks[dim] for dim in others),
    )


def _workers(runtime: Runtime) -> Workers:
    workers = runtime.workers
    memory = runtime.memory if workers.memory is None else None
    return workers if memory is None else replace(workers, memory=memory // workers.threads)


def keeps_runs(runtime: Runtime) -> bool:
    """Whether workers keep what moves."""
    asked = setting("exchange")
    wanted = asked if asked in ("auto", "runs") else "tasks"
    chosen = choose_exchange(wanted, runtime.kind, runtime.library)
    return install_or_else(chosen, wanted, runtime.client)[0] == "runs"
