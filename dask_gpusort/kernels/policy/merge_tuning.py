"""Block sizes of the merge kernels: plain data, each with its reason.

Not yet measured on a device: chosen from register and shared-memory use, `benchmarks/gpu_comparison.py` times them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SHARED_ALIGNMENT = 16
PLAN_THREADS = 128  # kPlanThreads in merge_parts.cuh
SAMPLE_KEYS = 256  # the paper's: every 256th key of a run is a sample
NETWORK_THREADS = 256
NETWORK_TILE_KEYS = 1024  # of sort_tiles_by_network: four keys a thread


@dataclass(frozen=True)
class MergeTile:
    """Shape of a block that sorts a tile or merges a part: `threads` x `items` keys; `blocks` bound registers.

    `items` is odd, so that the strips of a warp's threads begin in different banks of shared memory.
    """

    threads: int
    items: int
    blocks: int = 1

    @property
    def keys(self) -> int:
        """Keys of one tile."""
        return self.threads * self.items

    def shared_bytes(self, code_bytes: int, value_bytes: int) -> int:
        """Bytes of `MergeTile::SharedStorage`: codes, then values, each from a multiple of 16 bytes on."""
        return sum(
            -(-part // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
            for part in (self.keys * code_bytes, self.keys * value_bytes or SHARED_ALIGNMENT)
        )


# By bytes of a key and its value, up to and including. Three blocks of 512 threads are the most that leave registers
# enough (40, no spills on sm_90; four blocks spill): tiles of 34 to 52 KB share a Hopper multiprocessor's
# 227 KB. A larger tile saves levels: each doubling one reading and writing of all keys.
MERGE: dict[int, MergeTile] = {
    4: MergeTile(512, 17, 3),
    8: MergeTile(512, 11, 3),
    12: MergeTile(512, 7, 3),
    16: MergeTile(256, 11, 2),
    24: MergeTile(256, 7, 2),
    40: MergeTile(256, 5, 2),
}

# How runs are cut into parts. Four at a time halve the readings and writings of all keys, and are expected to win.
SPLIT: Final = "four_way"

# Parts between samples hold at most 2 SAMPLE_KEYS keys.
SAMPLED = MergeTile(128, 5)

# Sorted runs are merged, rather than sorted again, where they are at most so many; by bytes of a key. Estimates, to be
# measured (benchmarks/gpu_comparison.py): a sort moves every key about as often as three or four rounds of merging do.
MOST_MERGED_RUNS = {1: 1, 2: 1, 4: 4, 8: 8}
MOST_MERGED_WIDE_RUNS = 8  # of words: sorted again they take one radix sort of their first 64 bits at least


def merge_shape(code_bytes: int, value_bytes: int) -> MergeTile:
    """The tile for keys and values of some widths."""
    return next(shape for most, shape in MERGE.items() if code_bytes + value_bytes <= most)
