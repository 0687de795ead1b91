"""Block sizes and digit widths: plain data, each with its reason. Figures are from one H200 (README, "Kernels").

Chosen where the GPU is: the client that plans a graph may have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

WARP_THREADS = 32
PADDED_EMPTY_BYTES = 16  # an empty member still takes one element, padded
SHARED_ALIGNMENT = 16
WINDOW = 2  # kWindow in tile_sort.cuh
UNIFORM_SIGMAS = 7  # one uniform bucket in 10^12 is larger
MAX_DIGITS = 512  # one digit a thread of a partition tile


@dataclass(frozen=True, eq=False)  # hashed by identity: `limits` keeps what fits
class BlockSortShape:
    """Shape of a finishing block: `threads` x `items` codes, counted into `bins`; `blocks` bound registers.

    The kernel for even buckets has `even_blocks` and, where its buckets allow, `uniform_items` (0: `items`) instead.
    """

    threads: int
    items: int
    bins: int
    blocks: int = 1
    even_blocks: int = 2
    uniform_items: int = 0

    @property
    def capacity(self) -> int:
        """Most codes of one bucket."""
        return self.threads * self.items

    def for_even(self, mean: float = 0) -> BlockSortShape:
        """The block for even buckets; of a known mean size, no larger than Poisson's noise asks for."""
        needed = mean + UNIFORM_SIGMAS * mean**0.5
        small = 0 < needed <= self.threads * self.uniform_items
        return replace(self, items=self.uniform_items if small else self.items, blocks=self.even_blocks)

    def shared_bytes(self, code_bytes: int, payload_bytes: int) -> int:
        """Bytes of `UniformTile::SharedStorage`: codes, payload, bins and their 16-bit places, 20 bytes a warp."""
        warps = self.threads // WARP_THREADS
        padded = self.capacity + 2 * WINDOW
        payload = padded * payload_bytes if payload_bytes else PADDED_EMPTY_BYTES
        parts = padded * code_bytes + payload + self.bins * 6 + warps * 20 + 5 * PADDED_EMPTY_BYTES
        return -(-parts // SHARED_ALIGNMENT) * SHARED_ALIGNMENT + SHARED_ALIGNMENT


@dataclass(frozen=True)
class Tile:
    """Shape of a partitioning block: `threads` x `items` codes, at most `digits` digits; `blocks` bound registers."""

    threads: int
    items: int
    blocks: int = 2
    digits: int = MAX_DIGITS

    @property
    def keys(self) -> int:
        """Codes of one tile."""
        return self.threads * self.items

    def shared_bytes(self, code_bytes: int, payload_bytes: int, digits: int, map_words: int) -> int:
        """Bytes of `PartitionStorage`: codes, payload, 16-bit digits, count and move a digit, map, one sum a warp."""
        payload = self.keys * payload_bytes if payload_bytes else PADDED_EMPTY_BYTES
        parts = self.keys * (code_bytes + 2) + payload + digits * 12 + map_words * 4
        parts += self.threads // WARP_THREADS * 4 + 2 * PADDED_EMPTY_BYTES
        return -(-parts // SHARED_ALIGNMENT) * SHARED_ALIGNMENT + SHARED_ALIGNMENT


# Longer rows of real floats are uneven nearly always.
EVEN_ROW = 1152

# Bits of the fine histogram: 2^16 16-bit counters are the most that shared memory holds (128 KiB).
MAX_FINE = 1 << 16
INTERVAL_WORDS = 1 << 11  # kIntervals and kSubIntervals in digits.cuh
MAP_WORDS = 2 * INTERVAL_WORDS
WORDS_PER_VECTOR = 4  # kWordsPerVector in digits.cuh
INTERVALS_PER_DIGIT = 2  # kIntervalsPerDigit in digits.cuh
SEGMENT_MAP_WORDS = MAX_DIGITS * INTERVALS_PER_DIGIT
COUNT_THREADS = 1024  # kCountThreads in count.cu
COUNT_KEYS_PER_BLOCK = 4 * COUNT_THREADS  # fewer would leave threads without a vector
COUNT_SHARED_BYTES = 200 * 1024  # of a multiprocessor, for counters (227 KiB on Hopper, less a reserve)
FILL_THREADS, FILL_ROUNDS = 256, 4  # kFillThreads, kFillRounds in fill.cu
SEGMENT_THREADS = 512  # kSegmentThreads in segments.cu
MAX_SAMPLES = 1 << 18  # 128 a quantile interval: one part in eleven of noise in a bucket's size
SAMPLE_SHARE = 8  # at most one key in eight is sampled
FILL = 0.6  # mean bucket over capacity aimed at: room for the sample's noise and for Poisson's
MOST_FILL = 0.75  # accepted before a larger block is taken
SEGMENT_FILL = 0.45  # the same for a further level, whose samples are fewer
SAMPLES_PER_BLOCK = 4096  # adding a block's counts to the table costs as much as counting about as many samples

# By (code bytes, payload bytes): finishing blocks from small to large. Rows and small inputs take the smallest that
# fits; a sort of n keys takes the first whose fine buckets are few enough.
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

# The finishing block of large sorts, and of small ones, by index into BLOCK_SORT.
MAIN_BLOCK_SORT: dict[tuple[int, int], int] = {(4, 0): 3, (8, 0): 3, (8, 4): 3}
SMALL_BLOCK_SORT = 2
SMALL_KEYS = 1 << 19  # below, buckets half the size leave fewer multiprocessors without one

PARTITION: dict[tuple[int, int], Tile] = {
    (4, 0): Tile(384, 20, 3, 256),
    (8, 0): Tile(512, 12, 2),
    (8, 4): Tile(512, 12),
}

# Longer rows are partitioned by one map for all, even if a block could hold one (2^14 float32 keys: 3.3 ms in a block
# each, 3.7 partitioned, of 2^28); but not fewer keys than this, for which one launch takes less time than one a step.
BLOCK_ROW = 1 << 14
PARTITIONED_ROWS = 1 << 25
ROW_KEYS = 1 << 28  # as many at a time: the sample has four keys of every bucket then
ROW_FILL = 0.667  # as FILL; few buckets make less noise, and blocks of `uniform_items` hold those of this mean
ROW_DIGITS = 64  # of a row, or nearly: lanes of a warp that share a digit wait for each other
# Tiles for rows: the first one with digits enough. Finishing blocks of more threads want for registers.
ROW_PARTITION: dict[tuple[int, int], tuple[Tile, ...]] = {
    (4, 0): (PARTITION[4, 0], Tile(512, 16)),
    (8, 0): (PARTITION[8, 0],),
    (8, 4): (PARTITION[8, 4],),
}
MOST_ROW_THREADS = 512
COUNT_ROW_THREADS, COUNT_ROW_BLOCKS = 512, 4  # kRowThreads in rows.cu, and blocks a multiprocessor
COUNT_ROW_KEYS = 1 << 16  # of one row that a block counts before it adds to the table
SCAN_ROW_THREADS = 256

# One level: tiles small enough that every multiprocessor has some.
SMALL_PARTITIONS = (Tile(512, 4, 2), Tile(1024, 8, 1, 1024))

# Tiles of a further level: SEGMENT_THREADS threads, as all kernels of the level share its tiles.
SEGMENT_PARTITION: dict[tuple[int, int], Tile] = {
    (4, 0): Tile(SEGMENT_THREADS, 16),
    (8, 0): Tile(SEGMENT_THREADS, 12),
    (8, 4): Tile(SEGMENT_THREADS, 12),
}

# Stable passes take less time than further levels where more than this share of the samples lies in overfull buckets,
# and those are at least so many: fewer hold few codes.
UNEVEN_SHARE, UNEVEN_BUCKETS = 0.3, 1024
# Or where nearly all samples do, in fewer buckets, but among as many others: of 16 distinct codes there are no others.
# And of 6 random words, 2^28 uint32 keys: 6.8 ms by levels, 4.2 by stable passes; of 8 words 6.1 and 4.0.
CROWDED_NEARLY_ALL, CROWDED_BUCKETS, CROWDED_SPREAD = 0.9, 24, 2
# A bucket is overfull from so many times the mean on, and so many times its root: one in a thousand by chance.
FULL_SAMPLES, FULL_SIGMAS = 2, 1.5

# Most keys of a two-level sort: beyond, the buckets would fill whole multiprocessors, and a partition more makes parts.
MOST_TWO_LEVELS = 1 << 29
PART_KEYS = 1 << 28
# Keys alone, by code bytes, of which partitions take less time than stable passes: more than, and at most.
PARTITIONED_KEYS = {4: (1 << 24, MOST_TWO_LEVELS)}

# Stable passes, by code and value bytes.
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

# The stable first level of pairs, by code and value bytes: two blocks a multiprocessor, with a digit kept a code.
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
# Pairs from which on that first level moves the values, by code bytes: of fewer the cache holds the values anyway, and
# stable passes over four bytes take less time.
EARLY_VALUES_PAIRS = {4: 1 << 26, 8: 1 << 23}
# More keys than this share of all in buckets that fit no block, and 32-bit keys take less time by stable passes.
SKEWED_SHARE = 0.3
# Values are called into the cache so many coarse buckets before they are gathered; 0: they are not.
GATHER_AHEAD = 1

# All passes in one launch, by code bytes: for as many tiles as multiprocessors, and for more. From one block's keys on,
# to where the partitions take less time.
LSD_SMALL: dict[int, tuple[Tile, Tile]] = {4: (Tile(512, 4), Tile(512, 8)), 8: (Tile(512, 4), Tile(512, 8))}
LSD_SMALL_KEYS = {4: (25_601, (1 << 22) + 1), 8: (13_313, (1 << 19) + 1)}
STABLE_WORDS = 288  # kPaddedRadix in onesweep_tile.cuh
# Up to here every byte has a pass, and the device is not asked which it needs.
LSD_ALL_PASSES = 1 << 24
# Pairs of keys up to 32 bits move their values through the passes from here on; below, values are gathered.
LSD_PAIRS = 1 << 22
LSD_SMALL_STATIC = {4: 5 * 1024, 8: 9 * 1024}  # bytes of static shared memory of onesweep_cooperative, and some


def stable_shared_bytes(
    tile: Tile, code_bytes: int, payload_bytes: int, map_words: int = 0, keeps_digits: bool = False
) -> int:
    """Bytes of `OnesweepTile::SharedStorage`: codes or map, values, two words a warp and digit, moves, and some.

    Those are a sum a warp, the ticket, and a byte a code where digits are kept.
    """
    warps = tile.threads // WARP_THREADS
    payload = tile.keys * payload_bytes if payload_bytes else PADDED_EMPTY_BYTES
    parts = max(tile.keys * code_bytes, map_words * 4) + payload + warps * STABLE_WORDS * 8 + 256 * 8 + warps * 4
    parts += (tile.keys if keeps_digits else 0) + 5 * PADDED_EMPTY_BYTES
    return -(-parts // SHARED_ALIGNMENT) * SHARED_ALIGNMENT + SHARED_ALIGNMENT
