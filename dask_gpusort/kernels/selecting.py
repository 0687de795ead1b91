"""Selection without a sort, on the current device and stream, in NumPy's order: NaN last.

`draw_samples` and `extract` read few long rows with all blocks, and `select_rows` many rows: a warp or a block each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from ..keys import tie_ceiling, tie_floor
from .keys.dtypes import WIDE_CODE, Elements, device_key, first_nan_code, wide_elements
from .launch.arrays import check_array, type_of_bytes
from .launch.launch import Launch, blocks_for, instance
from .launch.loader import cxx_constant, require_cupy
from .policy import tuning
from .policy.limits import multiprocessors, shared_limit

IntArray = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]

EXTRACT_SOURCE = "select/extract.cu"
EXTRACT_THREADS = cxx_constant(EXTRACT_SOURCE, "kExtractThreads")
EXTRACT_BLOCKS = cxx_constant(EXTRACT_SOURCE, "kExtractBlocks")
BUFFER_BYTES = cxx_constant(EXTRACT_SOURCE, "kBufferBytes")
MOST_COUNTERS = cxx_constant(EXTRACT_SOURCE, "kCounters")
MOST_SLOTS = cxx_constant(EXTRACT_SOURCE, "kMostSlots")
#: Comparisons of a search that kernels are compiled for.
LEVELS = (1, 3, 4, 5, 6, 8, MOST_SLOTS.bit_length() - 1)
#: Most brackets of a row.
MOST_BRACKETS = (MOST_SLOTS - 2) // 4
#: Least keys of a piece of a row: copying the thresholds and adding up the counters takes as long as some 1,000 keys.
LEAST_PIECE = 1 << 14
#: Most keys of a piece: the counters of a block have 32 bits.
MOST_PIECE = 1 << 30
ROW_SOURCE = "select/row_select.cu"
ROW_THREADS = cxx_constant(ROW_SOURCE, "kSelectThreads")
TILE_COLUMNS = cxx_constant(ROW_SOURCE, "kTileColumns")
WIDE_TILE_COLUMNS = cxx_constant(ROW_SOURCE, "kWideTileColumns")
LONG_ROW_THREADS = cxx_constant(ROW_SOURCE, "kLongRowThreads")
LONG_ROW_BYTES = cxx_constant(ROW_SOURCE, "kLongRowBytes")
MOST_RANKS = cxx_constant(ROW_SOURCE, "kMostRanks")
#: Most bytes of codes that a thread holds: 32 of its 80 registers.
HELD_BYTES = 128
#: Codes of a thread are compiled for multiples of so many: finer steps would compile more kernels.
ITEM_STEP = 4
#: Threads of a block that holds a row; the smaller block has fewer threads without a code.
BLOCK_THREADS = (128, 384)
#: Keys of a row are counted in 32 bits.
LENGTH_LIMIT = 1 << 32
DRAW_THREADS = 256


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


def make_ends(low: npt.NDArray[Any], high: npt.NDArray[Any], dtype: Any) -> Ends:
    """Give the ends of brackets of codes; each is a whole tie class."""
    ends = [(tie_floor(end, dtype), tie_ceiling(end, dtype)) for end in (low, high)]
    return Ends(*(codes.astype(np.uint64) for end in ends for codes in end))


def make_thresholds(ends: Ends, first_nan: int | None, most: int) -> Thresholds:
    """Make thresholds of brackets; `most` is the greatest code, and `first_nan` the first of NaN, if keys have any."""
    # A bracket gives up to four: low, the code after low, high, the code after high. The counts of all slots up to a
    # threshold are the number of keys below it.
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
    shared, most_blocks = extract_bytes(thresholds.num_slots, elements.code_bytes), EXTRACT_BLOCKS * multiprocessors()
    for keys in parts:
        pieces = num_pieces(num_rows, keys.shape[1], most_blocks)
        sizes = np.uint64(keys.shape[1]), np.uint32(pieces), np.uint32(num_rows * pieces)
        arguments = keys, *sizes, *tables, table, taken, np.uint64(capacity)
        Launch(EXTRACT_SOURCE, kernel, min(num_rows * pieces, most_blocks), EXTRACT_THREADS, arguments, shared).run()
    return table.get().astype(np.int64), taken


def num_pieces(num_rows: int, length: int, most_blocks: int) -> int:
    """Pieces of each row, one block's work each."""
    for_blocks = max(blocks_for(most_blocks, max(num_rows, 1)), 1)
    return max(min(for_blocks, blocks_for(length, LEAST_PIECE)), blocks_for(length, MOST_PIECE))


