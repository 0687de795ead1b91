"""Block sizes of the merge kernels and thresholds of merging, each with its reason.

``benchmarks/gpu_comparison.py`` times them: ``benchmarks/results/gpu_comparison.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..launch.launch import blocks_for

SHARED_ALIGNMENT = 16  # bytes, of both arrays in `MergeTile::SharedStorage`


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
        return sum(
            blocks_for(part, SHARED_ALIGNMENT) * SHARED_ALIGNMENT
            for part in (self.keys * code_bytes, self.keys * value_bytes or SHARED_ALIGNMENT)
        )


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
