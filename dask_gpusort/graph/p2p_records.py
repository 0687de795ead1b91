"""Records: how pieces of runs look on the wire and on disk.

A piece is what one chunk has for one group. It is written once, by the task that cuts the run, and the same bytes
travel and lie on disk; the workers between only copy them::

    run c, cut at offsets[c]          slab of (c, worker)                   file of group g on its worker
    |g0 |g1   |g2|g3    |      ->     [record c,g2][record c,g3]     ->     [record c,g3][record 7,g3][record 2,g3]...
                                      sizes of both, first group            in order of arrival

    record = head | layout | keys | values[0] | ... | pickle
             head    chunk, keys in the piece, bytes of layout, bytes of pickle: 4 x int64
             layout  dtypes and row shapes, pickled once a chunk
             keys, values   the arrays of fixed width, as they lie in memory
             pickle  the arrays of Python objects and of variable-width strings, empty if there are none

A group is read into one array for its keys and one for each of its values, every piece at its place in chunk order, so
that joining the pieces afterwards needs no copy (`Run.concat` with ``copy=None``).
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..chunk.run import Run, byte_view, is_fixed_width

_HEAD = struct.Struct("<4q")

#: One dtype and the shape of one row: () for keys.
Column: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]

_REMEDY = (
    "If the input is not the same each time it is computed, persist it before sorting; "
    "else choose another exchange (exchange='tasks') and report this."
)


class Slab(NamedTuple):
    """All records of one chunk for neighbouring groups. Bare numbers are Python ints, as distributed requires."""

    #: Group of the first record.
    first_group: int
    #: Bytes of each group's record, int64; 0 where the chunk has no keys for the group.
    sizes: bytes
    #: The records, end to end.
    records: bytes


class RunPacker:
    """Writes the records of one run.

    Parameters
    ----------
    chunk : int
        Number of the chunk that the run comes from.
    run : Run
        Sorted chunk, NumPy arrays.
    """

    def __init__(self, chunk: int, run: Run) -> None:
        columns: tuple[Column, ...] = tuple((array.dtype, array.shape[1:]) for array in run.arrays)
        self.chunk = chunk
        self._layout = pickle.dumps(columns)
        self._fixed = _fixed_bytes(run)
        self._objects = [array for array in run.arrays if not is_fixed_width(array.dtype)]

    def slab(self, groups: range, cuts: Sequence[int]) -> Slab | None:
        """Pack the pieces for neighbouring groups.

        Parameters
        ----------
        groups : range
            Groups to pack for.
        cuts : sequence of int, one longer than the number of groups
            Group g gets the keys ``cuts[g]:cuts[g + 1]`` of the run.

        Returns
        -------
        Slab or None
            None if the chunk has no record for any of the groups. Chunk 0 has one for every group, empty or not, so
            that each group knows the dtypes.
        """
        frames: list[bytes | memoryview] = []
        sizes = []
        for group in groups:
            record: list[bytes | memoryview] = []
            if cuts[group] < cuts[group + 1] or self.chunk == 0:
                record = self._record(cuts[group], cuts[group + 1])
            sizes.append(sum(map(len, record)))
            frames += record
        if not frames:
            return None
        return Slab(groups.start, np.array(sizes, np.int64).tobytes(), b"".join(frames))

    def _record(self, start: int, stop: int) -> list[bytes | memoryview]:
        objects = pickle.dumps([array[start:stop] for array in self._objects], protocol=5) if self._objects else b""
        head = _HEAD.pack(self.chunk, stop - start, len(self._layout), len(objects))
        fixed = [data[start * width : stop * width] for data, width in self._fixed]
        return [head, self._layout, *fixed, objects]


def split_slab(slab: Slab) -> Iterator[tuple[int, memoryview]]:
    """Yield the group and the record of every piece in a slab (which may have travelled as a plain tuple)."""
    first_group, sizes, records = slab
    ends = accumulate(np.frombuffer(sizes, np.int64).tolist(), initial=0)
    data = memoryview(records)
    for group, (start, end) in enumerate(pairwise(ends), first_group):
        if start < end:
            yield group, data[start:end]


def read_group(file: BinaryIO | None, group: int, lengths: NDArray[np.int64]) -> list[Run]:
    """Read the pieces of one group and check that each is there once.

    Parameters
    ----------
    file : binary file or None
        Records in any order; None if no record has come.
    group : int
        Number of the group, for the messages.
    lengths : int64 array, shape (num_chunks,)
        Keys that each chunk has for the group, by the cuts.

    Returns
    -------
    list of Run
        The pieces that have keys, in chunk order, views that lie end to end in memory; if none has, one empty run of
        the right dtypes.

    Raises
    ------
    RuntimeError
        If a piece is lost, came twice or has another length than the cuts say.
    """
    reader = _GroupReader(group, lengths)
    while file is not None and (head := file.read(_HEAD.size)):
        reader.read_record(file, head)
    return reader.pieces()


class _GroupReader:
    """Collects the records of one group into memory for the whole of it."""

    def __init__(self, group: int, lengths: NDArray[np.int64]) -> None:
        self._name = f"group {group} of the exchange"
        self._lengths: list[int] = lengths.tolist()
        self._starts = list(accumulate(self._lengths, initial=0))
        self._arrived: set[int] = set()
        #: The group's memory, made for the layout of the first record, and the same as bytes with the bytes of a row.
        self._whole: Run | None = None
        self._layout = b""
        self._bytes: list[tuple[memoryview, int]] = []
        #: Pieces that cannot lie there: pickled ones, and those of chunks that have strings of another width.
        self._apart: dict[int, Run] = {}

    def read_record(self, file: BinaryIO, head: bytes) -> None:
        """Read the record that begins with this head."""
        self._check_read(len(head), _HEAD.size)
        chunk, keys, layout_bytes, pickled_bytes = _HEAD.unpack(head)
        layout = file.read(layout_bytes)
        self._check_read(len(layout), layout_bytes)
        self._check_in(chunk, keys)
        if self._whole is None:
            self._whole, self._layout = _empty_run(layout, self._starts[-1]), layout
            self._bytes = _fixed_bytes(self._whole)
        if layout == self._layout and not pickled_bytes:
            self._fill(file, self._bytes, self._starts[chunk], self._starts[chunk + 1])
        else:
            room = _empty_run(layout, keys)
            self._fill(file, _fixed_bytes(room), 0, keys)
            objects = file.read(pickled_bytes)
            self._check_read(len(objects), pickled_bytes)
            self._apart[chunk] = _with_objects(room, objects) if objects else room

    def _check_in(self, chunk: int, keys: int) -> None:
        if not 0 <= chunk < len(self._lengths):
            raise RuntimeError(f"{self._name} got keys of an unknown chunk {chunk}. {_REMEDY}")
        if chunk in self._arrived:
            raise RuntimeError(f"{self._name} got the keys of chunk {chunk} twice. {_REMEDY}")
        if keys != self._lengths[chunk]:
            raise RuntimeError(
                f"{self._name} got {keys} keys of chunk {chunk}, where the cuts say {self._lengths[chunk]}. {_REMEDY}"
            )
        self._arrived.add(chunk)

    def _fill(self, file: BinaryIO, columns: list[tuple[memoryview, int]], start: int, stop: int) -> None:
        for data, width in columns:
            room = data[start * width : stop * width]
            self._check_read(file.readinto(room), len(room))  # type: ignore[attr-defined]

    def _check_read(self, got: int, wanted: int) -> None:
        if got != wanted:
            raise RuntimeError(f"a file of {self._name} ends inside a record. {_REMEDY}")

    def pieces(self) -> list[Run]:
        """Give the pieces in chunk order, once all records are read."""
        expected = [chunk for chunk, keys in enumerate(self._lengths) if keys]
        missing = [chunk for chunk in expected if chunk not in self._arrived]
        if missing or self._whole is None:
            raise RuntimeError(
                f"{self._name} has lost the keys of {len(missing)} of {len(expected)} chunks, "
                f"the first being {(missing or [0])[:8]}. {_REMEDY}"
            )
        whole, starts = self._whole, self._starts
        found = [self._apart.get(chunk) or whole[starts[chunk] : starts[chunk + 1]] for chunk in expected]
        return found or [whole[:0]]


def _with_objects(room: Run, pickled: bytes) -> Run:
    """Put the arrays that were pickled into the places of a run that are theirs."""
    objects = iter(pickle.loads(pickled))
    keys, *values = (array if is_fixed_width(array.dtype) else next(objects) for array in room.arrays)
    return Run(keys, tuple(values))


@lru_cache(maxsize=64)  # all chunks of an exchange share one layout, save strings of several widths
def _columns(layout: bytes) -> tuple[Column, ...]:
    columns: tuple[Column, ...] = pickle.loads(layout)
    return columns


def _empty_run(layout: bytes, keys: int) -> Run:
    """Memory for a number of keys."""
    first, *others = (np.empty((keys, *shape), dtype) for dtype, shape in _columns(layout))
    return Run(first, tuple(others))


def _fixed_bytes(run: Run) -> list[tuple[memoryview, int]]:
    """Give the bytes, and the bytes of a row, of each array of fixed width."""
    return [
        (byte_view(array).data, array.dtype.itemsize * prod(array.shape[1:]))
        for array in run.arrays
        if is_fixed_width(array.dtype)
    ]
