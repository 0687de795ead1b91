"""Keys at wanted ranks of each row or column of a matrix (``row_select.cu``).

    rows                                  columns
    a warp a row                          tiles in shared memory, a warp a column
    a block a row                         longer columns are copied to rows
    a block reads a row several times

A row is one block's work at most, so a matrix needs some hundred long rows to fill a device. `extract` reads fewer and
longer rows with all blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..keys.dtypes import device_key, first_nan_code
from ..keys.elements import WIDE_CODE, Elements, wide_elements
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.limits import shared_limit

SOURCE = "select/row_select.cu"
THREADS = cxx_constant(SOURCE, "kSelectThreads")
TILE_COLUMNS = cxx_constant(SOURCE, "kTileColumns")
WIDE_TILE_COLUMNS = cxx_constant(SOURCE, "kWideTileColumns")
LONG_ROW_THREADS = cxx_constant(SOURCE, "kLongRowThreads")
LONG_ROW_BYTES = cxx_constant(SOURCE, "kLongRowBytes")
MOST_RANKS = cxx_constant(SOURCE, "kMostRanks")
#: Most bytes of codes that a thread holds: 32 of its 80 registers.
HELD_BYTES = 128
#: Codes of a thread are compiled for multiples of so many: finer steps would compile more kernels.
ITEM_STEP = 4
#: Threads of a block that holds a row; the smaller block has fewer threads without a code.
BLOCK_THREADS = (128, 384)
#: Keys of a row are counted in 32 bits.
LENGTH_LIMIT = 1 << 32


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
        launch(elements, keys, length, axis, wanted)
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


def launch(elements: Elements, keys: Any, length: int, axis: int, wanted: tuple[Any, ...]) -> None:
    """Launch the kernel for lanes of this length, with up to `MOST_RANKS` ranks."""
    num_lanes = keys.shape[1 - axis]
    arguments = keys, np.uint64(num_lanes), np.uint32(length), *wanted
    items = held_items(elements, length, tuning.WARP_THREADS)
    if axis == 0:
        kernel = instance("select_columns", elements.source, items)
        Launch(SOURCE, kernel, blocks_for(num_lanes, tile_columns(keys)), THREADS, arguments, tile_bytes(keys)).run()
        return
    if items is not None:
        kernel = instance("select_in_warps", elements.source, items)
        Launch(SOURCE, kernel, blocks_for(num_lanes * tuning.WARP_THREADS, THREADS), THREADS, arguments).run()
        return
    for threads in BLOCK_THREADS:
        items = held_items(elements, length, threads)
        if items is not None:
            kernel = instance("select_in_blocks", elements.source, threads, items)
            Launch(SOURCE, kernel, num_lanes, threads, arguments).run()
            return
    kernel = instance("select_long_rows", elements.source)
    Launch(SOURCE, kernel, num_lanes, LONG_ROW_THREADS, arguments, LONG_ROW_BYTES).run()
