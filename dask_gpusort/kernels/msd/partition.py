"""One level of a most-significant-digit sort: every element moves to the bucket of its digit (``partition.cu``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import DeviceKey
from ..keys.elements import Elements
from ..launch.cxx_types import bytes_of_type
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.limits import fit_stable

SOURCE = "msd/partition.cu"
RADIX = cxx_constant("lsd/onesweep_tile.cuh", "kRadix")  # most digits of a stable pass
UNIFORM, SPLITTERS = "MapKind::kUniform", "MapKind::kSplitters"


@dataclass(slots=True)
class DigitMap:
    """Say how a partition finds the digit of an element."""

    name: str  # C++ type of the digits
    map_words: int  # words of shared memory that the map takes
    map: Any  # the splitter map, or the intervals of all segments
    fine_bits: int = 0  # bits of a fine bucket's number below its coarse bucket's


def fine_digits(domain: str, kind: str, is_coarse: bool, splitters: Any, fine_bits: int) -> DigitMap:
    """Give the coarse part of a fine bucket's number, or the rest; `kind` is what the host knows of the map."""
    # Keys of the first level look up intervals all over the map, which is copied to shared memory for them.
    is_copied = is_coarse and kind != UNIFORM
    name = instance("FineDigits", domain, is_coarse, kind)
    return DigitMap(name, tuning.MAP_WORDS if is_copied else tuning.WORDS_PER_VECTOR, splitters, fine_bits)


def segment_digits(code_type: str, keys_alone: bool, intervals: Any) -> DigitMap:
    """Give the digits that each segment has for itself."""
    return DigitMap(instance("SegmentDigits", code_type, keys_alone), tuning.SEGMENT_MAP_WORDS, intervals)


@dataclass(slots=True)
class Segments:
    """Hold the segments that a partition reads, and the buckets that it fills."""

    table: Any  # C++ structs ``Segment``
    count: int  # of segments
    num_tiles: int  # of all segments, at most
    cursors: Any  # next free offset of each bucket, 64 bits: first the bucket's start, at last its end


@dataclass(slots=True)
class Partition:
    """Describe a pass that moves every element to the bucket of its digit, within its segment."""

    elements: Elements
    source: str  # C++ source of the codes: of raw keys in a first level
    tile: tuning.Tile  # the block
    digits: DigitMap
    segments: Segments
    inputs: tuple[Any, Any]  # codes (or raw keys) and payloads
    outputs: tuple[Any, Any]  # codes and payloads

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
    """Describe a pass that moves keys (as one-to-one codes) and values to their buckets, in input order."""

    key: DeviceKey
    value_type: str  # C++ type of the values
    digits: DigitMap  # at most `RADIX` of them
    inputs: tuple[Any, Any]  # raw keys and values
    outputs: tuple[Any, Any]  # codes and values
    starts: Any  # first offset of each bucket, 64 bits

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
