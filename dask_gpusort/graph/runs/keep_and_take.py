"""What tasks do with runs: keep them on their worker, list them, take slices of them wherever they are kept."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from distributed import Reschedule, get_worker

from ...chunk.run import Run
from .._distributed import plugin_of_worker
from ..input_checks import changed_source
from .plugins import HEARD, LISTED, NAME
from .store import Handle, RunIsGone, Store, empty_run, has_fixed_width, read, read_into

#: Seconds until a task is tried again that needs runs of a worker which does not answer: if it is lost, the scheduler
#: notices, and lets its runs be made again.
RETRY_SECONDS = 0.5
#: Seconds for which a worker is tried to be reached.
CONNECT_SECONDS = 3.0
#: Seconds without an answer of a worker after which tasks fail, if the scheduler has heard of it in their second half:
#: so it is not lost. One that is lost without a sign is noticed by the scheduler after `worker-ttl`, 5 minutes.
SILENT_SECONDS = 120.0


def own_store() -> Store:
    """The store of the worker that runs this task."""
    store: Store = plugin_of_worker(NAME).store
    return store


def keep(runs: Iterable[Run]) -> list[Handle]:
    """Keep the runs that this task makes, on its worker."""
    return own_store().put(get_worker().get_current_task(), runs)


def rows_as_run(*arrays: Any) -> Run:
    """Rows of some arrays as a run, whose keys do not matter."""
    return Run(np.zeros(len(arrays[0]), np.uint8), arrays)


def check_listed(handles: Iterable[Handle]) -> None:
    """Refuse to list runs that differ from those that this task has listed before."""
    # Others may have finished with slices of those, before a worker was lost and a run was made again.
    worker: Any = get_worker()
    checksum = zlib.crc32(np.array([handle.checksum for handle in handles], np.uint32).tobytes())
    asked = getattr(worker.scheduler, LISTED)(key=worker.get_current_task(), checksum=checksum)
    if not asyncio.run_coroutine_threadsafe(asked, worker.loop.asyncio_loop).result():
        raise changed_source("a chunk that was made again, after a worker was lost, has other elements")


def take_slices(handles: Sequence[Handle], bounds: Sequence[tuple[int, int]]) -> list[Run]:
    """Take slices of runs, in memory of their own; one after another in it where their rows have a fixed width.

    The task is tried again if a worker does not answer, and fails if a run is lost or out of reach.
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
        for worker, runs in _ask(store, asked).items():
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


def _ask(store: Store, asked: Mapping[str, tuple[list[str], list[tuple[int, int]]]]) -> dict[str, list[Run]]:
    """Slices of runs that peers keep, one message to each."""
    worker: Any = get_worker()

    async def ask(address: str) -> dict[str, Any]:
        names, bounds = asked[address]
        try:
            # Dask tries to reach a worker for half a minute, in which this thread would do nothing else.
            worker.rpc.reuse(address, await worker.rpc.connect(address, timeout=CONNECT_SECONDS))
            reply: dict[str, Any] = await worker.rpc(address).sort_run_take(names=names, bounds=bounds)
        except OSError as error:
            reply = {"status": "closes", "reason": repr(error)}
        if reply["status"] == "closes":
            await _check_lost(worker, store, address, reply["reason"])
        else:
            store.silent.pop(address, None)
        return reply

    async def ask_all() -> list[dict[str, Any]]:
        return await asyncio.gather(*map(ask, asked))

    replies = asyncio.run_coroutine_threadsafe(ask_all(), worker.loop.asyncio_loop).result()
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


async def _check_lost(worker: Any, store: Store, address: str, reason: str) -> None:
    """Raise an error if a peer has long been silent, and is not lost: Dask would try again for ever."""
    now = time.monotonic()
    since, last = store.silent.get(address, (now, now))
    if now - last > SILENT_SECONDS:  # of another worker, whose address this one has
        since = now
    store.silent[address] = since, now
    seconds = now - since
    if seconds > SILENT_SECONDS and await getattr(worker.scheduler, HEARD)(worker=address, seconds=seconds / 2):
        raise RuntimeError(
            f"worker {store.address} has asked worker {address} for sorted runs in vain for {seconds:.0f} s, though "
            "the scheduler hears of it: let workers reach each other at their addresses (firewalls, ports, and the "
            f"option interface of workers), or leave out workers that cannot. The last error: {reason}"
        )
