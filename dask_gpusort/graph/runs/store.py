"""The runs that a worker keeps, in memory while its share of that lasts and in files behind it, and slices of them.

Who writes a run and who reads a slice of it agree here on where its bytes are. Linux has memory with a path: other
processes of the user read slices of a run there as they do from a file. Messages take several times as long.
"""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import shutil
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import psutil

from ...chunk.run import Run, byte_view, is_fixed_width
from ...config import setting
from .._distributed import MEMORY_LIMIT, WorkSpace, offload, to_serialize

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

#: Share of a worker's memory up to which its process takes runs in; those behind it are files. Dask's own limits, from
#: which on it spills results and pauses the worker, are 0.6 and 0.8.
MEMORY_SHARE = 0.4
#: Rows of a run of variable width that are pickled at once: a slice reads at most as many that it does not need.
PICKLED_ROWS = 1 << 13
#: About as many rows of a run are checked when it is made again.
CHECKED_ROWS = 1 << 10
#: Bytes that have a checksum of their own: who reads a slice of a file reads at most two parts that it does not need.
PART_BYTES = 1 << 15
#: Bytes that are read at once before they are checked and copied: a processor's cache holds them.
BLOCK_BYTES = 1 << 20
#: Pieces of files whose checksums a process knows, of 1 / 4096 of their size: groups take a slice of each in turn.
KNOWN_PIECES = 1 << 10
#: Weights of the words of a part in its checksum: random, so that errors do not cancel out, and odd.
WEIGHTS = np.random.default_rng(0).integers(0, 1 << 63, PART_BYTES // 8, np.uint64) * 2 + 1
#: Files that a process may have open for runs, of the number that it may have for all: a connection is a file too.
MOST_OPEN = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource else 512) // 2
#: Where Linux lists processes and their open files, memory among them, which they may open that have the same user.
PROCESSES = "/proc/"
#: Errors of a disk that has no space left.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: Errors of a process that has too many files open.
TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)
#: Files are for the user of the worker alone.
OWNER_ONLY = 0o700
SHORTER = "its file is shorter than it was written"


class RunIsGone(Exception):
    """A run cannot be read where its handle says."""

    status = "gone"


class RunIsDamaged(RunIsGone):
    """The file of a run has other bytes than were written."""

    status = "damaged"


class Piece(NamedTuple):
    """Bytes of a file: those of an array, or of some pickled rows."""

    start: int
    stop: int
    checksums: int  # where its checksums are in the file; -1 in memory, which has none


@dataclass(frozen=True)
class Descriptor:
    """An open file, which is closed when nothing refers to it."""

    number: int

    def __del__(self) -> None:
        _closer().put(self.number)


@cache
def _closer() -> SimpleQueue[int]:
    """A queue of files that a thread closes: who is last to close a removed one waits for the disk, for seconds."""
    numbers: SimpleQueue[int] = SimpleQueue()  # which can be given one in `__del__`, wherever that is called

    def close() -> None:
        while True:
            number = numbers.get()
            os.close(number)

    threading.Thread(target=close, name="gpusort-close", daemon=True).start()
    return numbers


@dataclass(frozen=True)
class Handle:
    """Say where a run is kept, as the result of the task that sorts the run."""

    name: str  # of this attempt to make the run alone
    key: Any  # of the task that makes the run
    worker: str  # address of the worker that keeps it
    path: str  # of its file, or of the memory that it is in; empty if that has none
    length: int  # keys
    like: Run  # has the dtypes of the run, and no keys
    checksum: int  # of some of its rows: it tells a run that was made again and differs
    #: What follows one another in the file: an array each if rows have a fixed width, else pickled rows.
    pieces: tuple[Piece, ...] = ()
    size: int = 0  # bytes of its file

    def __len__(self) -> int:
        return self.length

    @property
    def fixed(self) -> bool:
        """Whether the bytes of a row have a fixed width."""
        return has_fixed_width(self.like)

    def open(self) -> Descriptor:
        """Open its file, which the handle keeps unless many are open: groups take a slice each."""
        known: Descriptor | None = self.__dict__.get("_descriptor")
        if known:
            return known
        try:
            self._check_memory(self.path)  # not to open what waits or acts, such as a pipe
            opened = Descriptor(os.open(self.path, os.O_RDONLY))
            self._check_memory(f"{PROCESSES}self/fd/{opened.number}")
        except OSError as error:
            if error.errno in TOO_MANY_OPEN:
                raise
            raise RunIsGone(str(error)) from error
        if opened.number < MOST_OPEN:
            self.__dict__["_descriptor"] = opened
        return opened

    def _check_memory(self, path: str) -> None:
        """Refuse memory's path if it is that of something else, in another container or of a later time."""
        if self.path.startswith(PROCESSES) and self.name not in os.readlink(path):
            raise RunIsGone(f"{self.path} is not its memory")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_descriptor"}


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


