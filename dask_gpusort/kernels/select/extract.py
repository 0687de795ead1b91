"""One read of keys that counts codes between thresholds and takes some of the keys (``extract.cu``).

    brackets (rows, 2, B) -> thresholds, slots to take -> extract_keys -> counts at the ends, keys strictly inside

A bracket (low, high) gives up to four thresholds: low, the code after low, high, the code after high. The counts of all
slots up to a threshold are the number of keys below it. The first code of NaN is one more threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...keys import tie_ceiling, tie_floor
from ..keys.dtypes import device_key, first_nan_code
from ..keys.elements import wide_elements
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.limits import multiprocessors

IntArray = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]

SOURCE = "select/extract.cu"
THREADS = cxx_constant(SOURCE, "kExtractThreads")
BLOCKS = cxx_constant(SOURCE, "kExtractBlocks")
BUFFER_BYTES = cxx_constant(SOURCE, "kBufferBytes")
MOST_COUNTERS = cxx_constant(SOURCE, "kCounters")
MOST_SLOTS = cxx_constant(SOURCE, "kMostSlots")
#: Comparisons of a search that kernels are compiled for.
LEVELS = (1, 3, 4, 5, 6, 8, MOST_SLOTS.bit_length() - 1)
#: Most brackets of a row.
MOST_BRACKETS = (MOST_SLOTS - 2) // 4
#: Least keys of a piece of a row: copying the thresholds and adding up the counters takes as long as some 1,000 keys.
LEAST_PIECE = 1 << 14
#: Most keys of a piece: the counters of a block have 32 bits.
MOST_PIECE = 1 << 30


@dataclass(frozen=True)
class Extracted:
    """Hold keys of each row of a matrix between bounds."""

    #: Shape (rows, 4, brackets): keys less than each low end, up to it, less than the high end, and up to it.
    ends: IntArray
    nans: IntArray  # shape (rows,): keys that are NaN or NaT
    #: Shape (rows,): keys strictly inside some bracket; `inside` lacks those beyond its capacity.
    found: IntArray
    inside: Any  # shape (rows, capacity): the first ``found[row]`` of each row are those keys, in any order


@dataclass(frozen=True)
class Thresholds:
    """Cut the codes of each row into slots, of which some are taken."""

    codes: Codes  # shape (rows, slots - 1), ascending; the greatest fills up the number of slots to a power of two
    is_taken: npt.NDArray[np.bool_]  # shape (rows, slots)

    @property
    def num_slots(self) -> int:
        """Slots of a row."""
        return self.codes.shape[1] + 1


@dataclass(frozen=True)
class Ends:
    """First and last codes that count as equal to the ends of the brackets of each row: uint64, (rows, brackets)."""

    low: Codes
    last_low: Codes
    high: Codes
    last_high: Codes


def make_ends(low: npt.NDArray[Any], high: npt.NDArray[Any], dtype: Any, ties: bool) -> Ends:
    """Give the ends of brackets of codes; with `ties`, each is a whole tie class."""
    ends = [(tie_floor(end, dtype), tie_ceiling(end, dtype)) if ties else (end, end) for end in (low, high)]
    return Ends(*(codes.astype(np.uint64) for end in ends for codes in end))


def make_thresholds(ends: Ends, first_nan: int | None, most: int) -> Thresholds:
    """Make thresholds of brackets; `most` is the greatest code, and `first_nan` the first of NaN, if keys have any."""
    nan = np.full((len(ends.low), 1), most if first_nan is None else first_nan, np.uint64)
    bounds = [ends.low, code_after(ends.last_low, most), ends.high, code_after(ends.last_high, most), nan]
    codes = np.sort(np.concatenate(bounds, axis=1), axis=1)
    num_slots = 1 << next(levels for levels in LEVELS if codes.shape[1] < 1 << levels)
    codes = np.pad(codes, ((0, 0), (0, num_slots - 1 - codes.shape[1])), "edge")
    # The first code of a slot is inside a bracket if the others are.
    is_inside = (ends.last_low[:, None] < codes[..., None]) & (codes[..., None] < ends.high[:, None])
    return Thresholds(codes, np.pad(is_inside.any(axis=2), ((0, 0), (1, 0))))


def code_after(codes: Codes, most: int) -> Codes:
    """Give the codes that follow; the greatest code stays."""
    return codes + (codes < np.uint64(most))


def counts_below(thresholds: Thresholds, counts: IntArray, bounds: Codes) -> IntArray:
    """Count the codes below each of some thresholds: int64, the shape (rows, k) of `bounds`."""
    below = counts.cumsum(axis=1)
    found = [np.searchsorted(row, of_row) for row, of_row in zip(thresholds.codes, bounds, strict=True)]
    return np.take_along_axis(below, np.array(found, np.int64).reshape(bounds.shape), axis=1)


def launch_extract(parts: Sequence[Any], thresholds: Thresholds, capacity: int) -> tuple[IntArray, Any]:
    """Count the keys of each slot: counts with the number of taken keys last, and the taken keys."""
    cupy, num_rows, dtype = require_cupy(), len(parts[0]), parts[0].dtype
    elements = wide_elements(device_key(dtype))
    table = cupy.zeros((num_rows, thresholds.num_slots + 1), np.uint64)
    taken = cupy.empty((num_rows, capacity), dtype)
    code_type = f"u{elements.code_bytes}"
    tables = [cupy.asarray(part.astype(code_type)) for part in (thresholds.codes, thresholds.is_taken)]
    kernel = instance("extract_keys", elements.source, thresholds.num_slots.bit_length() - 1)
    shared, most_blocks = shared_bytes(thresholds.num_slots, elements.code_bytes), BLOCKS * multiprocessors()
    for keys in parts:
        pieces = num_pieces(num_rows, keys.shape[1], most_blocks)
        sizes = np.uint64(keys.shape[1]), np.uint32(pieces), np.uint32(num_rows * pieces)
        arguments = keys, *sizes, *tables, table, taken, np.uint64(capacity)
        Launch(SOURCE, kernel, min(num_rows * pieces, most_blocks), THREADS, arguments, shared).run()
    return table.get().astype(np.int64), taken


def num_pieces(num_rows: int, length: int, most_blocks: int) -> int:
    """Pieces of each row, one block's work each."""
    for_blocks = max(blocks_for(most_blocks, max(num_rows, 1)), 1)
    return max(min(for_blocks, blocks_for(length, LEAST_PIECE)), blocks_for(length, MOST_PIECE))


