"""A shuffle of our own for the P2P engine of distributed.

The engine provides buffers with back-pressure, messages between the workers, files, the barrier, and the restart of an
exchange that has lost a worker. Each kind of shuffle adds two classes: a frozen spec, which goes to the scheduler with
the barrier task, and a run, which each worker makes for itself::

    scheduler            SortSpec: which worker gets which groups
                             |  create_run_on_worker
    every worker         SortRun: run -> portions -> batches -> (comms) -> records -> files -> one group's file

None of this is public, and much of it has changed before. This file alone uses it. `mismatch` checks whether the
installed version still has what is needed, and `p2p_check` tries it.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import math
import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from distributed.core import ErrorMessage, OKMessage, clean_exception, error_message
from distributed.shuffle._core import (
    P2PBarrierTask,
    ShuffleId,
    ShuffleRun,
    ShuffleSpec,
    barrier_key,
    get_worker_plugin,
    handle_transfer_errors,
    handle_unpack_errors,
    p2p_barrier,
)
from distributed.shuffle._exceptions import DataUnavailable
from distributed.shuffle._limiter import ResourceLimiter
from distributed.shuffle._worker_plugin import ShuffleWorkerPlugin

from .cut_runs import CutRun
from .p2p_records import RecordBatch, RunPacker, split_batch

__all__ = [
    "P2PBarrierTask",
    "ShuffleId",
    "SortSpec",
    "barrier_key",
    "mismatch",
    "p2p_barrier",
    "receive_group",
    "send_run",
]

#: Bytes of records that a worker collects before it passes them to the disk buffer, which opens a file for each group
#: in them. Opening a file costs about as much as writing 100 kB, so each group should have several times that.
PENDING_BYTES = 16 * 2**20

#: Bytes of a run that are copied into batches at once, as many as small chunks have together. Workers keep results in
#: memory until these take 60 % of it, so a large chunk and a copy of all of it may not fit the rest.
PORTION_BYTES = 8 * 2**20

#: Share of a worker's memory that batches on their way to other workers may take, and records on their way to the disk.
#: The engine's limits, 1 GiB and 100 MiB, are the same for every worker. Under them, the batches of three and a half
#: chunks were in the memory of a worker that had been killed for it (512 MiB, chunks of 36 MiB).
BUFFER_MEMORY_FRACTION = 1 / 32

#: Read-ahead in a group's file. Records are often a few kB: Python's default of 8 KiB would need a system call each.
READ_BYTES = 128 * 2**10

#: Mode of the folder of an exchange: keys are read by the user of the worker alone, as results in memory are.
OWNER_ONLY = 0o700

#: The data of one chunk for one worker: the chunk's number and some of its record batches.
WorkerShard: TypeAlias = tuple[int, list[RecordBatch]]


class Portion(NamedTuple):
    """A part of a run that is sent at once."""

    packer: RunPacker
    #: The groups in it, for the address of each worker.
    groups_for: dict[str, list[int]]


@dataclass(frozen=True)
class SortSpec(ShuffleSpec[int]):
    """What the scheduler needs for one exchange: the number of groups."""

    num_groups: int

    @property
    def output_partitions(self) -> Generator[int]:
        """Numbers of the groups."""
        yield from range(self.num_groups)

    def pick_worker(self, partition: int, workers: Sequence[str]) -> str:
        """Give neighbouring groups to the same worker, so that a chunk sends one contiguous slice to each worker."""
        return workers[len(workers) * partition // self.num_groups]

    def create_run_on_worker(
        self,
        run_id: int,
        span_id: str | None,
        worker_for: dict[int, str],
        plugin: ShuffleWorkerPlugin,
    ) -> SortRun:
        """Make this worker's part of the exchange."""
        worker = plugin.worker
        directory = os.path.join(worker.local_directory, f"sort-{self.id}-{run_id}")
        if self.disk:
            # The engine would let other users of the host read it. `mkdir` of one that exists leaves its mode.
            Path(directory).mkdir(mode=OWNER_ONLY, exist_ok=True)
        return SortRun(
            worker_for,
            id=self.id,
            run_id=run_id,
            span_id=span_id,
            local_address=worker.address,
            directory=directory,
            executor=plugin._executor,
            rpc=worker.rpc,
            digest_metric=worker.digest_metric,
            scheduler=worker.scheduler,
            memory_limiter_disk=own_limiter(plugin.memory_limiter_disk, worker),
            memory_limiter_comms=own_limiter(plugin.memory_limiter_comms, worker),
            disk=self.disk,
            loop=plugin.worker.loop,
        )


def own_limiter(limiter: ResourceLimiter, worker: Any) -> ResourceLimiter:
    """The engine's limiter, or a lower one where the memory of the worker is known."""
    memory = worker.memory_manager.memory_limit
    if not memory or memory * BUFFER_MEMORY_FRACTION >= (limiter.limit or math.inf):
        return limiter
    return ResourceLimiter(int(memory * BUFFER_MEMORY_FRACTION), limiter.metrics_label)


