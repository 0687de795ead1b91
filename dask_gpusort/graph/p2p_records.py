"""Records: the form of pieces in messages and on disk.

A piece is what one chunk has for one group. The task that cuts the run writes it once; the workers in between copy the
same bytes::

    run c, cut at offsets[c]          batch of (c, worker)                  file of group g on its worker
    |g0 |g1   |g2|g3    |      ->     [record c,g2][record c,g3]     ->     [record c,g3][record 7,g3][record 2,g3]...
                                      sizes of both, first group            in order of arrival

    record = head | layout | keys | values[0] | ... | pickle
             head    chunk, its start in the input, keys in the piece, bytes of layout, bytes of the fixed-width arrays,
                     bytes of pickle: 6 x int64
             layout  dtypes and row shapes, pickled once a chunk
             keys, values   the fixed-width arrays, as in memory
             pickle  the arrays of Python objects and of variable-width strings, empty if there are none

A group's file is read twice, first the heads alone. They give the length of each piece, so that the group is read into
one array for its keys and one for each of its values, every piece at its offset in chunk order, and concatenating the
pieces afterwards copies nothing (`Run.concat` with ``copy=None``).
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from ..chunk.run import Run, byte_view, is_fixed_width
from .cut_runs import CutRun, Piece

_HEAD = struct.Struct("<6q")

#: One dtype and the shape of one row: () for keys.
Column: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]

_REMEDY = (
    "If the input is not the same each time it is computed, persist it before sorting; "
    "else choose another exchange (exchange='tasks') and report this."
)


class RecordBatch(NamedTuple):
    """All records of one chunk for neighbouring groups. Plain numbers are Python ints, as distributed requires."""

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
    cut : CutRun
        Sorted chunk, NumPy arrays.
    """

    def __init__(self, chunk: int, cut: CutRun) -> None:
        run = cut.run
        columns: tuple[Column, ...] = tuple((array.dtype, array.shape[1:]) for array in run.arrays)
        self.chunk, self.cut = chunk, cut
        self._layout = pickle.dumps(columns)
        self._fixed = _fixed_bytes(run)
        self._objects = [array for array in run.arrays if not is_fixed_width(array.dtype)]

    def batch(self, groups: range) -> RecordBatch | None:
        """Pack the pieces for neighbouring groups.

        Parameters
        ----------
        groups : range
            Groups to pack for.

        Returns
        -------
        RecordBatch or None
            None if the chunk has no record for these groups. Chunk 0 has a record for every group, so that each group
            receives the dtypes.
        """
        frames: list[bytes | memoryview] = []
        sizes = []
        for group in groups:
            record: list[bytes | memoryview] = []
            start, stop = self.cut.bounds(group)
            if start < stop or self.chunk == 0:
                record = self._record(start, stop)
            sizes.append(sum(map(len, record)))
            frames += record
        if not frames:
            return None
        return RecordBatch(groups.start, np.array(sizes, np.int64).tobytes(), b"".join(frames))

    def _record(self, start: int, stop: int) -> list[bytes | memoryview]:
        objects = pickle.dumps([array[start:stop] for array in self._objects], protocol=5) if self._objects else b""
        fixed = [data[start * width : stop * width] for data, width in self._fixed]
        head = _HEAD.pack(
            self.chunk, self.cut.start, stop - start, len(self._layout), sum(map(len, fixed)), len(objects)
        )
        return [head, self._layout, *fixed, objects]


def split_batch(batch: RecordBatch) -> Iterator[tuple[int, memoryview]]:
    """Yield the group and the record of every piece in a batch (which arrives as a plain tuple)."""
    first_group, sizes, records = batch
    ends = accumulate(np.frombuffer(sizes, np.int64).tolist(), initial=0)
    data = memoryview(records)
    for group, (start, end) in enumerate(pairwise(ends), first_group):
        if start < end:
            yield group, data[start:end]


class _Head(NamedTuple):
    """Head of a record, and the file offset behind the head."""

    chunk: int
    start: int
    keys: int
    layout: int
    fixed: int
    pickled: int
    offset: int


def read_group(file: BinaryIO | None, group: int, expected: int) -> list[Piece]:
    """Read the pieces of one group and check that all are there, each of them once.

    Parameters
    ----------
    file : binary file or None
        Records in any order; None if no record arrived.
    group : int
        Number of the group, for the messages.
    expected : int
        Keys in all pieces.

    Returns
    -------
    list of Piece
        Non-empty pieces in chunk order, views that are end to end in memory; if there are none, one empty run of the
        right dtypes.

    Raises
    ------
    RuntimeError
        If a piece is lost, or arrived twice.
    """
    name = f"group {group} of the exchange"
    reader = None if file is None else _GroupReader(file, name)
    heads = reader.heads() if reader else []
    found = sum(head.keys for head in heads)
    if reader is None or not heads or found != expected:
        raise RuntimeError(f"{name} got {found} keys of {len(heads)} chunks, where the cuts say {expected}. {_REMEDY}")
    return reader.pieces(heads)


