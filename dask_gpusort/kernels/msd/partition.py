"""The buckets of both levels of a sort: sampled, counted, and scanned into the tables of the partition passes.

    keys -> splitter map -> histogram of fine buckets -> starts and cursors of fine and of coarse buckets

A coarse bucket is 2^fine_bits fine buckets. The first level moves keys to coarse buckets; these are the segments of the
second level, which moves keys to fine buckets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ..block_sort.block_sort import SEGMENT_BYTES
from ..buckets.counting import SCAN_THREADS, count_fine, scan_fine, splitter_buckets
from ..buckets.splitters import BalanceTest, MapFlags, read_map_flags, sample_splitters
from ..keys.dtypes import DeviceKey, Elements
from ..launch.arrays import bytes_of_type
from ..launch.launch import Launch, blocks_for, instance, side_by_side
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.limits import fit_stable, fit_tile

SOURCE = "msd/partition.cu"
RADIX = cxx_constant("lsd/onesweep_tile.cuh", "kRadix")  # most digits of a stable pass
UNIFORM, SPLITTERS = "MapKind::kUniform", "MapKind::kSplitters"
ALLOCATION_ALIGNMENT = 256  # of cudaMalloc, so that vector loads of any table are aligned
OFFSET_BYTES = 8

T = TypeVar("T")


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


@dataclass(slots=True)
class Workspace:
    """Hold many small tables, by name, in one device allocation."""

    memory: Any
    addresses: dict[str, int]  # device address of each table

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]

    def words(self, name: str, count: int) -> Any:
        """Give the first 64-bit words of a table: shape (count,)."""
        start = self.addresses[name] - self.memory.data.ptr
        return self.memory[start:][: OFFSET_BYTES * count].view(np.uint64)


def allocate_workspace(**sizes: int) -> Workspace:
    """Allocate tables of the given sizes in bytes, in this order, each aligned to `ALLOCATION_ALIGNMENT` bytes."""
    offsets, total = {}, 0
    for name, size in sizes.items():
        offsets[name] = total
        total += -(-size // ALLOCATION_ALIGNMENT) * ALLOCATION_ALIGNMENT
    memory = require_cupy().empty(total, np.uint8)
    side_by_side.keep(memory)
    start = memory.data.ptr
    return Workspace(memory, {name: start + offset for name, offset in offsets.items()})


@dataclass
class BucketMap:
    """Describe the buckets of both levels."""

    splitters: Any  # the splitter map
    domain: str  # C++ domain of the map
    kind: str  # C++ kind of the map
    is_narrow: bool  # the sampled codes are within 2^32 of each other
    fine_bits: int  # bits of a fine bucket's number below its coarse bucket's
    num_coarse: int
    num_fine: int
    tables: Workspace  # `coarse_cursors`, `starts` and `cursors` (of fine buckets), `whole` and `coarse` (segments)

    def digits(self, is_coarse: bool) -> DigitMap:
        """Give the digits of the first level, or of the second."""
        return fine_digits(self.domain, self.kind, is_coarse, self.splitters, self.fine_bits)

    @property
    def cursors(self) -> Any:
        """Starts of the coarse buckets, and their ends once they are filled: shape (num_coarse,)."""
        return self.tables.words("coarse_cursors", self.num_coarse)

    @property
    def starts(self) -> Any:
        """Starts of the fine buckets, and the number of keys: shape (num_fine + 1,)."""
        return self.tables.words("starts", self.num_fine + 1)


def split_fine(num_fine: int) -> int:
    """Fine buckets of a coarse one: about as many as there are coarse buckets."""
    return 1 << num_fine.bit_length() // 2


def map_buckets(
    elements: Elements,
    keys: Any,
    n: int,
    num_fine: int,
    fine_per_coarse: int,
    rest: Callable[[BucketMap], T],
    store: Callable[[], bool],
    may_decline: bool,
) -> T | bool:
    """Sample and count n keys, and do the rest; True if they are in order and `store` is, False if they are skewed."""
    # What the host reads back decides the kernels of the rest, which are requested for both kinds of maps before.
    fine_bits = fine_per_coarse.bit_length() - 1
    num_coarse = -(-num_fine >> fine_bits)
    tables = allocate_workspace(
        coarse_cursors=OFFSET_BYTES * num_coarse,
        starts=OFFSET_BYTES * (num_fine + 1),
        cursors=OFFSET_BYTES * num_fine,
        whole=SEGMENT_BYTES,
        coarse=num_coarse * SEGMENT_BYTES,
    )
    test = BalanceTest.of_array(n, num_fine) if may_decline else None
    with side_by_side:
        splitters = sample_splitters(elements, keys, n, num_fine, test)
        flags = read_map_flags(splitters)
        counts = count_fine(elements.source, keys, n, splitter_buckets(elements.domain, splitters, num_fine))
        scan_fine(counts, tables["starts"], tables["cursors"], tables["whole"])
        usual = BucketMap(splitters, elements.domain, SPLITTERS, False, fine_bits, num_coarse, num_fine, tables)
        for kind in SPLITTERS, UNIFORM:
            side_by_side.presume(functools.partial(rest, replace(usual, kind=kind)))
    found = MapFlags(*flags.wait())  # the device is still counting
    if found.is_in_order and store():
        return True
    if found.is_imbalanced and may_decline:
        return False
    domain = elements.domain if found.by_value else elements.code_domain
    kind = UNIFORM if found.is_uniform else SPLITTERS
    return rest(replace(usual, domain=domain, kind=kind, is_narrow=bool(found.is_narrow)))


def describe_segments(elements: Elements, buckets: BucketMap) -> tuning.Tile:
    """Write the coarse buckets as segments of the second level; returns its tile."""
    tile = fit_tile(tuning.PARTITION[elements.shape], elements, tuning.MAP_WORDS)
    tables, sizes = buckets.tables, (np.uint32(buckets.num_fine), np.uint32(buckets.fine_bits))
    arguments = tables["starts"], *sizes, tables["coarse_cursors"], tables["coarse"]
    Launch("buckets/counting.cu", f"describe_segments<{tile.keys}>", 1, SCAN_THREADS, arguments).run()
    return tile
