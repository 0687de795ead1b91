"""The strategy for an array and its indices, by the scheduler in use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...config import setting
from ...plan import Workers
from ...plan.groups import exceeds_exchange
from ...plan.positions import Addressed, Bundles, PositionsStrategy, bundle_chunks, choose_addressing
from ..collection import chunk_library
from ..rechunk import chunk_limit
from ..scheduler import ONE_PROCESS, choose_exchange, host_memory, scheduler_in_use, workers_in_use

#: Bytes that travel with an index, or are kept for it: the index, its offset in a group, its position in a bundle.
INDEX_BYTES = 24


def choose_strategy(array: Any, indices: Any, axis: int, moved_bytes: int = 0) -> PositionsStrategy:
    """The strategy for reading, or for writing values of `moved_bytes` each."""
    chunks = max(array.numblocks[axis], indices.numblocks[axis] if moved_bytes else 1)
    asked = setting("exchange")
    if any(map(math.isnan, array.shape)):
        return "blocks"  # which refuses several chunks along the axis
    if 0 in (*array.shape, *indices.shape):
        return "gather"
    if asked != "auto" and chunks > 1:
        return "gather" if asked in ("join", "gather") else "exchange"
    lanes = math.prod(size for dim, size in enumerate(array.shape) if dim != axis)
    addressed = Addressed(
        chunks=chunks,
        size=array.shape[axis],
        lanes=lanes,
        itemsize=array.dtype.itemsize,
        indices=indices.size,
        limit=chunk_limit(array),
        index_bytes=8 + moved_bytes if moved_bytes else 0,
    )
    return choose_addressing(addressed, *shared_memory(array))


def shared_memory(array: Any) -> tuple[bool, float]:
    """Whether all tasks run in one memory, and the bytes that joined chunks may take there."""
    kind, _ = scheduler_in_use(array)
    workers = _workers(array)
    shared = kind in ONE_PROCESS or workers.processes == 1 or (workers.devices and workers.threads == 1)
    memory = math.inf if workers.memory is None else workers.memory * workers.threads
    return shared, memory * setting("held_share")


def scatters_in_memory(positions: Any, total_bytes: float) -> bool:
    """Whether one task scatters so many bytes."""
    asked = setting("exchange")
    shared, memory = shared_memory(positions)
    return asked in ("join", "gather") or (asked == "auto" and shared and total_bytes <= memory)


def _workers(array: Any) -> Workers:
    kind, client = scheduler_in_use(array)
    workers = workers_in_use(kind, client, chunk_library(array))
    memory = host_memory() if workers.memory is None and kind in ONE_PROCESS else None
    return workers if memory is None else replace(workers, memory=memory // workers.threads)


def bundles_of(array: Any, sizes: Sequence[float], item_bytes: int) -> Bundles:
    """Bundles of chunks of these sizes, of which some may be unknown."""
    return bundle_chunks(sizes, item_bytes, _workers(array), setting("groups"))


def moves_by_p2p(array: Any, total_bytes: float) -> bool:
    """Whether the P2P engine of distributed moves so many bytes."""
    kind, _ = scheduler_in_use(array)
    asked, workers = setting("exchange"), _workers(array)
    known = workers.memory is not None and not math.isnan(total_bytes)
    fits = known and not exceeds_exchange(total_bytes, workers)
    chosen = choose_exchange(
        "p2p" if asked == "p2p" else "tasks" if asked != "auto" else "auto",
        kind,
        chunk_library(array),
        fits=fits,
        processes=workers.processes,
    )
    return chosen == "p2p"