class SortRun(ShuffleRun[int, Portion]):
    """One worker's part of one attempt at an exchange.

    A worker that cannot write to its disk reports it in the tasks that send runs and in those that read groups, never
    at the barrier: the scheduler repeats what failed there with an OSError, and then gives an error without the cause.

    Parameters
    ----------
    worker_for : dict of int to str
        Address of the worker that gets each group.
    **engine
        Parameters of distributed's ``ShuffleRun``.
    """

    def __init__(self, worker_for: dict[int, str], **engine: Any) -> None:
        super().__init__(**engine)
        self.worker_for = worker_for
        self._pending: dict[int, list[memoryview]] = defaultdict(list)
        self._pending_bytes = 0
        # Chunk and first group of each batch.
        self._arrived: set[tuple[int, int]] = set()
        self._flushing = asyncio.Lock()
        # Of this worker's disk, or of another's that refused records of this worker.
        self._disk_error: OSError | None = None

    def add_partition(self, data: CutRun, partition_id: int) -> int:  # type: ignore[override]
        """Send a run, portion by portion: each waits until the buffer takes it.

        Returns
        -------
        int
            Number of this attempt.
        """
        self.raise_if_closed()
        check_arrays(data)
        packer = RunPacker(partition_id, data)
        for groups_for in self._portions(data, partition_id):
            self._raise_disk_error()
            super().add_partition(Portion(packer, groups_for), partition_id)
        return self.run_id

    def _portions(self, cut: CutRun, chunk: int) -> Iterator[dict[str, list[int]]]:
        """The groups of each portion. Chunks begin with different groups, so that not all send to one worker first."""
        row_bytes = cut.run.nbytes / max(len(cut.run), 1)
        groups = len(self.worker_for)
        portion: dict[str, list[int]] = defaultdict(list)
        held = 0.0
        for group in ((chunk + number) % groups for number in range(groups)):
            start, stop = cut.bounds(group)
            size = (stop - start) * row_bytes
            if portion and held + size > PORTION_BYTES:
                yield portion
                portion, held = defaultdict(list), 0.0
            portion[self.worker_for[group]].append(group)
            held += size
        yield portion

    def _shard_partition(self, data: Portion, partition_id: int) -> dict[str, WorkerShard]:
        batches_for = {
            address: [batch for part in neighbours(groups) if (batch := data.packer.batch(part))]
            for address, groups in data.groups_for.items()
        }
        return {address: (partition_id, batches) for address, batches in batches_for.items() if batches}

    async def send(self, address: str, shards: list[WorkerShard]) -> OKMessage | ErrorMessage:
        """Send shards to a worker; shards for this worker skip serialisation and the socket."""
        ok: OKMessage = {"status": "OK"}
        if address == self.local_address:
            with contextlib.suppress(OSError):
                await self._receive(shards)
            return ok
        response = await super().send(address, shards)
        if response["status"] == "error":
            error = clean_exception(**response)[1]
            if isinstance(error, OSError):
                # An error here would stop the engine's messages to all workers, and their groups would be incomplete.
                self._disk_error = error
                return ok
        return response

    async def receive(self, data: list[WorkerShard] | bytes) -> OKMessage | ErrorMessage:
        """Take shards of another worker. The engine repeats a message that raises an OSError, so it is returned."""
        try:
            return await super().receive(data)
        except OSError as error:
            return error_message(error)

    def _raise_disk_error(self) -> None:
        if self._disk_error is not None:
            # A copy: the traceback of an exception grows whenever it is raised, until it cannot be pickled any more.
            raise copy.copy(self._disk_error)

    async def _receive(self, data: list[WorkerShard]) -> None:
        self.raise_if_closed()
        self._raise_disk_error()
        for chunk, batches in data:
            for batch in batches:
                # A message is repeated if its reply is lost, or if a transfer task runs twice.
                if (chunk, batch[0]) in self._arrived:
                    continue
                self._arrived.add((chunk, batch[0]))
                self.total_recvd += len(batch[2])
                for group, record in split_batch(batch):
                    self._pending[group].append(record)
                    self._pending_bytes += len(record)
        if self._pending_bytes >= PENDING_BYTES:
            await self._write_pending()

    async def _write_pending(self) -> None:
        records, self._pending, self._pending_bytes = self._pending, defaultdict(list), 0
        try:
            # The disk buffer writes `bytes` unchanged and pickles anything else.
            await self._write_to_disk({(group,): b"".join(parts) for group, parts in records.items()})
        except OSError as error:
            self._disk_error = error
            self._raise_disk_error()

    async def flush_receive(self) -> None:
        """Write all pending records and wait: no more will arrive."""
        # The first call closes the disk buffer, so no other call may overtake a write in progress.
        async with self._flushing:
            if self._pending and self._disk_error is None:
                await self._write_pending()
            await super().flush_receive()
        self._raise_disk_error()

    def _get_output_partition(self, partition_id: int, key: Any, **kwargs: Any) -> BinaryIO | None:  # type: ignore[override]
        try:
            file: BinaryIO = self._read_from_disk((partition_id,))  # type: ignore[assignment]
            return file
        except DataUnavailable:  # no chunk sent a record
            return None

    def read(self, path: Path) -> tuple[BinaryIO, int]:
        """Open a group's file. It stays readable if the exchange is closed and its files are removed."""
        return path.open("rb", buffering=READ_BYTES), path.stat().st_size

    def deserialize(self, buffer: Any) -> Any:
        """Return a shard unchanged (used only without disk)."""
        return buffer

    def _get_assigned_worker(self, i: int) -> str:
        return self.worker_for[i]


