"""One level of a most-significant-digit sort: every element moves to the bucket of its digit (``partition.cu``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import DeviceKey
from ..keys.elements import Elements
from ..launch.constants import cxx_constant
from ..launch.cxx_types import bytes_of_type
from ..launch.grid import blocks_for, instance
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from ..policy import tuning
from ..policy.limits import fit_stable

SOURCE = "msd/partition.cu"
RADIX = cxx_constant("lsd/byte_digits.cuh", "kRadix")  # most digits of a stable pass
UNIFORM, SPLITTERS, EITHER = "MapKind::kUniform", "MapKind::kSplitters", "MapKind::kEither"


@dataclass(slots=True)
class Digits:
    """How a partition finds the digit of an element.

    Attributes
    ----------
    name : str
        C++ type of the digits.
    map_words : int
        Words of shared memory that the map takes.
    map : device array or address
        The splitter map, or the intervals of all segments.
    fine_bits : int
        Bits of a fine bucket's number below its coarse bucket's.
    """

    name: str
    map_words: int
    map: Any
    fine_bits: int = 0


def fine_digits(domain: str, kind: str, is_coarse: bool, splitters: Any, fine_bits: int) -> Digits:
    """The coarse part of a fine bucket's number, or the rest; `kind` is what the host knows of the map."""
    # Keys of the first level look up intervals all over the map, which is copied to shared memory for them.
    is_copied = is_coarse and kind != UNIFORM
    name = instance("FineDigits", domain, is_coarse, kind)
    return Digits(name, tuning.MAP_WORDS if is_copied else tuning.WORDS_PER_VECTOR, splitters, fine_bits)


def segment_digits(code_type: str, keys_alone: bool, intervals: Any) -> Digits:
    """The digits that each segment has for itself."""
    return Digits(instance("SegmentDigits", code_type, keys_alone), tuning.SEGMENT_MAP_WORDS, intervals)


@dataclass(slots=True)
class Segments:
    """The segments that a partition reads, and the buckets that it fills.

    Attributes
    ----------
    table : device array or address
        C++ structs ``Segment``.
    count : int
        Number of segments.
    num_tiles : int
        Tiles of all segments, at most.
    cursors : device array or address
        Next free offset of each bucket, 64 bits: first the bucket's start, at last its end.
    """

    table: Any
    count: int
    num_tiles: int
    cursors: Any


@dataclass(slots=True)
class Partition:
    """One pass that moves every element to the bucket of its digit, within its segment.

    Attributes
    ----------
    elements : Elements
        What is sorted.
    source : str
        C++ source of the codes: of raw keys in a first level.
    tile : tuning.Tile
        The block.
    digits : Digits
    segments : Segments
    inputs, outputs : tuple
        Codes (or raw keys) and payloads.
    """

    elements: Elements
    source: str
    tile: tuning.Tile
    digits: Digits
    segments: Segments
    inputs: tuple[Any, Any]
    outputs: tuple[Any, Any]

    def run(self) -> None:
        """Launch the kernel."""
        elements, tile, digits, segments = self.elements, self.tile, self.digits, self.segments
        shape = tile.threads, tile.items, tile.digits, tile.blocks
        name = instance("partition", self.source, elements.payload_type, digits.name, *shape)
        table = digits.map, np.uint32(digits.fine_bits), segments.table, np.uint32(segments.count), segments.cursors
        arguments = *self.inputs, *self.outputs, *table, np.uint64(elements.base)
        shared = tile.shared_bytes(*elements.shape, tile.digits, digits.map_words)
        Launch(SOURCE, name, segments.num_tiles, tile.threads, arguments, shared).run()


@dataclass(slots=True)
class StablePartition:
    """One pass that moves keys (as one-to-one codes) and values to their buckets, in input order.

    Attributes
    ----------
    key : DeviceKey
    value_type : str
        C++ type of the values.
    digits : Digits
        At most `RADIX` of them.
    inputs, outputs : tuple
        Raw keys and values, and codes and values.
    starts : device array or address
        First offset of each bucket, 64 bits.
    """

    key: DeviceKey
    value_type: str
    digits: Digits
    inputs: tuple[Any, Any]
    outputs: tuple[Any, Any]
    starts: Any

    def run(self, n: int) -> None:
        """Launch the kernel on n pairs."""
        key, digits = self.key, self.digits
        widths = key.itemsize, bytes_of_type(self.value_type)
        storage = *widths, digits.map_words, True
        tile = fit_stable(tuning.STABLE[widths], *storage)
        num_tiles = blocks_for(n, tile.keys)
        status = require_cupy().zeros(num_tiles * RADIX + 1, np.uint32)
        types = f"Keys<{key.order}>", self.value_type, instance("KeyDigits", key.order, digits.name)
        name = instance("partition_stable", *types, tile.threads, tile.items, tile.blocks)
        table = digits.map, np.uint32(digits.fine_bits), self.starts, status, status[-1:]
        arguments = *self.inputs, *self.outputs, np.uint64(n), *table
        shared = tuning.stable_shared_bytes(tile, *storage)
        Launch(SOURCE, name, num_tiles, tile.threads, arguments, shared).run()
