"""Handles of kept runs: who writes a run and who reads a slice of it agree here on where its bytes are."""

from __future__ import annotations

import errno
import math
import mmap
import os
import pickle
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from ...chunk.run import Run, byte_view, is_fixed_width
from .files import MOST_OPEN, SHORTER, Checked, Descriptor, Piece, RunIsGone, checksums, open_file, write_all

#: Rows of a run of variable width that are pickled at once: a slice reads at most as many that it does not need.
PICKLED_ROWS = 1 << 13
#: About as many rows of a run are checked when it is made again.
CHECKED_ROWS = 1 << 10
#: Where Linux lists processes and their open files, memory among them, which they may open that have the same user.
PROCESSES = "/proc/"
#: Errors of a process that has too many files open.
TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)


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

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in memory, at least."""
        return sum(map(_row_bytes, self.like.arrays))

    def open(self) -> Descriptor:
        """Open its file, which the handle keeps unless many are open: groups take a slice each."""
        known: Descriptor | None = self.__dict__.get("_descriptor")
        if known:
            return known
        try:
            opened = self._open_memory() if self.path.startswith(PROCESSES) else open_file(self.path)
        except OSError as error:
            if error.errno in TOO_MANY_OPEN:
                raise
            raise RunIsGone(str(error)) from error
        if opened.number < MOST_OPEN:
            self.__dict__["_descriptor"] = opened
        return opened

    def _open_memory(self) -> Descriptor:
        """Open its memory, and not what has that path in another container or at a later time."""
        self._check_memory(self.path)  # not to open what waits or acts, such as a pipe
        opened = Descriptor(os.open(self.path, os.O_RDONLY))
        self._check_memory(f"{PROCESSES}self/fd/{opened.number}")
        return opened

    def _check_memory(self, path: str) -> None:
        if not os.readlink(path).startswith(f"/memfd:{self.name}"):
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
    return array.dtype.itemsize * math.prod(array.shape[1:])


def _pieces(run: Run) -> Iterator[Any]:
    """What is written of a run, one after another."""
    if has_fixed_width(run):
        yield from map(byte_view, run.arrays)
        return
    for start in range(0, len(run), PICKLED_ROWS):
        yield pickle.dumps(run[start : start + PICKLED_ROWS])


def written(file: Descriptor, run: Run, handle: Handle, *, checked: bool = True) -> Handle:
    """Write a run into an empty file, and all checksums behind it: handles stay small."""
    ends, found = [0], []
    for piece in _pieces(run):
        data = memoryview(piece)
        write_all(file, data)
        ends.append(ends[-1] + data.nbytes)
        found.append(checksums(data) if checked else b"")
    write_all(file, memoryview(b"".join(found)))
    starts = [*accumulate(map(len, found), initial=ends[-1])]
    where = starts if checked else [-1] * len(starts)
    pieces = tuple(map(Piece, ends[:-1], ends[1:], where[:-1]))
    return replace(handle, pieces=pieces, size=starts[-1])


def mapped(file: Descriptor, handle: Handle, **how: int) -> Run:
    """The arrays of a run in a file."""
    if os.fstat(file.number).st_size < handle.size:
        raise RunIsGone(SHORTER)
    memory = mmap.mmap(file.number, 0, **how) if handle.size else b""
    keys, *values = (
        np.ndarray((handle.length, *array.shape[1:]), array.dtype, memory, piece.start)
        for array, piece in zip(handle.like.arrays, handle.pieces, strict=True)
    )
    return Run(keys, tuple(values))


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
    checked = Checked()
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
    checked = Checked()
    for number, (piece, data) in enumerate(zip(pieces, pickled, strict=True)):
        checked.read(number, handle, piece, 0, data)
    checked.check()
    _raise_first(checked.lost)
    parts = [pickle.loads(data.data) for data in pickled]
    whole = parts[0] if len(parts) == 1 else Run.concat(parts)
    return whole[start - first * PICKLED_ROWS : stop - first * PICKLED_ROWS]
