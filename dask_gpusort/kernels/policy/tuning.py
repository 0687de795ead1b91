"""Block sizes and digit widths: plain data, each with its reason.

Measured on one H200; benchmarks/results/gpu_table.md has the results. Workers read these tables, since the client that
plans a graph may have no GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..launch.loader import cxx_constant

SIZES = "policy/sizes.cuh"
WARP_THREADS = cxx_constant("primitives/basics.cuh", "kWarpThreads")
PADDED_EMPTY_BYTES = 16  # an empty member still takes space for one element, padded
SHARED_ALIGNMENT = 16
WINDOW = cxx_constant(SIZES, "kWindow")
UNIFORM_SIGMAS = 7  # one bucket in 10^12 is larger, if keys are uniform
MAX_DIGITS = cxx_constant(SIZES, "kMaxSegmentDigits")


def aligned(size: int) -> int:
    """Round the bytes of an array, or of a `SharedStorage`, up to its alignment in shared memory."""
    return -(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


@dataclass(frozen=True, eq=False)  # hashed by identity: `limits` caches by shape
class BlockSortShape:
    """Describe the shape of a block of the block sort, which sorts up to `threads` x `items` codes."""

    threads: int
    items: int
    bins: int  # that the codes are counted into
    blocks: int = 1  # fewest on a multiprocessor, which bounds the registers
    uniform_blocks: int = 2  # the same in the kernel for uniform buckets
    uniform_items: int = 0  # 0: `items`, where the buckets are small enough

    @property
    def capacity(self) -> int:
        """Most codes of one bucket."""
        return self.threads * self.items

    def for_uniform(self, mean: float = 0) -> BlockSortShape:
        """The block for uniform buckets; if their mean size is known, large enough for Poisson noise and no larger."""
        needed = mean + UNIFORM_SIGMAS * mean**0.5
        small = 0 < needed <= self.threads * self.uniform_items
        return replace(self, items=self.uniform_items if small else self.items, blocks=self.uniform_blocks)

    def shared_bytes(self, code_bytes: int, payload_bytes: int) -> int:
        """Count the bytes of `UniformTile::SharedStorage`: codes, payload, bins, 16-bit word ranks, 20 bytes a warp."""
        warps = self.threads // WARP_THREADS
        padded = self.capacity + 2 * WINDOW
        payload = padded * payload_bytes or PADDED_EMPTY_BYTES
        parts = padded * code_bytes + payload + self.bins * 6 + warps * 20 + 5 * PADDED_EMPTY_BYTES
        return aligned(parts) + SHARED_ALIGNMENT


@dataclass(frozen=True)
class Tile:
    """Describe the shape of a block of a partition or an LSD pass, with a tile of `threads` x `items` codes."""

    threads: int
    items: int
    blocks: int = 2  # fewest on a multiprocessor, which bounds the registers
    digits: int = MAX_DIGITS  # most digits

    @property
    def keys(self) -> int:
        """Codes of one tile."""
        return self.threads * self.items

    def shared_bytes(self, code_bytes: int, payload_bytes: int, digits: int, map_words: int) -> int:
        """Count the bytes of `PartitionTile::SharedStorage`.

        Codes, payload, 16-bit digits, a count and a move for each digit, the map, a sum for each warp.
        """
        payload = self.keys * payload_bytes or PADDED_EMPTY_BYTES
        parts = self.keys * (code_bytes + 2) + payload + digits * 12 + map_words * 4
        return aligned(parts + self.threads // WARP_THREADS * 4 + 2 * PADDED_EMPTY_BYTES) + SHARED_ALIGNMENT


# Longer rows of real floats are nearly never uniform.
LONGEST_UNIFORM_ROW = 1152

# Bits of the fine histogram: 2^16 16-bit counters are the most that shared memory holds (128 KiB).
MAX_FINE = 1 << 16
MAP_WORDS = cxx_constant(SIZES, "kMapWords")
WORDS_PER_VECTOR = cxx_constant(SIZES, "kWordsPerVector")
INTERVALS_PER_DIGIT = cxx_constant(SIZES, "kIntervalsPerDigit")
SEGMENT_MAP_WORDS = cxx_constant(SIZES, "kSegmentMapWords")
COUNT_THREADS = cxx_constant(SIZES, "kFineCountThreads")
COUNT_KEYS_PER_BLOCK = 4 * COUNT_THREADS  # fewer would leave threads without a vector
COUNT_SHARED_BYTES = 200 * 1024  # of a multiprocessor, for counters (227 KiB on Hopper, less a reserve)
SEGMENT_THREADS = cxx_constant(SIZES, "kSegmentThreads")
MAX_SAMPLES = 1 << 18  # 128 in an interval of the map: a noise of one eleventh in the size of a bucket
SAMPLE_SHARE = 8  # at most one key in eight is sampled
FILL = 0.6  # intended mean bucket over capacity: leaves space for the noise of the sample and of Poisson
MOST_FILL = 0.75  # accepted before a larger block is taken
SEGMENT_FILL = 0.45  # as FILL, for a further level, which has fewer samples
SAMPLES_PER_BLOCK = 4096  # adding a block's counts to the table costs as much as counting this many samples

# By (code bytes, payload bytes): blocks of the block sort from small to large. Rows and small inputs take the smallest
# that fits; a sort of n keys takes the first whose fine buckets are few enough.
BLOCK_SORT: dict[tuple[int, int], tuple[BlockSortShape, ...]] = {
    (4, 0): (
        BlockSortShape(128, 2, 512),
        BlockSortShape(128, 9, 1024, 4),
        BlockSortShape(256, 12, 2048, 3),
        BlockSortShape(512, 12, 4096, 2, 3, 9),
        BlockSortShape(512, 25, 8192),
        BlockSortShape(1024, 16, 8192),
        BlockSortShape(1024, 25, 16384, 1, 1),
    ),
    (8, 0): (
        BlockSortShape(128, 2, 512),
        BlockSortShape(128, 9, 1024, 4),
        BlockSortShape(256, 12, 2048, 3),
        BlockSortShape(512, 12, 4096, 2, 3, 9),
        BlockSortShape(1024, 13, 8192, 1, 1),
        BlockSortShape(1024, 17, 16384, 1, 1),
    ),
    (8, 4): (
        BlockSortShape(128, 2, 512),
        BlockSortShape(128, 9, 1024, 4),
        BlockSortShape(256, 12, 2048, 3),
        BlockSortShape(512, 12, 4096, 2, 2, 9),
        BlockSortShape(1024, 13, 8192, 1, 1),
    ),
}

# The block of large sorts, and of small ones, by index into BLOCK_SORT.
MAIN_BLOCK_SORT: dict[tuple[int, int], int] = {(4, 0): 3, (8, 0): 3, (8, 4): 3}
SMALL_BLOCK_SORT = 2
SMALL_KEYS = 1 << 19  # below, buckets of half the size keep more multiprocessors busy

PARTITION: dict[tuple[int, int], Tile] = {
    (4, 0): Tile(384, 20, 3, 256),
    (8, 0): Tile(512, 12, 2),
    (8, 4): Tile(512, 12),
}

# Rows longer than BLOCK_ROW are partitioned by one map for all even if a block could hold them (2^28 float32 keys in
# rows of 2^14 take 3.3 ms by one block a row, 3.7 ms by a partition), unless there are fewer keys than
# PARTITIONED_ROWS: then one launch takes less time than the several of a partition.
BLOCK_ROW = 1 << 14
PARTITIONED_ROWS = 1 << 25
ROW_KEYS = 1 << 28  # keys partitioned at once: the sample then has four keys of every bucket
ROW_FILL = 0.667  # as FILL: few buckets have less noise, and blocks of `uniform_items` hold buckets of this mean
ROW_DIGITS = 64  # about so many a row: with fewer, more lanes of a warp share a digit and wait for each other
# Tiles for rows: the first one with enough digits. Larger blocks of the block sort would have too few registers.
ROW_PARTITION: dict[tuple[int, int], tuple[Tile, ...]] = {
    (4, 0): (PARTITION[4, 0], Tile(512, 16)),
    (8, 0): (PARTITION[8, 0],),
    (8, 4): (PARTITION[8, 4],),
}
MOST_ROW_THREADS = 512
COUNT_ROW_BLOCKS = 4  # a multiprocessor
COUNT_ROW_KEYS = 1 << 16  # of one row that a block counts before it adds its counts to the table

# Tiles of a further level: SEGMENT_THREADS threads, as all kernels of the level share its tiles.
SEGMENT_PARTITION: dict[tuple[int, int], Tile] = {
    (4, 0): Tile(SEGMENT_THREADS, 16),
    (8, 0): Tile(SEGMENT_THREADS, 12),
    (8, 4): Tile(SEGMENT_THREADS, 12),
}

# A bucket is overfull from this many times the mean on, plus this many times its root: one in a thousand by chance. A
# map is tested for OVERFULL_BUCKETS of them; check_balance in buckets/splitters.cu has the other limits.
OVERFULL_MEANS, OVERFULL_SIGMAS, OVERFULL_BUCKETS = 2, 1.5, 1024

# Most keys of a two-level sort: beyond, a bucket would fill a whole multiprocessor, and one more partition makes parts.
MOST_TWO_LEVELS = 1 << 29
PART_KEYS = 1 << 28
# By code bytes: keys without payload for which partitions take less time than LSD passes: more than, and at most.
PARTITIONED_KEYS = {4: (1 << 24, MOST_TWO_LEVELS)}

# LSD passes, by code and value bytes.
LSD: dict[tuple[int, int], Tile] = {
    (1, 0): Tile(512, 16),
    (1, 4): Tile(512, 16),
    (1, 8): Tile(512, 12),
    (1, 16): Tile(512, 7),
    (2, 0): Tile(512, 16),
    (2, 4): Tile(512, 16),
    (2, 8): Tile(512, 12),
    (2, 16): Tile(512, 7),
    (4, 0): Tile(512, 20),
    (4, 4): Tile(512, 16),
    (4, 8): Tile(512, 12),
    (4, 16): Tile(512, 7),
    (8, 0): Tile(512, 15),
    (8, 4): Tile(512, 12),
    (8, 8): Tile(512, 8),
    (8, 16): Tile(512, 5),
}

# The stable first level of pairs, by code and value bytes: two blocks a multiprocessor, and a digit kept for each code.
STABLE: dict[tuple[int, int], Tile] = {
    (4, 1): Tile(512, 16),
    (4, 2): Tile(512, 16),
    (4, 4): Tile(512, 16),
    (4, 8): Tile(512, 11),
    (4, 16): Tile(512, 6),
    (8, 1): Tile(512, 12),
    (8, 2): Tile(512, 12),
    (8, 4): Tile(512, 11),
    (8, 8): Tile(512, 8),
    (8, 16): Tile(512, 5),
}
# Fewest pairs whose values move with that first level, by code bytes. The values of fewer pairs fit the cache anyway,
# and LSD passes over four bytes take less time.
EARLY_VALUES_PAIRS = {4: 1 << 26, 8: 1 << 23}
# With more than this share of all keys in buckets that fit no block, 32-bit keys take less time by LSD passes.
SKEWED_SHARE = 0.3
# Values are prefetched into the cache this many coarse buckets before they are gathered; 0: they are not.
GATHER_AHEAD = 1

RADIX = cxx_constant(SIZES, "kRadix")
STABLE_WORDS = cxx_constant(SIZES, "kPaddedRadix")  # counters of a warp
# Up to here every byte has a pass; beyond, the host reads back which bytes vary.
LSD_ALL_PASSES = 1 << 24
# Pairs of keys up to 32 bits move their values through the LSD passes from here on; below, values are gathered.
LSD_PAIRS = 1 << 22


@dataclass(frozen=True)
class ScatterShape:
    """Describe the shape of a block that partitions pairs by position, with a tile of `threads` x `items` pairs."""

    threads: int
    items: int
    radix: int  # buckets of one pass, unless more are needed
    bucket_bits: int  # bits of a position in its bucket, whose values fit shared memory
    least: int  # fewest numbers that are partitioned: the writes of fewer hit the cache

    @property
    def tile(self) -> int:
        """Pairs of one tile."""
        return self.threads * self.items

    @property
    def shared_bytes(self) -> int:
        """Bytes of `PositionPartition::SharedStorage`: pairs, two words a digit, a sum a warp."""
        parts = self.tile * 8 + self.radix * 8 + self.threads // WARP_THREADS * 4 + PADDED_EMPTY_BYTES
        return aligned(parts)


# 2^27 numbers: 1.66 ms; 1.74 with 1,024 buckets (with 1,024 threads too: 2.12); 1.74 with 8 items, 1.71 with 12 bits.
SCATTER = ScatterShape(threads=512, items=16, radix=512, bucket_bits=13, least=1 << 22)


def stable_shared_bytes(
    tile: Tile, code_bytes: int, payload_bytes: int, map_words: int = 0, keeps_digits: bool = False
) -> int:
    """Count the bytes of `OnesweepTile::SharedStorage`.

    Codes or the map, values, two words a warp and digit, a move a digit, a sum a warp, the ticket, and where digits are
    kept a byte a code.
    """
    warps = tile.threads // WARP_THREADS
    payload = tile.keys * payload_bytes or PADDED_EMPTY_BYTES
    parts = max(tile.keys * code_bytes, map_words * 4) + payload + warps * STABLE_WORDS * 8 + RADIX * 8 + warps * 4
    return aligned(parts + tile.keys * keeps_digits + 5 * PADDED_EMPTY_BYTES) + SHARED_ALIGNMENT


@dataclass(frozen=True)
class MergeShape:
    """Describe the shape of a block that sorts a tile or merges a part, of `threads` x `items` keys."""

    threads: int
    items: int  # odd, so that the strips of a warp's threads begin in different banks of shared memory
    blocks: int = 1  # of a multiprocessor, which bounds the registers of a thread

    @property
    def keys(self) -> int:
        """Keys of one tile."""
        return self.threads * self.items

    def shared_bytes(self, code_bytes: int, value_bytes: int) -> int:
        """Count the bytes of `MergeTile::SharedStorage`: codes, then values, each aligned to 16 bytes."""
        return aligned(self.keys * code_bytes) + aligned(self.keys * value_bytes or PADDED_EMPTY_BYTES)


# By the most bytes of a key and its value. With three blocks of 512 threads each thread has 40 registers, which do not
# spill on sm_90 (with four blocks they do), and tiles of 34 to 52 KB share the 227 KB of a Hopper multiprocessor.
# Larger tiles save levels of merging, each of which reads and writes all keys once.
MERGE: dict[int, MergeShape] = {
    4: MergeShape(512, 17, 3),
    8: MergeShape(512, 11, 3),
    12: MergeShape(512, 7, 3),
    16: MergeShape(256, 11, 2),
    24: MergeShape(256, 7, 2),
    40: MergeShape(256, 5, 2),
}

# At most so many sorted runs are merged; more are sorted again. By bytes of a key. Estimates: a sort moves every key
# about as often as three or four rounds of merging do.
MOST_MERGED_RUNS = {1: 1, 2: 1, 4: 4, 8: 8}
MOST_MERGED_WIDE_RUNS = 8  # of rows of words: a new sort takes one radix sort of their first 64 bits at least


def merge_shape(code_bytes: int, value_bytes: int) -> MergeShape:
    """Give the tile for keys of `code_bytes` and values of `value_bytes`."""
    return next(shape for most, shape in MERGE.items() if code_bytes + value_bytes <= most)
