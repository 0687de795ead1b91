"""The runs that a worker keeps, in memory while its share of that lasts and in files behind it, and slices of them."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ...chunk.run import Run, byte_view, is_fixed_width
from ...config import setting
from .._distributed import MEMORY_LIMIT, WorkSpace, offload, to_serialize

#: Share of a worker's memory up to which its process takes runs in; those behind it are files. Dask's own limits, from
#: which on it spills results and pauses the worker, are 0.6 and 0.8.
MEMORY_SHARE = 0.4
#: Rows of a run of variable width that are pickled at once: a slice reads at most as many that it does not need.
PICKLED_ROWS = 1 << 13
#: About as many rows of a run are checked when it is made again.
CHECKED_ROWS = 1 << 10
#: Errors of a disk that has no space left.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: Files are for the user of the worker alone.
OWNER_ONLY = 0o700


class RunIsGone(Exception):
    """A run cannot be read where its handle says."""


@dataclass(frozen=True)
class Handle:
    """Where a run is kept. It is the result of the task that sorts the run.

    Attributes
    ----------
    name : str
        Of this attempt to make the run alone.
    worker : str
        Address of the worker that keeps it.
    path : str
        Of its file; empty if it is in memory.
    length : int
        Keys.
    like : Run
        Has the dtypes of the run, and no keys.
    checksum : int
        Of some of its rows: it tells a run that was made again and differs.
    ends : tuple of int
        Where each pickled part ends in the file; empty if the rows have a fixed width, so that the file is the bytes
        of one array after another.
    """

    name: str
    worker: str
    path: str
    length: int
    like: Run
    checksum: int
    ends: tuple[int, ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether the bytes of a row have a fixed width."""
        return has_fixed_width(self.like)


def has_fixed_width(run: Run) -> bool:
    """Whether all arrays of a run have rows of a fixed width."""
    return all(is_fixed_width(array.dtype) for array in run.arrays)


