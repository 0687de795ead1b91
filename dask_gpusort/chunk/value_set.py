"""Sets of integers of a small range as arrays of bool, for chunks of either library."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..chunk import ops_for


def make_value_set(codes: Any, most: float) -> tuple[Any, int] | None:
    """Tell for each unsigned code from the least to the greatest whether it occurs, and give the least one.

    None means that there is no code, or that the range is larger than `most`.
    """
    if not len(codes):
        return None
    least, greatest = int(codes.min()), int(codes.max())
    if greatest - least >= most:
        return None
    occurs = ops_for(codes).empty(np.dtype(bool), (greatest - least + 1,))
    occurs.fill(False)
    occurs[_offsets(codes, least)] = True
    return occurs, least


def occur(codes: Any, occurs: Any, least: int) -> Any:
    """Which codes are in a set."""
    last, least_code = codes.dtype.type(len(occurs) - 1), codes.dtype.type(least)
    inside = (codes >= least_code) & (codes - least_code <= last)
    # Codes below the least one wrap around; what is read for them does not count.
    found = occurs[_offsets((codes - least_code).clip(None, last), 0)]
    found &= inside
    return found


def _offsets(codes: Any, least: int) -> Any:
    return (codes - codes.dtype.type(least)).astype(np.int64)