def shared_bytes(num_slots: int, code_bytes: int) -> int:
    """Bytes of shared memory of a block: buffers, thresholds, which slots are taken, and copies of the counters."""
    copies = min(tuning.WARP_THREADS, MOST_COUNTERS // num_slots)
    return BUFFER_BYTES + num_slots * (2 * code_bytes + 4 * copies)


def extract_rows(
    parts: Sequence[Any], low: npt.NDArray[Any], high: npt.NDArray[Any], capacity: int, ties: bool
) -> Extracted:
    """Count and take the keys of each row; see `kernels.extract`."""
    num_rows, length, dtype = len(parts[0]), sum(part.shape[1] for part in parts), parts[0].dtype
    first_nan, most = first_nan_code(dtype), (1 << 8 * dtype.itemsize) - 1
    ends = make_ends(low, high, dtype, ties)
    thresholds = make_thresholds(ends, first_nan, most)
    table, inside = launch_extract(parts, thresholds, capacity)

    def less(codes: Codes) -> IntArray:
        return counts_below(thresholds, table[:, :-1], codes)

    def up_to(codes: Codes) -> IntArray:
        # No code follows the greatest one, which no key exceeds.
        return np.where(codes < np.uint64(most), less(code_after(codes, most)), length)

    up_to_low = up_to(ends.last_low)
    # A bracket of one key has no keys between its ends.
    counts = less(ends.low), up_to_low, np.maximum(less(ends.high), up_to_low), up_to(ends.last_high)
    nans = np.zeros(num_rows, np.int64)
    if first_nan is not None:
        nans = length - less(np.full((num_rows, 1), first_nan, np.uint64))[:, 0]
    return Extracted(np.stack(counts, axis=1), nans, table[:, -1], inside)