def check_arrays(cut: CutRun) -> None:
    """Refuse anything but runs of NumPy arrays."""
    if not all(isinstance(array, np.ndarray) for array in cut.run.arrays):
        raise TypeError(
            "the P2P exchange carries runs of NumPy arrays only. An array of CuPy chunks may have NumPy's meta, as "
            "x[mask] has: call distributed.wait(x) before the sort, give it the meta of its chunks with "
            "map_blocks(..., meta=), or choose exchange='tasks'"
        )


def neighbours(groups: Iterable[int]) -> list[range]:
    """Collect numbers into ranges of consecutive ones."""
    ranges: list[range] = []
    for group in sorted(groups):
        if ranges and ranges[-1].stop == group:
            ranges[-1] = range(ranges[-1].start, group + 1)
        else:
            ranges.append(range(group, group + 1))
    return ranges


def send_run(shuffle_id: ShuffleId, chunk: int, run: CutRun) -> int:
    """Pass a sorted chunk to the engine on this worker; returns the number of the attempt, for the barrier."""
    with handle_transfer_errors(shuffle_id):
        return get_worker_plugin().add_partition(run, partition_id=chunk, id=shuffle_id)


def receive_group(shuffle_id: ShuffleId, group: int, run_id: int) -> BinaryIO | None:
    """Open the file of a group; if another worker has it, the engine raises and moves the task there."""
    with handle_unpack_errors(shuffle_id):
        file: BinaryIO | None = get_worker_plugin().get_output_partition(shuffle_id, run_id, group)
        return file


#: Methods called or overridden here, with the parameters used.
NEEDED: tuple[tuple[type, str, set[str]], ...] = (
    (ShuffleRun, "__init__", {"id", "run_id", "span_id", "local_address", "directory", "executor", "rpc", "loop"}),
    (ShuffleRun, "__init__", {"digest_metric", "scheduler", "memory_limiter_disk", "memory_limiter_comms", "disk"}),
    (ShuffleRun, "add_partition", {"data", "partition_id"}),
    (ShuffleRun, "get_output_partition", {"partition_id", "key"}),
    (ShuffleRun, "flush_receive", set()),
    (ShuffleRun, "raise_if_closed", set()),
    (ShuffleRun, "send", {"address", "shards"}),
    (ShuffleRun, "receive", {"data"}),
    (ShuffleRun, "read", {"path"}),
    (ShuffleRun, "deserialize", {"buffer"}),
    (ShuffleRun, "_shard_partition", {"data", "partition_id"}),
    (ShuffleRun, "_get_output_partition", {"partition_id", "key", "kwargs"}),
    (ShuffleRun, "_get_assigned_worker", {"i"}),
    (ShuffleRun, "_receive", {"data"}),
    (ShuffleRun, "_write_to_disk", {"data"}),
    (ShuffleRun, "_read_from_disk", {"id"}),
    (ResourceLimiter, "__init__", {"limit", "metrics_label"}),
    (ShuffleSpec, "__init__", {"id", "disk"}),
    (ShuffleSpec, "create_run_on_worker", {"run_id", "span_id", "worker_for", "plugin"}),
    (ShuffleSpec, "pick_worker", {"partition", "workers"}),
    (ShuffleWorkerPlugin, "add_partition", {"data", "partition_id", "id"}),
    (ShuffleWorkerPlugin, "get_output_partition", {"shuffle_id", "run_id", "partition_id"}),
    (P2PBarrierTask, "__init__", {"key", "func", "args", "spec"}),
)


def mismatch() -> str | None:
    """The first difference between the engine and what this file needs of it, or None."""
    for owner, name, parameters in NEEDED:
        method = getattr(owner, name, None)
        if method is None:
            return f"{owner.__name__} of distributed has no method {name}"
        if lacking := parameters - set(inspect.signature(method).parameters):
            return f"{owner.__name__}.{name} of distributed has no parameter {sorted(lacking)}"
    for ours in (SortRun, SortSpec):
        # Not __abstractmethods__: ShuffleRun marks methods as abstract without being an abstract base class.
        unmet = [name for name in dir(ours) if getattr(getattr(ours, name), "__isabstractmethod__", False)]
        if unmet:
            return f"{ours.__mro__[1].__name__} of distributed wants methods that are unknown here: {unmet}"
    return None
