"""Slices of runs, wherever they are kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from distributed import Reschedule, get_worker

from ...chunk.run import Run
from .plugins import own_store
from .store import Handle, RunIsGone, Store, empty_run, has_fixed_width, read, read_into

#: Seconds until a task is tried again that needs runs of a worker which does not answer: if it is lost, the scheduler
#: notices, and lets its runs be made again.
RETRY_SECONDS = 0.5
#: Seconds for which a worker is tried to be reached.
CONNECT_SECONDS = 3.0


def take_slices(handles: Sequence[Handle], bounds: Sequence[tuple[int, int]]) -> list[Run]:
    """Slices of runs, in memory of their own; one after another in it where their rows have a fixed width.

    Raises
    ------
    Reschedule
        If a worker does not answer.
    RuntimeError
        If a worker has lost a run.
    """
    store, targets = own_store(), _targets(handles, bounds)
    far: dict[str, list[int]] = {}
    found: dict[int, Run] = {}
    for number, (handle, ends) in enumerate(zip(handles, bounds, strict=True)):
        try:
            found[number] = _take_here(store, handle, ends, targets[number])
        except RunIsGone:
            far.setdefault(handle.worker, []).append(number)
    if far:
        asked = {
            worker: ([handles[number].name for number in numbers], [bounds[number] for number in numbers])
            for worker, numbers in far.items()
        }
        for worker, runs in _ask(asked).items():
            for number, run in zip(far[worker], runs, strict=True):
                found[number] = _copied(run, targets[number])
    return [found[number] for number in range(len(handles))]


def take_run(handle: Handle) -> Run:
    """A whole run, as `take_slices`."""
    (run,) = take_slices([handle], [(0, handle.length)])
    return run


def open_run(handle: Handle) -> Run:
    """A run, for who reads few of its keys."""
    return own_store().open(handle) or take_run(handle)


def _targets(handles: Sequence[Handle], bounds: Sequence[tuple[int, int]]) -> Sequence[Run | None]:
    """Memory for each slice, neighbours in one array; None if the rows have no fixed or no common width."""
    kinds = {tuple((array.dtype, array.shape[1:]) for array in handle.like.arrays) for handle in handles}
    if len(kinds) > 1 or not has_fixed_width(handles[0].like):
        return [None] * len(handles)
    ends = list(accumulate((stop - start for start, stop in bounds), initial=0))
    whole = empty_run(handles[0].like, ends[-1])
    return [whole[start:stop] for start, stop in pairwise(ends)]


def _take_here(store: Store, handle: Handle, ends: tuple[int, int], target: Run | None) -> Run:
    """A slice of a run that this worker keeps, or of a file that it can read."""
    if not handle.path:
        return _copied(store.take(handle.name, *ends), target)
    if target is None:
        return read(handle, *ends)
    read_into(handle, ends[0], target)
    return target


def _copied(run: Run, target: Run | None) -> Run:
    """A run, copied to its target, or anywhere."""
    if target is None:
        return run.copy()
    for array, part in zip(target.arrays, run.arrays, strict=True):
        array[...] = part
    return target


def _ask(asked: Mapping[str, tuple[list[str], list[tuple[int, int]]]]) -> dict[str, list[Run]]:
    """Slices of runs that peers keep, one message to each."""
    worker: Any = get_worker()

    async def ask(address: str) -> dict[str, Any]:
        names, bounds = asked[address]
        # Dask tries to reach a worker for half a minute, in which this thread would do nothing else.
        worker.rpc.reuse(address, await worker.rpc.connect(address, timeout=CONNECT_SECONDS))
        reply: dict[str, Any] = await worker.rpc(address).sort_run_take(names=names, bounds=bounds)
        return reply

    async def ask_all() -> list[dict[str, Any]]:
        return await asyncio.gather(*map(ask, asked))

    try:
        replies = asyncio.run_coroutine_threadsafe(ask_all(), worker.loop.asyncio_loop).result()
    except OSError:
        replies = [{"status": "closes"}]
    if any(reply["status"] == "closes" for reply in replies):
        time.sleep(RETRY_SECONDS)
        raise Reschedule
    for address, reply in zip(asked, replies, strict=True):
        if reply["status"] == "gone":
            raise RuntimeError(f"a sorted run is gone from worker {address}: {reply['reason']}")
    return {
        address: [getattr(run, "data", run) for run in reply["runs"]]
        for address, reply in zip(asked, replies, strict=True)
    }