def checksum_of(run: Run) -> int:
    """A checksum of regular rows of a run, of its arrays of fixed width."""
    found = len(run) & 0xFFFFFFFF
    for array in run.arrays:
        if is_fixed_width(array.dtype):
            found = zlib.crc32(byte_view(array[:: max(1, len(run) // CHECKED_ROWS)]).data, found)
    return found


def _row_bytes(array: np.ndarray) -> int:
    return int(array.dtype.itemsize * np.prod(array.shape[1:], dtype=np.int64))


class Store:
    """The runs of one worker.

    Parameters
    ----------
    address : str
        Of the worker.
    folder : Path
        Where files go without the setting ``directories``; made for the first one.
    capacity : callable()
        Bytes of runs that the process may still take into its memory.

    Attributes
    ----------
    closed : bool
    silent : dict of str to tuple
        Workers that have given no slices when they were asked last: since when, and when that was.
    """

    def __init__(self, address: str, folder: Path, capacity: Callable[[], float]):
        self.address, self.folder, self.capacity = address, folder, capacity
        self.closed = False
        self.silent: dict[str, tuple[float, float]] = {}
        self._spaces: dict[str, Any] = {}  # folders in the directories, which Dask removes if this process is killed
        self._lock, self._files = threading.Lock(), count()
        self._names: dict[Any, list[str]] = {}  # of the runs of each task
        self._kept: dict[str, tuple[Handle, Run | None]] = {}

    def put(self, key: Any, runs: Iterable[Run]) -> list[Handle]:
        """Keep runs, the result of the task `key`; each is there before the next one is asked for.

        Raises
        ------
        OSError
            If the disk is full; nothing is left of the runs.
        """
        self.drop(key)
        names: list[str] = []
        try:
            handles = [self._put(names, run) for run in runs]
        except BaseException:
            self._forget(names)
            raise
        self._names[key] = names  # only now, as the key may be dropped meanwhile
        return handles

    def _put(self, names: list[str], run: Run) -> Handle:
        if self.closed:
            raise RunIsGone(f"worker {self.address} closes")
        name, like = uuid.uuid4().hex, run[:0].own()
        # The run is there already, but so will others be that are being sorted now.
        fits = run.__sizeof__() <= self.capacity()
        handle = self._in_memory(name, run, like) if fits else self._write(name, run, like)
        self._kept[name] = handle, run.own() if fits else None
        names.append(name)
        return handle

    def names(self, key: Any) -> list[str]:
        """Names of the runs of a task."""
        return list(self._names.get(key, ()))

    def drop(self, key: Any) -> None:
        """Forget the runs of a task."""
        self._forget(self._names.pop(key, ()))

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            handle, _ = self._kept.pop(name, (None, None))
            if handle is not None and handle.path:
                Path(handle.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Forget all runs: the worker closes."""
        self.closed = True
        self._names.clear()
        self._kept.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        for space in self._spaces.values():
            space.release()

    def take(self, name: str, start: int, stop: int) -> Run:
        """A slice of a run of this worker; a view of one in memory.

        Raises
        ------
        RunIsGone
            If the worker does not keep it.
        """
        if name not in self._kept:
            raise RunIsGone(f"worker {self.address} does not keep it")
        handle, run = self._kept[name]
        return read(handle, start, stop) if run is None else run[start:stop]

    def open(self, handle: Handle) -> Run | None:
        """A run whose keys are read where they are asked for; None if that is not possible here."""
        held = self._kept.get(handle.name, (None, None))[1]
        if held is not None:
            return held
        if not handle.fixed or not handle.length or not os.access(handle.path, os.R_OK):
            return None
        arrays, offset = [], 0
        for array in handle.like.arrays:
            shape = (handle.length, *array.shape[1:])
            mapped = _row_bytes(array) > 0
            arrays.append(
                np.memmap(handle.path, array.dtype, "r", offset, shape) if mapped else np.empty(shape, array.dtype)
            )
            offset += handle.length * _row_bytes(array)
        return Run(arrays[0], tuple(arrays[1:]))

    async def serve(self, names: Sequence[str], bounds: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Handler: slices of runs, for a peer that cannot read them itself."""
        try:
            found = await offload(lambda: [self.take(name, *ends) for name, ends in zip(names, bounds, strict=True)])
        except RunIsGone as error:
            return {"status": "closes" if self.closed else "gone", "reason": str(error)}
        return {"status": "OK", "runs": [to_serialize(one) for one in found]}

    def _in_memory(self, name: str, run: Run, like: Run) -> Handle:
        return Handle(name, self.address, "", len(run), like, checksum_of(run))

    def folders(self) -> list[Path]:
        """Folders for the next file, in the order in which they are tried; those on full disks may be left out.

        Raises
        ------
        OSError
            If one cannot be written.
        """
        directories = setting("directories")
        if directories is None:
            return [self.folder]
        with self._lock:
            for directory in directories:
                if directory not in self._spaces:
                    self._make(directory)
        found = [Path(self._spaces[directory].dir_path) for directory in directories if directory in self._spaces]
        turn = next(self._files) % max(1, len(found))
        return found[turn:] + found[:turn]

    def _make(self, directory: str) -> None:
        """Make the folder of this worker in a directory; leave it out if there is no space."""
        try:
            if not os.path.isdir(directory):  # Dask would make it, perhaps on the disk on which another one is mounted
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            space = WorkSpace(os.path.join(directory, self.folder.name))
            self._spaces[directory] = space.new_work_dir(prefix="worker-")
        except OSError as error:
            if error.errno not in FULL:
                raise OSError(
                    error.errno,
                    f"worker {self.address} cannot keep sorted runs in a folder of gpusort.directories in dask.config "
                    f"({error.strerror}): make the folder there and let the worker write to it",
                    directory,
                ) from error

    def _write(self, name: str, run: Run, like: Run) -> Handle:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for folder in self.folders():
            path, ends = folder / name, [0]
            try:
                folder.mkdir(mode=OWNER_ONLY, exist_ok=True)
                with open(path, "xb", buffering=0) as file:
                    for data in _parts(run):
                        ends.append(ends[-1] + _write_all(file, data))
            except OSError as error:
                path.unlink(missing_ok=True)
                if error.errno not in FULL:
                    raise
                full = error
            else:
                parts = () if has_fixed_width(run) else tuple(ends[1:])
                return Handle(name, self.address, str(path), len(run), like, checksum_of(run), parts)
        raise OSError(
            full.errno,
            f"the disk of worker {self.address} is full, so it cannot keep a sorted run of {run.nbytes:,} bytes: "
            "free space there, or set temporary-directory in dask.config to a larger disk, or gpusort.directories to "
            "folders of several",
            full.filename,
        ) from full


def _parts(run: Run) -> Iterator[Any]:
    """What is written of a run, one after another."""
    if has_fixed_width(run):
        yield from map(byte_view, run.arrays)
        return
    for start in range(0, len(run), PICKLED_ROWS):
        yield pickle.dumps(run[start : start + PICKLED_ROWS])


def _write_all(file: Any, data: Any) -> int:
    view, done = memoryview(data), 0
    while done < view.nbytes:
        done += file.write(view[done:])
    return done


def read(handle: Handle, start: int, stop: int) -> Run:
    """A slice of a run, from its file.

    Raises
    ------
    RunIsGone
        If the file is not there.
    """
    if not handle.fixed:
        return _unpickle(handle, start, stop)
    run = empty_run(handle.like, stop - start)
    read_into(handle, start, run)
    return run


def empty_run(like: Run, length: int) -> Run:
    """Uninitialised arrays for a run of some length."""
    keys, *values = (np.empty((length, *array.shape[1:]), array.dtype) for array in like.arrays)
    return Run(keys, tuple(values))


def read_into(handle: Handle, start: int, run: Run) -> None:
    """Read as many rows as a run has, from some row on, from the file of another one into its arrays."""
    with _open(handle) as file:
        offset = 0
        for array in run.arrays:
            row = _row_bytes(array)
            file.seek(offset + start * row)
            view, done = byte_view(array).data, 0
            while done < view.nbytes:
                count = file.readinto(view[done:])
                if not count:
                    raise RunIsGone(f"{handle.path} is shorter than it was written")
                done += count
            offset += handle.length * row


def _unpickle(handle: Handle, start: int, stop: int) -> Run:
    if start == stop:
        return handle.like
    first, last = start // PICKLED_ROWS, -(-stop // PICKLED_ROWS)
    spans = list(pairwise((0, *handle.ends)))[first:last]
    with _open(handle) as file:
        file.seek(spans[0][0])
        pickled = [file.read(end - begin) for begin, end in spans]
    if sum(map(len, pickled)) < spans[-1][1] - spans[0][0]:
        raise RunIsGone(f"{handle.path} is shorter than it was written")
    parts = list(map(pickle.loads, pickled))
    whole = parts[0] if len(parts) == 1 else Run.concat(parts)
    return whole[start - first * PICKLED_ROWS : stop - first * PICKLED_ROWS]


def _open(handle: Handle) -> Any:
    try:
        return open(handle.path, "rb", buffering=0 if handle.fixed else -1)
    except (FileNotFoundError, PermissionError) as error:
        raise RunIsGone(str(error)) from error


def capacity_of(worker: Any) -> float:
    """Bytes of runs that a worker may still take into its memory."""
    limit = worker.memory_manager.memory_limit or MEMORY_LIMIT
    return float(limit * MEMORY_SHARE - worker.monitor.get_process_memory())