class Kept(NamedTuple):
    """A run that is kept: itself and the open file of its memory, or neither if it is in a file of a disk."""

    handle: Handle
    run: Run | None = None
    file: Descriptor | None = None


class Store:
    """Keep the runs of one worker."""

    # Files go to `folder` without the setting ``directories``; it is made for the first one. `capacity` is bytes of
    # runs that the process may still take into its memory.

    def __init__(self, address: str, folder: Path, capacity: Callable[[], float]):
        self.address, self.folder, self.capacity = address, folder, capacity
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
        """Forget runs, and remove them in another thread: a file takes 10 ms, in which the worker answers nobody."""
        kept = [self._kept.pop(name) for name in names if name in self._kept]
        try:
            self._remover.submit(_remove, kept)
        except RuntimeError:  # the worker closes
            _remove(kept)

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
        return read(handle, start, stop) if run is None else run[start:stop]

    def open(self, handle: Handle) -> Run | None:
        """A run whose keys are read where they are asked for; None if that is not possible here."""
        kept = self._kept.get(handle.name)
        if kept and kept.run is not None:
            return kept.run
        try:
            return _mapped(handle.open(), handle, access=mmap.ACCESS_READ) if handle.fixed else None
        except RunIsGone:
            return None

    async def serve(self, names: Sequence[str], keys: Sequence[Any], bounds: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Handler: slices of runs, for a peer that cannot read them itself."""
        try:
            return await offload(self._pickled, names, bounds)
        except RunIsGone as error:
            number, reason = error.args
            kept = self.names(keys[number])  # perhaps another attempt: who asks has been cancelled then
            again = self.closed or (kept and names[number] not in kept)
            return {"status": "closes" if again else error.status, "number": number, "reason": str(reason)}

    def _pickled(self, names: Sequence[str], bounds: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Slices of runs as one message: a frame for each slice takes a millisecond."""
        found = []
        for number, (name, ends) in enumerate(zip(names, bounds, strict=True)):
            try:
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
        handle = _written(file, run, handle, checked=False)
        handle = replace(handle, path=f"{PROCESSES}{os.getpid()}/fd/{file.number}")
        # Dask counts what the process has in memory.
        return Kept(handle, _mapped(file, handle, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ), file)

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

    def _write(self, handle: Handle, run: Run) -> Handle:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for folder in self.folders():
            path = folder / handle.name
            try:
                folder.mkdir(mode=OWNER_ONLY, exist_ok=True)
                file = Descriptor(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                handle = _written(file, run, handle)
            except OSError as error:
                path.unlink(missing_ok=True)
                if error.errno not in FULL:
                    raise
                full = error
            else:
                return replace(handle, path=str(path))
        raise OSError(
            full.errno,
            f"the disk of worker {self.address} is full, so it cannot keep a sorted run of {run.nbytes:,} bytes: "
            "free space there, or set temporary-directory in dask.config to a larger disk, or gpusort.directories to "
            "folders of several",
            full.filename,
        ) from full


def memory_file(name: str) -> Descriptor | None:
    """A file of a name in memory; None where there is none, or if it would leave few files to be opened."""
    try:
        file = Descriptor(os.memfd_create(name))
    except (AttributeError, OSError):
        return None
    return file if file.number < MOST_OPEN else None


def _mapped(file: Descriptor, handle: Handle, **how: int) -> Run:
    """The arrays of a run in a file."""
    if os.fstat(file.number).st_size < handle.size:
        raise RunIsGone(SHORTER)
    memory = mmap.mmap(file.number, 0, **how) if handle.size else b""
    keys, *values = (
        np.ndarray((handle.length, *array.shape[1:]), array.dtype, memory, piece.start)
        for array, piece in zip(handle.like.arrays, handle.pieces, strict=True)
    )
    return Run(keys, tuple(values))


def _remove(runs: list[Kept]) -> None:
    while runs:
        kept = runs.pop()
        if kept.run is None:
            Path(kept.handle.path).unlink(missing_ok=True)


def _pieces(run: Run) -> Iterator[Any]:
    """What is written of a run, one after another."""
    if has_fixed_width(run):
        yield from map(byte_view, run.arrays)
        return
    for start in range(0, len(run), PICKLED_ROWS):
        yield pickle.dumps(run[start : start + PICKLED_ROWS])


def _written(file: Descriptor, run: Run, handle: Handle, *, checked: bool = True) -> Handle:
    """Write a run into an empty file, and all checksums behind it: handles stay small."""
    ends, found = [0], []
    for piece in _pieces(run):
        data = memoryview(piece)
        _write_all(file, data)
        ends.append(ends[-1] + data.nbytes)
        found.append(checksums(data) if checked else b"")
    _write_all(file, memoryview(b"".join(found)))
    starts = [*accumulate(map(len, found), initial=ends[-1])]
    where = starts if checked else [-1] * len(starts)
    pieces = tuple(map(Piece, ends[:-1], ends[1:], where[:-1]))
    return replace(handle, pieces=pieces, size=starts[-1])


def checksums(data: Any) -> bytes:
    """The checksums of the parts of some bytes: sums of their weighted words, modulo 2^64.

    A changed bit changes that of its part. Two in a part cancel out once in 2,000 times, as upper bits may; a part with
    other bytes has the same once in 2^64.
    """
    # One call for all parts: each waits for the interpreter's lock, which other threads want.
    view = np.frombuffer(data, np.uint8)
    whole = len(view) // PART_BYTES * PART_BYTES
    found = _sums(view[:whole])
    if whole < len(view):
        last = np.zeros(PART_BYTES, np.uint8)
        last[: len(view) - whole] = view[whole:]
        found += _sums(last)
    return found


def _sums(parts: np.ndarray) -> bytes:
    words = parts.view(np.uint64).reshape(-1, PART_BYTES // 8)
    sums: np.ndarray = np.einsum("ij,j->i", words, WEIGHTS[: PART_BYTES // 8])
    return sums.tobytes()


def _write_all(file: Descriptor, view: memoryview) -> None:
    done = 0
    while done < view.nbytes:
        done += os.write(file.number, view[done:])


def _read_all(file: Descriptor, data: Any, offset: int) -> None:
    view, done = memoryview(data), 0
    while done < view.nbytes:
        count = os.preadv(file.number, [view[done:]], offset + done)
        if not count:
            raise RunIsGone(SHORTER)
        done += count


class _Checked:
    """Bytes of files, as many checked at once as a block has: each call waits for the interpreter's lock."""

    def __init__(self) -> None:
        self.lost: dict[int, RunIsGone] = {}  # what cannot be read, by its number
        self._block, self._filled = _block(), 0
        self._waiting: list[tuple[int, int, bytes, np.ndarray, np.ndarray]] = []

    def read(self, number: int, handle: Handle, piece: Piece, offset: int, data: np.ndarray) -> None:
        """Read bytes of a piece, from some offset on; those of a disk in whole parts. They are there after `check`."""
        try:
            file = handle.open()
            if piece.checksums < 0:
                _read_all(file, data, piece.start + offset)
            elif data.nbytes:
                self._read_parts(number, file, _known_checksums(handle.path, *piece), piece, offset, data)
        except RunIsGone as error:
            self.lost[number] = error

    def _read_parts(
        self, number: int, file: Descriptor, known: bytes, piece: Piece, offset: int, data: np.ndarray
    ) -> None:
        stop, length = offset + len(data), piece.stop - piece.start
        for begin in range(offset // PART_BYTES * PART_BYTES, stop, BLOCK_BYTES):
            parts = -(-min(BLOCK_BYTES, stop - begin) // PART_BYTES)
            if self._filled + parts * PART_BYTES > BLOCK_BYTES:
                self.check()
            block = self._block[self._filled : self._filled + parts * PART_BYTES]
            size = min(len(block), length - begin)
            block[size:] = 0
            try:
                _read_all(file, block[:size], piece.start + begin)
            except OSError as error:
                raise RunIsDamaged(str(error)) from error
            low, high = max(begin, offset), min(begin + size, stop)
            first = begin // PART_BYTES
            sums = known[first * 8 : (first + parts) * 8]
            wanted = data[low - offset : high - offset]
            self._waiting.append((number, self._filled, sums, block[low - begin : high - begin], wanted))
            self._filled += len(block)

    def check(self) -> None:
        """Compare the checksums of what has been read, and copy it to where it is wanted."""
        found = checksums(self._block[: self._filled])
        for number, start, sums, read, wanted in self._waiting:
            first = start // PART_BYTES * 8
            if found[first : first + len(sums)] != sums:
                self.lost.setdefault(number, RunIsDamaged("its file has other bytes than were written"))
            wanted[...] = read  # by NumPy, which lets other threads run while it copies
        self._filled, self._waiting = 0, []


@lru_cache(KNOWN_PIECES)
def _known_checksums(path: str, start: int, stop: int, checksums: int) -> bytes:
    """The checksums of a piece of a file."""
    count = -(-(stop - start) // PART_BYTES) * 8
    try:
        with open(path, "rb") as file:
            file.seek(checksums)
            found = file.read(count)
    except FileNotFoundError as error:
        raise RunIsGone(str(error)) from error
    except OSError as error:
        raise RunIsDamaged(str(error)) from error
    if len(found) < count:
        raise RunIsGone(SHORTER)
    return found


_of_thread = threading.local()


def _block() -> np.ndarray:
    """Memory of this thread for a block: it takes longer to get new memory than to fill it."""
    if len(getattr(_of_thread, "block", ())) != BLOCK_BYTES:
        _of_thread.block = np.empty(BLOCK_BYTES, np.uint8)
    block: np.ndarray = _of_thread.block
    return block


def read(handle: Handle, start: int, stop: int) -> Run:
    """Read a slice of a run from its file."""
    if not handle.fixed:
        return _unpickle(handle, start, stop)
    run = empty_run(handle.like, stop - start)
    _raise_first(read_into({0: (handle, start, run)}))
    return run


def _raise_first(lost: dict[int, RunIsGone]) -> None:
    for error in lost.values():
        raise error


def empty_run(like: Run, length: int) -> Run:
    """Uninitialised arrays for a run of some length."""
    keys, *values = (np.empty((length, *array.shape[1:]), array.dtype) for array in like.arrays)
    return Run(keys, tuple(values))


def read_into(slices: Mapping[int, tuple[Handle, int, Run]]) -> dict[int, RunIsGone]:
    """Read as many rows as runs have, from some rows on, from files into them; return what is lost, by its number."""
    checked = _Checked()
    for number, (handle, start, run) in slices.items():
        for array, piece in zip(run.arrays, handle.pieces, strict=True):
            checked.read(number, handle, piece, start * _row_bytes(array), byte_view(array))
    checked.check()
    return checked.lost


def _unpickle(handle: Handle, start: int, stop: int) -> Run:
    if start == stop:
        return handle.like
    first, last = start // PICKLED_ROWS, -(-stop // PICKLED_ROWS)
    pieces = handle.pieces[first:last]
    pickled = [np.empty(piece.stop - piece.start, np.uint8) for piece in pieces]
    checked = _Checked()
    for number, (piece, data) in enumerate(zip(pieces, pickled, strict=True)):
        checked.read(number, handle, piece, 0, data)
    checked.check()
    _raise_first(checked.lost)
    parts = [pickle.loads(data.data) for data in pickled]
    whole = parts[0] if len(parts) == 1 else Run.concat(parts)
    return whole[start - first * PICKLED_ROWS : stop - first * PICKLED_ROWS]


def capacity_of(worker: Any) -> float:
    """Bytes of runs that a worker may still take into its memory."""
    limit = worker.memory_manager.memory_limit
    free = (limit or MEMORY_LIMIT) - worker.monitor.get_process_memory()
    if not limit:  # the workers of a host share its memory, and others take of it too
        free = min(free, psutil.virtual_memory().available)
    return float(free - (1 - MEMORY_SHARE) * (limit or MEMORY_LIMIT))