def read_portions(file: BinaryIO | None, group: int, most: int, whole: int = 0) -> Iterator[list[Piece]]:
    """Read the pieces of one group in chunk order, some at a time.

    Parameters
    ----------
    file : binary file or None
        As for `read_group`.
    group : int
        Number of the group, for the messages.
    most : int
        Keys in the pieces of a portion, unless a piece has more.
    whole : int
        Runs whose pieces are the first portion, however many keys they have; 0 for none.
    """
    if file is None:
        return
    reader = _GroupReader(file, f"group {group} of the exchange")
    portion: list[_Head] = []
    for head in sorted(reader.heads()):
        full = sum(other.keys for other in portion) + head.keys > most and head.chunk >= whole
        if portion and (full or portion[-1].chunk < whole <= head.chunk):
            yield reader.pieces(portion)
            portion = []
        portion.append(head)
    if portion:
        yield reader.pieces(portion)


class _GroupReader:
    """Reads the records of one group into one array a column."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name

    def heads(self) -> list[_Head]:
        """Heads of all records, in file order."""
        found: dict[int, _Head] = {}
        while packed := self._file.read(_HEAD.size):
            self._check_read(len(packed), _HEAD.size)
            head = _Head._make((*_HEAD.unpack(packed), self._file.tell()))
            if head.chunk in found:
                raise RuntimeError(f"{self._name} got the keys of chunk {head.chunk} twice. {_REMEDY}")
            found[head.chunk] = head
            self._file.seek(head.layout + head.fixed + head.pickled, os.SEEK_CUR)
        return list(found.values())

    def pieces(self, heads: Sequence[_Head]) -> list[Piece]:
        """Read the records, each to its offset in chunk order."""
        ordered = sorted(heads)
        ends = accumulate((head.keys for head in ordered), initial=0)
        rows_of = {head: slice(*end) for head, end in zip(ordered, pairwise(ends), strict=True)}
        layout = self._read(heads[0].offset, heads[0].layout)
        whole = _empty_run(layout, sum(head.keys for head in heads))
        columns = _fixed_bytes(whole)
        runs: dict[_Head, Run] = {}
        # In file order, so that the file is read sequentially.
        for head in heads:
            rows = rows_of[head]
            own = self._read(head.offset, head.layout)
            if own == layout and not head.pickled:
                self._fill(columns, rows)
                runs[head] = whole[rows]
            else:
                runs[head] = self._read_separately(own, head)
        return [(head.start, runs[head]) for head in ordered if head.keys] or [(0, whole)]

    def _read_separately(self, layout: bytes, head: _Head) -> Run:
        """A piece in its own arrays: a pickled one, or one with strings of another width."""
        run = _empty_run(layout, head.keys)
        self._fill(_fixed_bytes(run), slice(0, head.keys))
        objects = self._read(head.offset + head.layout + head.fixed, head.pickled)
        return _with_objects(run, objects) if objects else run

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(size)
        self._check_read(len(data), size)
        return data

    def _fill(self, columns: list[tuple[memoryview, int]], rows: slice) -> None:
        for data, width in columns:
            target = data[rows.start * width : rows.stop * width]
            self._check_read(self._file.readinto(target), len(target))  # type: ignore[attr-defined]

    def _check_read(self, got: int, wanted: int) -> None:
        if got != wanted:
            raise RuntimeError(f"a file of {self._name} ends inside a record. {_REMEDY}")


def _with_objects(run: Run, pickled: bytes) -> Run:
    """A run with its arrays of variable width taken from the pickle."""
    objects = iter(pickle.loads(pickled))
    keys, *values = (array if is_fixed_width(array.dtype) else next(objects) for array in run.arrays)
    return Run(keys, tuple(values))


@lru_cache(maxsize=64)  # chunks share a layout, unless strings differ in width
def _columns(layout: bytes) -> tuple[Column, ...]:
    columns: tuple[Column, ...] = pickle.loads(layout)
    return columns


def _empty_run(layout: bytes, keys: int) -> Run:
    """A run of uninitialised arrays."""
    first, *others = (np.empty((keys, *shape), dtype) for dtype, shape in _columns(layout))
    return Run(first, tuple(others))


def _fixed_bytes(run: Run) -> list[tuple[memoryview, int]]:
    """Bytes, and bytes of a row, of each fixed-width array."""
    return [
        (byte_view(array).data, array.dtype.itemsize * prod(array.shape[1:]))
        for array in run.arrays
        if is_fixed_width(array.dtype)
    ]
