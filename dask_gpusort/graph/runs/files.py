"""Files of runs, on a disk or in memory, and checksums of their parts.

Linux has memory with a path: other processes of the user read slices of a run there as they do from a file.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

#: Bytes that have a checksum of their own: who reads a slice of a file reads at most two parts that it does not need.
#: For slices of 10 KiB that is 1.6 times what they have; with parts of 32 KiB 4.0 times.
PART_BYTES = 1 << 13
#: Bytes that are read at once before they are checked and copied: a processor's cache holds them.
BLOCK_BYTES = 1 << 20
#: Bytes of checksums that are read at once, and how many of these a process knows: groups take a slice of each run in
#: turn, which lies behind that of the group before.
SUMS_BYTES, KNOWN_SUMS = 1 << 10, 1 << 14
#: Weights of the words of a part in its checksum: random, so that errors do not cancel out, and odd.
WEIGHTS = np.random.default_rng(0).integers(0, 1 << 63, PART_BYTES // 8, np.uint64) * 2 + 1
#: Files that a process may have open for runs, of the number that it may have for all: a connection is a file too.
MOST_OPEN = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource else 512) // 2
#: Windows changes the bytes of files that are not opened so.
BINARY = getattr(os, "O_BINARY", 0)
#: The name of a run, which its file has too.
NAME_OF_RUN = re.compile("[0-9a-f]{32}")
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


def memory_file(name: str) -> Descriptor | None:
    """A file of a name in memory; None where there is none, or if it would leave few files to be opened."""
    try:
        file = Descriptor(os.memfd_create(name))
    except (AttributeError, OSError):
        return None
    return file if file.number < MOST_OPEN else None


def open_file(path: str) -> Descriptor:
    """Open a file that may be one of a run by its name, and no link: a handle with its path comes from a peer."""
    if not NAME_OF_RUN.fullmatch(os.path.basename(path)):
        raise RunIsGone(f"{path} is not the file of a run")
    return Descriptor(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | BINARY))


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


def write_all(file: Descriptor, view: memoryview) -> None:
    done = 0
    while done < view.nbytes:
        done += os.write(file.number, view[done:])


def _read_all(file: Descriptor, data: Any, offset: int) -> None:
    view, done = memoryview(data), 0
    while done < view.nbytes:
        count = _read_some(file, view[done:], offset + done)
        if not count:
            raise RunIsGone(SHORTER)
        done += count


def _read_some(file: Descriptor, view: memoryview, offset: int) -> int:
    """Read bytes of a file, which other threads read at the same time; gives their number."""
    if hasattr(os, "preadv"):
        return os.preadv(file.number, [view], offset)
    with _moving:  # Windows reads where the file stands
        os.lseek(file.number, offset, os.SEEK_SET)
        data = os.read(file.number, view.nbytes)
    view[: len(data)] = data
    return len(data)


class Opens(Protocol):
    """Say where a file is, and open it."""

    @property
    def path(self) -> str:
        """Its path."""

    def open(self) -> Descriptor:
        """The file; raises `RunIsGone`."""


class Checked:
    """Bytes of files, as many checked at once as a block has: each call waits for the interpreter's lock."""

    def __init__(self) -> None:
        self.lost: dict[int, RunIsGone] = {}  # what cannot be read, by its number
        self._filled = 0
        self._waiting: list[tuple[int, int, bytes, np.ndarray, np.ndarray]] = []

    def read(self, number: int, file: Opens, piece: Piece, offset: int, data: np.ndarray) -> None:
        """Read bytes of a piece, from some offset on; those of a disk in whole parts. They are there after `check`."""
        try:
            opened = file.open()
            if piece.checksums < 0:
                _read_all(opened, data, piece.start + offset)
            elif data.nbytes:
                self._read_parts(number, opened, file.path, piece, offset, data)
        except RunIsGone as error:
            self.lost[number] = error

    def _read_parts(
        self, number: int, file: Descriptor, path: str, piece: Piece, offset: int, data: np.ndarray
    ) -> None:
        stop, length = offset + len(data), piece.stop - piece.start
        for begin in range(offset // PART_BYTES * PART_BYTES, stop, BLOCK_BYTES):
            parts = -(-min(BLOCK_BYTES, stop - begin) // PART_BYTES)
            if self._filled + parts * PART_BYTES > BLOCK_BYTES:
                self.check()
            block = _block()[self._filled : self._filled + parts * PART_BYTES]
            size = min(len(block), length - begin)
            block[size:] = 0
            try:
                _read_all(file, block[:size], piece.start + begin)
            except OSError as error:
                raise RunIsDamaged(str(error)) from error
            low, high = max(begin, offset), min(begin + size, stop)
            sums = _known_checksums(path, piece, begin // PART_BYTES * 8, parts * 8)
            wanted = data[low - offset : high - offset]
            self._waiting.append((number, self._filled, sums, block[low - begin : high - begin], wanted))
            self._filled += len(block)

    def check(self) -> None:
        """Compare the checksums of what has been read, and copy it to where it is wanted."""
        if not self._waiting:  # all was in memory
            return
        found = checksums(_block()[: self._filled])
        for number, start, sums, read, wanted in self._waiting:
            first = start // PART_BYTES * 8
            if found[first : first + len(sums)] != sums:
                self.lost.setdefault(number, RunIsDamaged("its file has other bytes than were written"))
            wanted[...] = read  # by NumPy, which lets other threads run while it copies
        self._filled, self._waiting = 0, []


def _known_checksums(path: str, piece: Piece, first: int, count: int) -> bytes:
    """Some bytes of the checksums of a piece of a file."""
    low, stop = first // SUMS_BYTES * SUMS_BYTES, -(-(piece.stop - piece.start) // PART_BYTES) * 8
    known = [
        _checksums_at(path, piece.checksums + at, min(SUMS_BYTES, stop - at))
        for at in range(low, first + count, SUMS_BYTES)
    ]
    return b"".join(known)[first - low : first - low + count]


@lru_cache(KNOWN_SUMS)
def _checksums_at(path: str, start: int, count: int) -> bytes:
    """Some bytes of a file, which are checksums."""
    found = bytearray(count)
    try:
        _read_all(open_file(path), found, start)
    except FileNotFoundError as error:
        raise RunIsGone(str(error)) from error
    except OSError as error:
        raise RunIsDamaged(str(error)) from error
    return bytes(found)


_of_thread, _moving = threading.local(), threading.Lock()


def _block() -> np.ndarray:
    """Memory of this thread for a block: it takes longer to get new memory than to fill it."""
    if len(getattr(_of_thread, "block", ())) != BLOCK_BYTES:
        _of_thread.block = np.empty(BLOCK_BYTES, np.uint8)
    block: np.ndarray = _of_thread.block
    return block
