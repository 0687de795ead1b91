"""The last pass of a most-significant-digit sort: one block sorts one bucket in shared memory (``block_sort.cu``).

    sort_uniform_buckets   buckets whose codes are spread evenly       with more blocks a multiprocessor
    sort_pending_buckets   buckets that it could not sort: pending     whatever the codes are
    overflow               buckets that fit no block                   for one more level of partition

Satish, Harris and Garland (IPDPS 2009), section 4, step 1; Stehle and Jacobsen (SIGMOD 2017) also run it last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import WIDE_CODE, Arrays, Elements
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning

SOURCE = "block_sort/block_sort.cu"
SEGMENT_BYTES = cxx_constant("buckets/segment_digits.cuh", "kSegmentBytes")
OVERFLOW_WORDS = cxx_constant(SOURCE, "kOverflowWords")
PENDING_SHARE = 8  # buckets a block, since few are expected and starting a block takes 2 ns of the whole device


@dataclass
class Buckets:
    """Describe the buckets of a block sort, and the lists of those that it does not sort."""

    count: int
    starts: Any  # device addresses or arrays of 64-bit offsets; None: equal rows of `stride` elements
    ends: Any  # as `starts`
    stride: int = 0
    overflow: Any = None  # buckets that do not fit a block: the C++ struct ``Overflow``; None where every bucket fits
    segments: Any = None  # a list of those buckets; None where every bucket fits
    #: Device address of a counter at zero, then 32 bits for each bucket: buckets that are not uniform.
    pending: Any = None


def sampled_buckets(n: int, capacity: int, count: int, starts: Any, ends: Any) -> Buckets:
    """`count` buckets of n elements, with lists for those larger than `capacity` and for the pending ones."""
    cupy = require_cupy()
    cleared = cupy.zeros(OVERFLOW_WORDS + 1 + count // 2 + 1, np.uint64)
    segments = cupy.empty((n // capacity + 1) * SEGMENT_BYTES, np.uint8)
    return Buckets(count, starts, ends, 0, cleared[:OVERFLOW_WORDS], segments, cleared[OVERFLOW_WORDS:])


@dataclass(slots=True)
class BlockSort:
    """Describe one block sort of many buckets."""

    elements: Elements
    shape: tuning.BlockSortShape
    source: str  # C++ source of the codes
    inputs: tuple[Any, Any]  # codes (or raw keys) and payloads
    arrays: Arrays  # the outputs
    buckets: Buckets

    def launch(
        self, kernel: str, blocks: int, shape: tuning.BlockSortShape, domain: tuple[str, ...], lists: tuple[Any, ...]
    ) -> None:
        """Launch a kernel over the buckets; `domain` is its template argument, if it has one."""
        elements, buckets = self.elements, self.buckets
        types = self.source, elements.sink, elements.payload_type, *domain
        name = instance(kernel, *types, shape.threads, shape.items, shape.bins, shape.blocks)
        data = *self.inputs, self.arrays.keys_out, self.arrays.positions_out
        table = buckets.starts, buckets.ends, np.uint64(buckets.stride)
        arguments = *data, *table, *lists, np.uint64(elements.base)
        Launch(SOURCE, name, blocks, shape.threads, arguments, shape.shared_bytes(*elements.shape)).run()


def run_block_sort(sort: BlockSort) -> None:
    """Sort every bucket in shared memory, whatever its codes are, in one launch."""
    buckets = sort.buckets
    domain = (sort.elements.block_sort_domain,)
    sort.launch("sort_buckets", buckets.count, sort.shape, domain, (buckets.overflow, buckets.segments))


def run_uniform_block_sort(sort: BlockSort, mean: float = 0) -> None:
    """Sort every bucket in shared memory: first the uniform ones, with more blocks a multiprocessor."""
    # `mean` is the mean keys of a bucket, if splitters of a sample have made the buckets, else 0.
    buckets, elements = sort.buckets, sort.elements
    if elements.code_bytes == WIDE_CODE and not mean:
        # Most are not uniform, and the attempt costs wide codes as much as it gains for the others.
        run_block_sort(sort)
        return
    sort.launch("sort_uniform_buckets", buckets.count, sort.shape.for_uniform(mean), (), (buckets.pending,))
    lists = buckets.overflow, buckets.segments, buckets.pending
    blocks = blocks_for(buckets.count, PENDING_SHARE)
    sort.launch("sort_pending_buckets", blocks, sort.shape, (elements.block_sort_domain,), lists)
