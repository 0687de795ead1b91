"""Selection without a sort, on the current device and stream, in NumPy's order: NaN last.

`draw_samples` and `extract` read few long rows with all blocks, and `select_rows` many rows: a warp or a block each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from .keys.dtypes import device_key
from .launch.array_checks import check_array
from .launch.cxx_types import type_of_bytes
from .launch.launch import Launch, blocks_for, instance
from .launch.loader import require_cupy
from .select.extract import MOST_BRACKETS, SOURCE, Extracted, extract_rows
from .select.row_select import LENGTH_LIMIT, select_lanes

DRAW_THREADS = 256


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
        Launch(SOURCE, kernel, blocks, DRAW_THREADS, (part, *numbers, sample)).run()
    return sample


def extract(parts: Sequence[Any], low: Any, high: Any, capacity: int, *, ties: bool = True) -> Extracted:
    """Count the keys of each row at the ends of brackets, and take those strictly inside, in one read.

    Parts, shape (rows, length) each, are the rows end to end; ends, shape (rows, brackets), are codes.
    """
    # Brackets may overlap, and may be none. If a row has more keys inside than the capacity, `found` is greater: repeat
    # the call with that. Without `ties` only the key with its code counts as equal to an end, else all that NumPy calls
    # equal.
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
    return extract_rows(parts, ends[0], ends[1], capacity, ties)


def select_rows(keys: Any, ranks: Any, axis: int = 1) -> tuple[Any, Any]:
    """Select the keys at wanted ranks of each row, or column if `axis` is 0, and count its NaN.

    Ranks have shape (lanes, k), from 0 on; NaN and NaT are last, and of equal keys -0.0 is before +0.0.
    """
    # Ranks that follow each other cost little if they are neighbours here: give both of a quantile side by side.
    # Without ranks (k = 0), NaN are counted alone. At most the last rank is selected.
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
