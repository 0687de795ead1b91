"""What tasks do with runs: keep them on their worker, list them, take slices of them wherever they are kept."""

from __future__ import annotations

import asyncio
import pickle
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from distributed import Reschedule, get_worker

from ...chunk.checks import changed_source
from ...chunk.run import Run
from .._distributed import REMEDY, Status, offload, plugin_of_worker
from .files import RunIsGone, checksums
from .handles import Handle, empty_run, has_fixed_width, read, read_into
from .store import Store

#: Name of the plugins of the scheduler and of workers, and of what the scheduler's is asked.
NAME = "gpusort-runs"
LISTED, HEARD, AGAIN, UNREACHED = "sort_run_listed", "sort_run_heard", "sort_run_again", "sort_run_unreached"
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


def reserved(nbytes: float) -> AbstractContextManager[None]:
    """Wait until this worker has memory for what this task takes while it works."""
    return own_store().gate.reserved(nbytes)


def keep(runs: Iterable[Run]) -> list[Handle]:
    """Keep the runs that this task makes, on its worker."""
    return own_store().put(get_worker().get_current_task(), runs)


def check_listed(handles: Sequence[Handle], cuts: Iterable[Any] = ()) -> None:
    """Refuse to list runs, or cuts of them, that differ from those that this task has listed before."""
    # Others may have finished with slices of those, before a worker was lost and a run was made again.
    worker: Any = get_worker()
    checksum = zlib.crc32(np.array([handle.checksum for handle in handles], np.uint32).data)
    for ends in cuts:
        checksum = zlib.crc32(ends, checksum)
    asked = getattr(worker.scheduler, LISTED)(key=worker.get_current_task(), checksum=checksum)
    if not asyncio.run_coroutine_threadsafe(asked, worker.loop.asyncio_loop).result():
        raise changed_source("a chunk that was made again, after a worker or a file was lost, has other elements")


def take_slices(handles: Sequence[Handle], bounds: Sequence[tuple[int, int]]) -> list[Run]:
    """Take slices of runs, in memory of their own; one after another in it where their rows have a fixed width.

    The task is tried again if a worker does not answer, and fails if a run is lost or out of reach.
    """
    store, targets = own_store(), _targets(handles, bounds)
    files = {
        number: (handles[number], bounds[number][0], target)
        for number, target in enumerate(targets)
        if target is not None and handles[number].path
    }
    gone = set(read_into(files))
    found = {number: files[number][2] for number in files.keys() - gone}
    for number, (handle, ends) in enumerate(zip(handles, bounds, strict=True)):
        if number in files:
            continue
        try:
            found[number] = (
                read(handle, *ends) if handle.path else _copied(store.take(handle.name, *ends), targets[number])
            )
        except RunIsGone:
            gone.add(number)
    far: dict[str, list[int]] = {}
    for number in sorted(gone):
        far.setdefault(handles[number].worker, []).append(number)
    if far:
        asked = {
            worker: ([handles[number] for number in numbers], [bounds[number] for number in numbers])
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


def _copied(run: Run, target: Run | None) -> Run:
    """A run, copied to its target, or anywhere."""
    if target is None:
        return run.copy()
    for array, part in zip(target.arrays, run.arrays, strict=True):
        array[...] = part
    return target


def _ask(store: Store, asked: Mapping[str, tuple[list[Handle], list[tuple[int, int]]]]) -> dict[str, list[Run]]:
    """Slices of runs that peers keep, one message to each."""
    worker: Any = get_worker()
    task = worker.get_current_task()

    async def ask(address: str) -> list[Run] | None:
        handles, bounds = asked[address]
        names, keys = [handle.name for handle in handles], [handle.key for handle in handles]
        try:
            # Dask tries to reach a worker for half a minute, in which this thread would do nothing else.
            worker.rpc.reuse(address, await worker.rpc.connect(address, timeout=CONNECT_SECONDS))
            reply = await worker.rpc(address).sort_run_take(names=names, keys=keys, bounds=bounds)
            if reply["status"] == "OK":
                runs = await offload(_runs_of, reply)
                store.silent.pop(address, None)
                return runs
        except OSError as error:
            reply = {"status": "closes", "reason": repr(error), "number": 0}
        handle = handles[reply["number"]]
        await _make_again(worker, handle, reply["status"], reply["reason"], task)
        if reply["status"] == "closes":
            await _check_lost(worker, store, address, reply["reason"])
        return None

    async def ask_all() -> list[list[Run] | None]:
        return await asyncio.gather(*map(ask, asked))

    found = asyncio.run_coroutine_threadsafe(ask_all(), worker.loop.asyncio_loop).result()
    replies = {address: runs for address, runs in zip(asked, found, strict=True) if runs is not None}
    if len(replies) < len(asked):
        time.sleep(RETRY_SECONDS)
        raise Reschedule
    return replies


def _runs_of(reply: Mapping[str, Any]) -> list[Run]:
    """The runs of an answer, if it came as it was sent."""
    data = getattr(reply["runs"], "data", reply["runs"])
    if checksums(data) != reply["checksums"]:
        raise OSError("its answer has other bytes than were sent")
    runs: list[Run] = pickle.loads(data)
    return runs


async def _make_again(worker: Any, handle: Handle, status: str, reason: str, by: Any) -> None:
    """Let the scheduler have a run made again that its worker cannot read; raise an error if that was in vain."""
    again = getattr(worker.scheduler, AGAIN)
    if not await again(key=handle.key, name=handle.name, worker=handle.worker, status=status, by=by):
        raise RuntimeError(
            f"a sorted run is {status} on worker {handle.worker}, after it was made again: {reason} "
            f"({handle.path or 'in its memory'}). Look at that disk and at what removes files from it, or set "
            "temporary-directory in dask.config to another disk, or gpusort.directories to folders on others"
        )


async def watch_waiting(worker: Any, waiting: set[Any]) -> None:
    """Let tasks of this exchange fail whose inputs do not come: Dask asks a worker that it cannot reach for ever."""
    lacking: dict[Any, tuple[set[Any], float]] = {}
    while waiting:
        for key in list(waiting):
            task, now = worker.state.tasks.get(key), time.monotonic()
            if task is None or task.state != "waiting":
                waiting.discard(key)
                lacking.pop(key, None)
                continue
            found = {one.key for one in task.waiting_for_data}
            before, since = lacking.setdefault(key, (found, now))
            if found != before or worker.status != Status.running:
                lacking[key] = found, now
            elif (seconds := now - since) > SILENT_SECONDS:
                unreached = getattr(worker.scheduler, UNREACHED)
                await unreached(key=key, keys=list(found), worker=worker.address, seconds=seconds)
        await asyncio.sleep(RETRY_SECONDS)


async def _check_lost(worker: Any, store: Store, address: str, reason: str) -> None:
    """Raise an error if a peer has long been silent, and is not lost: Dask would try again for ever."""
    now = time.monotonic()
    since, last = store.silent.get(address, (now, now))
    if now - last > SILENT_SECONDS:  # of another worker, whose address this one has
        since = now
    store.silent[address] = since, now
    seconds = now - since
    if seconds > SILENT_SECONDS and await getattr(worker.scheduler, HEARD)(worker=address, seconds=seconds / 2):
        raise unreached(store.address, address, seconds, reason)


def unreached(worker: str, peer: str, seconds: float, reason: str) -> RuntimeError:
    """The error of a worker that does not get sorted runs of a peer."""
    return RuntimeError(
        f"worker {worker} has asked worker {peer} for sorted runs in vain for {seconds:.0f} s, though the scheduler "
        f"hears of it: {REMEDY}. The last error: {reason}"
    )