def extract_bytes(num_slots: int, code_bytes: int) -> int:
    """Bytes of shared memory of a block: buffers, thresholds, which slots are taken, and copies of the counters."""
    copies = min(tuning.WARP_THREADS, MOST_COUNTERS // num_slots)
    return BUFFER_BYTES + num_slots * (2 * code_bytes + 4 * copies)


def extract_rows(parts: Sequence[Any], low: npt.NDArray[Any], high: npt.NDArray[Any], capacity: int) -> Extracted:
    """Count and take the keys of each row; see `kernels.extract`."""
    num_rows, length, dtype = len(parts[0]), sum(part.shape[1] for part in parts), parts[0].dtype
    first_nan, most = first_nan_code(dtype), (1 << 8 * dtype.itemsize) - 1
    ends = make_ends(low, high, dtype)
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


def select_lanes(keys: Any, ranks: Any, axis: int) -> tuple[Any, Any]:
    """Keys at ranks of rows (`axis` 1) or columns (`axis` 0), and numbers of NaN; see `kernels.select_rows`."""
    cupy = require_cupy()
    length, num_lanes = keys.shape[axis], keys.shape[1 - axis]
    elements = wide_elements(device_key(keys.dtype))
    if axis == 0 and not fits_tile(elements, keys):
        keys, axis = cupy.ascontiguousarray(keys.T), 1
    first_nan = first_nan_code(keys.dtype)
    selected = []
    nans = cupy.zeros(num_lanes, np.int64)
    nan_code = np.dtype(f"u{elements.code_bytes}").type(first_nan or 0)
    # The kernels for long rows have counters for few ranks. Without ranks, keys are read for the NaN alone.
    for first in range(0, max(ranks.shape[1], 1), MOST_RANKS):
        part = cupy.ascontiguousarray(ranks[:, first : first + MOST_RANKS])
        out = cupy.empty(part.shape, keys.dtype)
        wanted = part, np.uint32(part.shape[1]), nan_code, out, None if first_nan is None else nans
        select_part(elements, keys, length, axis, wanted)
        selected.append(out)
    return selected[0] if len(selected) == 1 else cupy.concatenate(selected, axis=1), nans


def held_items(elements: Elements, length: int, threads: int) -> int | None:
    """Codes of each of the threads that hold a row, or None if these are too many for their registers."""
    items = ITEM_STEP * blocks_for(length, ITEM_STEP * threads)
    return items if items * elements.code_bytes <= HELD_BYTES else None


def tile_columns(keys: Any) -> int:
    """Columns of a tile."""
    return WIDE_TILE_COLUMNS if keys.itemsize == WIDE_CODE else TILE_COLUMNS


def tile_bytes(keys: Any) -> int:
    """Count the bytes of shared memory of a tile of whole columns, with one column of padding."""
    return int(keys.shape[0] * (tile_columns(keys) + 1) * keys.itemsize)


def fits_tile(elements: Elements, keys: Any) -> bool:
    """Tell whether a tile of whole columns fits a block, and a column the registers of a warp."""
    return held_items(elements, keys.shape[0], tuning.WARP_THREADS) is not None and tile_bytes(keys) <= shared_limit()


def select_part(elements: Elements, keys: Any, length: int, axis: int, wanted: tuple[Any, ...]) -> None:
    """Launch the kernel for lanes of this length, with up to `MOST_RANKS` ranks."""
    num_lanes = keys.shape[1 - axis]
    arguments = keys, np.uint64(num_lanes), np.uint32(length), *wanted
    items = held_items(elements, length, tuning.WARP_THREADS)
    if axis == 0:
        kernel = instance("select_columns", elements.source, items)
        Launch(
            ROW_SOURCE, kernel, blocks_for(num_lanes, tile_columns(keys)), ROW_THREADS, arguments, tile_bytes(keys)
        ).run()
        return
    if items is not None:
        kernel = instance("select_in_warps", elements.source, items)
        Launch(
            ROW_SOURCE, kernel, blocks_for(num_lanes * tuning.WARP_THREADS, ROW_THREADS), ROW_THREADS, arguments
        ).run()
        return
    for threads in BLOCK_THREADS:
        items = held_items(elements, length, threads)
        if items is not None:
            kernel = instance("select_in_blocks", elements.source, threads, items)
            Launch(ROW_SOURCE, kernel, num_lanes, threads, arguments).run()
            return
    kernel = instance("select_long_rows", elements.source)
    Launch(ROW_SOURCE, kernel, num_lanes, LONG_ROW_THREADS, arguments, LONG_ROW_BYTES).run()


def draw_samples(parts: Sequence[Any], stratum: int) -> Any:
    """Draw one key of each whole stratum of some keys, end to end; keys behind the last whole stratum are not drawn."""
    # Another size of a stratum draws other keys.
    for part in parts:
        check_array(part, "parts", 1)
        device_key(part.dtype)
    count = sum(map(len, parts)) // stratum
    if count >= LENGTH_LIMIT:
        raise ValueError(f"{count} strata are too many; give strata of more than {stratum} keys.")
    sample = require_cupy().empty(count, parts[0].dtype)
    kernel = instance("draw_keys", type_of_bytes(sample.itemsize))
    for part, first in zip(parts, accumulate(map(len, parts), initial=0), strict=False):
        begin, end = first // stratum, min(-(-(first + len(part)) // stratum), count)
        numbers = np.uint64(first), np.uint64(len(part)), np.uint64(stratum), np.uint32(begin), np.uint32(end)
        blocks = blocks_for(max(end - begin, 0), DRAW_THREADS)
        Launch(EXTRACT_SOURCE, kernel, blocks, DRAW_THREADS, (part, *numbers, sample)).run()
    return sample


def extract(parts: Sequence[Any], low: Any, high: Any, capacity: int) -> Extracted:
    """Count the keys of each row at the ends of brackets, and take those strictly inside, in one read."""
    # Parts, shape (rows, length) each, are the rows end to end; ends, shape (rows, brackets), are codes. Brackets may
    # overlap, and may be none. If a row has more keys inside than the capacity, `found` is greater: repeat the call
    # with that. All keys that NumPy calls equal to an end count as equal.
    for part in parts:
        check_array(part, "parts", 2)
    code_dtype, num_rows = device_key(parts[0].dtype).code_dtype, len(parts[0])
    ends = [np.asarray(end) for end in (low, high)]
    for name, end in zip(("low", "high"), ends, strict=True):
        if end.dtype != code_dtype or end.ndim != 2 or len(end) != num_rows or end.shape != ends[0].shape:
            raise ValueError(
                f"`{name}` is {end.dtype} of shape {end.shape}; give {code_dtype} of shape ({num_rows}, brackets), "
                "the same for both ends."
            )
    if ends[0].shape[1] > MOST_BRACKETS:
        raise ValueError(f"{ends[0].shape[1]} brackets are too many for one read; give at most {MOST_BRACKETS}.")
    return extract_rows(parts, ends[0], ends[1], capacity)


def take_positions(keys: Any, low: int, high: int, capacity: int) -> tuple[int, Any]:
    """Count the keys whose codes are in a closed interval, and give the positions, int64, up to a capacity."""
    # The positions come in any order.
    check_array(keys, "keys", 1)
    elements = wide_elements(device_key(keys.dtype))
    found, positions = require_cupy().zeros(1, np.uint64), require_cupy().empty(capacity, np.int64)
    code = np.dtype(f"u{elements.code_bytes}").type
    arguments = keys, np.uint64(len(keys)), code(low), code(high - low), found, positions, np.uint64(capacity)
    blocks = min(blocks_for(len(keys), DRAW_THREADS), EXTRACT_BLOCKS * multiprocessors())
    Launch(EXTRACT_SOURCE, instance("take_positions", elements.source), blocks, DRAW_THREADS, arguments).run()
    count = int(found[0])
    return count, positions[: min(count, capacity)]


def select_rows(keys: Any, ranks: Any, axis: int = 1) -> tuple[Any, Any]:
    """Select the keys at wanted ranks of each row, or column if `axis` is 0, and count its NaN."""
    # Ranks have shape (lanes, k), from 0 on; NaN and NaT are last, and of equal keys -0.0 is before +0.0. Ranks that
    # follow each other cost little if they are neighbours here: give both of a quantile side by side. Without ranks (k
    # = 0), NaN are counted alone. At most the last rank is selected.
    check_array(keys, "keys", 2)
    device_key(keys.dtype)
    if axis not in (0, 1):
        raise ValueError(f"`axis` is {axis}; give 0 or 1.")
    ranks = require_cupy().asarray(ranks)
    length, num_lanes = keys.shape[axis], keys.shape[1 - axis]
    if ranks.dtype != np.int64 or ranks.ndim != 2 or len(ranks) != num_lanes:
        raise ValueError(f"`ranks` is {ranks.dtype} of shape {ranks.shape}; give int64 of shape ({num_lanes}, k).")
    if length >= LENGTH_LIMIT or (length == 0 and ranks.size > 0):
        raise ValueError(f"lanes of {length} keys have no ranks here; give 1 to 2^32 - 1 keys.")
    return select_lanes(keys, ranks, axis)
