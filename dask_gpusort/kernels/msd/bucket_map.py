"""The buckets of both levels of a sort: sampled, counted, and scanned into the tables of the partition passes.

    keys -> splitter map -> histogram of fine buckets -> starts and cursors of fine and of coarse buckets

A coarse bucket is 2^fine_bits fine buckets. The first level moves keys to coarse buckets; these are the segments of the
second level, which moves keys to fine buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..block_sort.block_sort import SEGMENT_BYTES
from ..buckets.histogram import SCAN_THREADS, count_fine, scan_fine, splitter_buckets
from ..buckets.splitters import BalanceTest, MapFlags, read_map_flags, sample_splitters
from ..keys.elements import Elements
from ..launch.launch import Launch, side_by_side
from ..launch.loader import require_cupy
from ..policy import tuning
from ..policy.limits import fit_tile
from .partition import SPLITTERS, UNIFORM, DigitMap, Segments, fine_digits

ALLOCATION_ALIGNMENT = 256  # of cudaMalloc, so that vector loads of any table are aligned
OFFSET_BYTES = 8


@dataclass(slots=True)
class Workspace:
    """Hold many small tables, by name, in one device allocation."""

    memory: Any
    addresses: dict[str, int]  # device address of each table

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]

    def bytes_from(self, name: str) -> Any:
        """Give the memory from a table on."""
        return self.memory[self.addresses[name] - self.memory.data.ptr :]

    def words(self, name: str, count: int) -> Any:
        """Give the first 64-bit words of a table: shape (count,)."""
        return self.bytes_from(name)[: OFFSET_BYTES * count].view(np.uint64)


def allocate_workspace(**sizes: int) -> Workspace:
    """Allocate tables of the given sizes in bytes, in this order, each aligned to `ALLOCATION_ALIGNMENT` bytes."""
    offsets, total = {}, 0
    for name, size in sizes.items():
        offsets[name] = total
        total += -(-size // ALLOCATION_ALIGNMENT) * ALLOCATION_ALIGNMENT
    memory = require_cupy().empty(total, np.uint8)
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

    def whole_segment(self, num_tiles: int) -> Segments:
        """Give the whole array, for the first level."""
        return Segments(self.tables["whole"], 1, num_tiles, self.tables["coarse_cursors"])

    def coarse_segments(self, num_tiles: int) -> Segments:
        """Give the coarse buckets, for the second level; `num_tiles` full tiles, and a partial one for each bucket."""
        return Segments(self.tables["coarse"], self.num_coarse, num_tiles + self.num_coarse, self.tables["cursors"])

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
    elements: Elements, keys: Any, n: int, num_fine: int, fine_per_coarse: int, *, may_decline: bool
) -> BucketMap | None:
    """Sample and count n keys; `None` where the sort is declined, since the map is imbalanced."""
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
    found = MapFlags(*flags.wait())  # the device is still counting
    if found.is_imbalanced and may_decline:
        return None
    domain = elements.domain if found.by_value else elements.code_domain
    kind = UNIFORM if found.is_uniform else SPLITTERS
    return BucketMap(splitters, domain, kind, bool(found.is_narrow), fine_bits, num_coarse, num_fine, tables)


def describe_segments(elements: Elements, buckets: BucketMap) -> tuning.Tile:
    """Write the coarse buckets as segments of the second level; returns its tile."""
    tile = fit_tile(tuning.PARTITION[elements.shape], elements, tuning.MAP_WORDS)
    tables, sizes = buckets.tables, (np.uint32(buckets.num_fine), np.uint32(buckets.fine_bits))
    arguments = tables["starts"], *sizes, tables["coarse_cursors"], tables["coarse"]
    Launch("buckets/counting.cu", f"describe_segments<{tile.keys}>", 1, SCAN_THREADS, arguments).run()
    return tile
