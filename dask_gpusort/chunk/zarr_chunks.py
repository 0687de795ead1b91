r"""Chunks of unknown sizes, written to a Zarr array by whole Zarr chunks.

::

    Zarr chunks   |---------|---------|---------|---------|
    chunk 0       ======-----                                head none, tail -
    chunk 1                 ..==========------               head ., tail -
    chunk 2                                   ..             fills none: all is head
    chunk 3                                     .====---     head ., tail -

A task writes the Zarr chunks that are whole in a chunk (=). Those that chunks share are written where spans are joined,
tail and head. Each is written by one task, so no lock is needed, and a task that runs again writes the same. The array
has length 0 until all is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from .checks import DeclaredChunk, changed_source

#: Rows in pieces.
Pieces = tuple[Any, ...]


class Span(NamedTuple):
    """Hold what is not written yet of consecutive rows: less than two Zarr chunks."""

    start: int
    end: int
    head: Pieces  # rows before the first Zarr chunk that begins here; if none does, all
    tail: Pieces  # rows of the last one


#: Before the first chunk.
NOTHING_LEFT = Span(0, 0, (), ())


@dataclass(frozen=True)
class ZarrTarget:
    """Say where chunks are written: an array whose metadata in the store have another length than is written."""

    array: Any  # of Zarr
    config: Any  # of the array, as it was created
    axis: int  # whose length is unknown

    @property
    def units(self) -> tuple[int, ...]:
        """The shape of what is written at once, a Zarr chunk or shard."""
        return self.array.shards or self.array.chunks

    def bounds(self, start: int, end: int) -> tuple[int, int]:
        """Where the first Zarr chunk behind some rows begins, and the last one before their end: less if none does."""
        unit = self.units[self.axis]
        return -(-start // unit) * unit, end // unit * unit

    def shape(self, length: int) -> tuple[int, ...]:
        """The shape of an array of some rows."""
        return (*self.array.shape[: self.axis], length, *self.array.shape[self.axis + 1 :])

    def write(self, rows: Any, start: int, region: Sequence[slice]) -> None:
        """Write rows from an offset on, to a region of the other axes, as if they were the array's last ones."""
        if not len(rows):
            return
        # Its length ends with them, so that Zarr takes a shorter last chunk for a whole one, and reads none before.
        zarr, end = import_module("zarr"), start + len(rows)
        metadata = self.array.metadata.update_shape(self.shape(end))
        array = zarr.Array(zarr.AsyncArray(metadata, self.array.store_path, self.config))
        array[(*region[: self.axis], slice(start, end), *region[self.axis :])] = np.moveaxis(rows, 0, self.axis)


def count_rows(block: Any, declared: DeclaredChunk, target: ZarrTarget) -> int:
    """Task: the length of a chunk."""
    return declared.check(block).shape[target.axis]


def add_lengths(start: int, lengths: Sequence[int]) -> int:
    """Task: the offset behind some chunks."""
    return start + sum(lengths)


def write_chunk(
    block: Any, declared: DeclaredChunk, target: ZarrTarget, region: Sequence[slice], start: int, before: Sequence[int]
) -> Span:
    """Task: write the Zarr chunks that are whole in a chunk, behind chunks of some lengths from an offset on."""
    rows = np.moveaxis(declared.check(block), target.axis, 0)
    start += sum(before)
    end = start + len(rows)
    first, last = target.bounds(start, end)
    if first > last:
        return Span(start, end, (rows.copy(),), ())
    target.write(rows[first - start : last - start], first, region)
    # Copies, with which the chunk is not kept.
    return Span(start, end, (rows[: first - start].copy(),), (rows[last - start :].copy(),))


def join_spans(spans: Sequence[Span], target: ZarrTarget, region: Sequence[slice] | None, *_: Any) -> Span:
    """Task: join spans that follow each other, and write the Zarr chunks that they share, if there is a region."""
    found = spans[0]
    for span in spans[1:]:
        if span.start != found.end:
            raise changed_source("chunks of the array have other sizes than before, so it is not stored")
        (first, last), (begins, ends) = target.bounds(found.start, found.end), target.bounds(span.start, span.end)
        if first > last:
            found = Span(found.start, span.end, found.head + span.head, span.tail)
        elif begins > ends:
            found = Span(found.start, span.end, found.head, found.tail + span.head)
        else:
            if region is not None:
                target.write(np.concatenate(found.tail + span.head), last, region)
            found = Span(found.start, span.end, found.head, span.tail)
    return found


def write_shared(spans: Sequence[Span], target: ZarrTarget, region: Sequence[slice]) -> None:
    """Task: write the Zarr chunks that spans share."""
    join_spans(spans, target, region)


def finish_array(columns: Sequence[Sequence[Any]], regions: Sequence[Sequence[slice]], target: ZarrTarget) -> Any:
    """Task: write what is left, and give the array its length, that of each column of chunks."""
    spans = [span for span, *_ in columns]
    lengths = {span.end for span in spans}
    if len(lengths) > 1:
        raise changed_source(f"columns of chunks have {sorted(lengths)} rows, so they are not stored")
    for span, region in zip(spans, regions, strict=True):
        target.write(np.concatenate(span.tail), target.bounds(0, span.end)[1], region)
    target.array.resize(target.shape(spans[0].end))
    return np.int64(spans[0].end)
