"""Stable sorts of fewer than 2^32 keys with their positions, which travel with the codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..keys.dtypes import DeviceKey
from ..keys.elements import Arrays, indexed_elements, tied_elements
from ..launch.loader import require_cupy
from ..lsd import lsd
from . import msd


def sort_indexed_passes(keys: Any, key: DeviceKey, position_type: str, positions_out: Any, keys_out: Any) -> None:
    """As `sort_indexed`, by LSD passes over the bytes of the keys."""
    cupy = require_cupy()
    if keys.data.ptr == positions_out.data.ptr:
        keys = keys.copy()  # a single pass reads the keys while it writes the positions
    codes, payloads = list(cupy.empty((2, keys.size), key.code_dtype)), list(cupy.empty((2, keys.size), np.uint32))
    elements = tied_elements(key, position_type, "u32")
    lsd.sort(elements, keys, keys.size, Arrays(codes, payloads, keys_out, positions_out))


def sort_indexed(keys: Any, key: DeviceKey, position_type: str, positions_out: Any, keys_out: Any) -> None:
    """Sort fewer than 2^32 keys stably with their positions: the low part of the code, or a payload beside it.

    Keys may begin the memory of `positions_out`, of int64 or uint32; floats that compare equal leave with the same
    bits.
    """
    cupy = require_cupy()
    n = keys.size
    in_place = positions_out.itemsize == 8
    elements = indexed_elements(key, position_type)
    codes = [cupy.empty(n, np.uint64), positions_out if in_place else cupy.empty(n, np.uint64)]
    payloads = list(cupy.empty((2, n), np.uint32)) if elements.payload_bytes else [None, None]
    arrays = Arrays(codes, payloads, keys_out, positions_out)
    if not msd.sort(elements, keys, n, arrays, may_decline=True):
        del codes, payloads, arrays
        sort_indexed_passes(keys, key, position_type, positions_out, keys_out)
