"""The runs that a worker keeps, in memory while its share of that lasts and in files behind it.

Who wants a slice of a run reads it where it is (see `handles`); messages take several times as long.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import pickle
import random
import shutil
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import psutil

from ...chunk.memory import Gate
from ...chunk.run import Run
from ...config import setting
from .._distributed import MEMORY_LIMIT, WorkSpace, offload, to_serialize
from .files import BINARY, Descriptor, RunIsGone, checksums, memory_file
from .handles import PROCESSES, Handle, checksum_of, mapped, read, written

#: Share of a worker's memory up to which its process takes runs in; those behind it are files. Dask's own limits, from
#: which on it spills results and pauses the worker, are 0.6 and 0.8.
MEMORY_SHARE = 0.3
#: Share up to which a task begins while others work. From 0.7 on Dask spills what it has; the rest is for tasks that
#: make chunks, which do not wait.
BUSY_SHARE = 0.65
#: Errors of a disk that has no space left.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: Seconds until it is tried again to remove a file that someone has open, where that is not possible.
REMOVE_SECONDS = 0.5
#: Files are for the user of the worker alone.
OWNER_ONLY = 0o700


class Kept(NamedTuple):
    """A run that is kept: itself and the open file of its memory, or neither if it is in a file of a disk."""

    handle: Handle
    run: Run | None = None
    file: Descriptor | None = None


class Store:
    """Keep the runs of one worker."""

    # Files go to `folder` without the setting ``directories``; it is made for the first one. `capacity` is bytes of
    # runs that the process may still take into its memory; tasks pass the `gate` with what they take while they work.

    def __init__(self, address: str, folder: Path, capacity: Callable[[], float], gate: Gate | None = None):
        self.address, self.folder, self.capacity = address, folder, capacity
        self.gate = gate or Gate(math.inf)
        self.closed = False
        #: Workers that have given no slices when they were asked last: since when, and when that was.
        self.silent: dict[str, tuple[float, float]] = {}
        self._spaces: dict[str, Any] = {}  # folders in the directories, which Dask removes if this process is killed
        self._lock, self._files = threading.Lock(), count()
        self._names: dict[Any, list[str]] = {}  # of the runs of each task
        self._kept: dict[str, Kept] = {}
        self._remover = ThreadPoolExecutor(1)

    def put(self, key: Any, runs: Iterable[Run]) -> list[Handle]:
        """Keep runs, the result of the task `key`; each is there before the next one is asked for.

        On a full disk nothing is left of the runs.
        """
        self.drop(key)
        names: list[str] = []
        try:
            handles = [self._put(key, names, run) for run in runs]
        except BaseException:
            self._forget(names)
            raise
        self._names[key] = names  # only now, as the key may be dropped meanwhile
        return handles

    def _put(self, key: Any, names: list[str], run: Run) -> Handle:
        if self.closed:
            raise RunIsGone(f"worker {self.address} closes")
        name = uuid.uuid4().hex
        handle = Handle(name, key, self.address, "", len(run), run[:0].own(), checksum_of(run))
        # The run is there already, but so will others be that are being sorted now.
        fits = run.__sizeof__() <= self.capacity()
        self._kept[name] = kept = self._hold(handle, run) if fits else Kept(self._write(handle, run))
        names.append(name)
        return kept.handle

    def names(self, key: Any) -> list[str]:
        """Names of the runs of a task."""
        return list(self._names.get(key, ()))

    def drop(self, key: Any) -> None:
        """Forget the runs of a task."""
        self._forget(self._names.pop(key, ()))

    def _forget(self, names: Iterable[str]) -> None:
        """Forget runs."""
        self._remove_later([self._kept.pop(name) for name in names if name in self._kept])

    def _remove_later(self, runs: list[Kept]) -> None:
        """Remove runs in another thread: a file takes 10 ms, in which the worker answers nobody."""
        try:
            self._remover.submit(self._remove, runs)
        except RuntimeError:  # the worker closes
            self._remove(runs)

    def _remove(self, runs: list[Kept]) -> None:
        waiting = []
        while runs:
            kept = runs.pop()
            if kept.run is None:
                kept.handle.__dict__.pop("_descriptor", None)
                try:
                    Path(kept.handle.path).unlink(missing_ok=True)
                except PermissionError:  # Windows removes no file that is open, as a task may have it here or elsewhere
                    waiting.append(kept)
                except OSError:  # of a disk that fails: other runs go
                    continue
        if waiting and not self.closed:
            time.sleep(REMOVE_SECONDS)
            self._remove_later(waiting)

    def close(self) -> None:
        """Forget all runs: the worker closes."""
        self.closed = True
        self._names.clear()
        self._forget(list(self._kept))
        self._remover.shutdown(wait=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        for space in self._spaces.values():
            space.release()

    def take(self, name: str, start: int, stop: int) -> Run:
        """Slice a run of this worker, as a view of one in memory."""
        if name not in self._kept:
            raise RunIsGone(f"worker {self.address} does not keep it")
        handle, run, _ = self._kept[name]
        if not 0 <= start <= stop <= len(handle):
            raise IndexError(f"bounds must be rows of a run that has {len(handle)} (got {start} to {stop})")
        return read(handle, start, stop) if run is None else run[start:stop]

    def open(self, handle: Handle) -> Run | None:
        """A run whose keys are read where they are asked for; None if that is not possible here."""
        kept = self._kept.get(handle.name)
        if kept and kept.run is not None:
            return kept.run
        try:
            return mapped(handle.open(), handle, access=mmap.ACCESS_READ) if handle.fixed else None
        except RunIsGone:
            return None

    async def serve(self, names: Sequence[str], keys: Sequence[Any], bounds: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Handler: slices of runs, for a peer that cannot read them itself."""
        try:
            return await offload(self._pickled, names, keys, bounds)
        except RunIsGone as error:
            number, reason = error.args
            kept = self.names(keys[number])
            old = kept and names[number] not in kept
            status = "closes" if self.closed else "old" if old else error.status
            return {"status": status, "number": number, "reason": str(reason)}

    def _pickled(self, names: Sequence[str], keys: Sequence[Any], bounds: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Slices of runs as one message: a frame for each slice takes a millisecond."""
        found = []
        for number, (name, key, ends) in enumerate(zip(names, keys, bounds, strict=True)):
            try:
                if name not in self.names(key):
                    raise RunIsGone(f"worker {self.address} does not keep it for that task")
                found.append(self.take(name, *ends))
            except RunIsGone as error:
                raise type(error)(number, error) from error
        data = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
        return {"status": "OK", "runs": to_serialize(data), "checksums": checksums(data)}

    def _hold(self, handle: Handle, run: Run) -> Kept:
        """Keep a run in memory, with a path if there is such memory."""
        file = memory_file(handle.name) if handle.fixed else None
        if file is None:
            return Kept(handle, run.own())
        handle = written(file, run, handle, checked=False)
        handle = replace(handle, path=f"{PROCESSES}{os.getpid()}/fd/{file.number}")
        # Dask counts what the process has in memory.
        return Kept(handle, mapped(file, handle, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ), file)

    def folders(self) -> list[Path]:
        """List folders for the next file, in the order in which they are tried; those on full disks may be left out."""
        directories = setting("directories")
        if directories is None:
            return [self.folder]
        with self._lock:
            for directory in directories:
                if directory not in self._spaces:
                    self._make(directory)
        found = [Path(self._spaces[directory].dir_path) for directory in directories if directory in self._spaces]
        # In one order all workers come to write to one disk, then all to the next: fair disks keep them in step.
        done, turn = divmod(next(self._files), max(1, len(found)))
        found = random.Random(f"{self.address} {done}").sample(found, len(found))
        return found[turn:] + found[:turn]

    def _make(self, directory: str) -> None:
        """Make the folder of this worker in a directory; leave it out if there is no space."""
        try:
            self._spaces[directory] = WorkSpace(_own_folder(directory, self.folder.name)).new_work_dir(prefix="worker-")
        except OSError as error:
            if error.errno not in FULL:
                raise OSError(
                    error.errno,
                    f"worker {self.address} cannot keep sorted runs in a folder of gpusort.directories in dask.config "
                    f"({error.strerror}): make the folder there and let the worker write to it",
                    directory,
                ) from error

    def _write(self, handle: Handle, run: Run) -> Handle:
        failed = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        folders = self.folders()
        if len(folders) > 1:  # those without the space come last, else each file is begun there
            folders.sort(key=lambda folder: _free_bytes(folder) < run.nbytes)
        for folder in folders:
            path = folder / handle.name
            try:
                folder.mkdir(mode=OWNER_ONLY, exist_ok=True)
                file = Descriptor(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600))
                return replace(written(file, run, handle), path=str(path))
            except OSError as error:
                self._remove_later([Kept(replace(handle, path=str(path)))])
                failed = error
        what = "is full" if failed.errno in FULL else f"cannot be written ({failed.strerror})"
        raise OSError(
            failed.errno,
            f"the disk of worker {self.address} {what}, so it cannot keep a sorted run of {run.nbytes:,} bytes: "
            "free space there, or set temporary-directory in dask.config to a larger disk, or gpusort.directories to "
            "folders of several",
            ", ".join(map(str, folders)) or None,
        ) from failed


def _free_bytes(folder: Path) -> int:
    """The space of a folder's disk; 0 if that cannot be told."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _own_folder(directory: str, name: str) -> str:
    """The folder of this user in a directory of many: runs are unpickled, so no other user may put one there."""
    folder = os.path.join(directory, f"{name}-{getattr(os, 'getuid', int)()}")
    with suppress(FileExistsError):  # not the directory too: on the disk, perhaps, on which another one is mounted
        os.mkdir(folder, OWNER_ONLY)
    with TemporaryFile(dir=folder) as file:  # a file server may have another number for the user
        own = os.fstat(file.fileno()).st_uid
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != own:
        raise PermissionError(errno.EPERM, f"move away {os.path.basename(folder)}, which is another user's or a link")
    os.chmod(folder, OWNER_ONLY)
    return folder


def gate_of(worker: Any) -> Gate:
    """Let tasks of a worker begin while there is memory for them."""
    limit = worker.memory_manager.memory_limit
    return Gate(BUSY_SHARE * (limit or math.inf), worker.monitor.get_process_memory)


def capacity_of(worker: Any) -> float:
    """Bytes of runs that a worker may still take into its memory."""
    limit = worker.memory_manager.memory_limit
    free = (limit or MEMORY_LIMIT) - worker.monitor.get_process_memory()
    if not limit:  # the workers of a host share its memory, and others take of it too
        free = min(free, psutil.virtual_memory().available)
    return float(free - (1 - MEMORY_SHARE) * (limit or MEMORY_LIMIT))
