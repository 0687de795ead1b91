"""Stable sorts of keys with a payload: their positions, or values."""

from __future__ import annotations

from typing import Any

import numpy as np

from .keys.dtypes import Arrays, DeviceKey, device_key, tied_elements
from .keys.transform import decode, encode, gather, tie_ranges, value_type
from .launch.arrays import INDEX_LIMIT, bytes_of_type, check_algorithm, check_array, prepare_out
from .launch.loader import require_cupy
from .lsd import lsd
from .merging import merge_runs
from .msd import early_values
from .msd.msd import sort_indexed, sort_indexed_passes
from .policy import tuning

NARROW_BYTES = 4
PART_KEYS = 1 << 31  # more keys than INDEX_LIMIT are sorted in parts of this size


def argsort(keys: Any, *, descending: bool = False, out: Any = None, algorithm: str = "auto") -> Any:
    """Find the int64 positions that sort the keys, stably; keys that begin the memory of `out` are overwritten."""
    check_array(keys, "keys")
    check_algorithm(algorithm)
    key = device_key(keys.dtype, descending)
    if keys.size >= INDEX_LIMIT and out is None:
        # The merge allocates its output.
        return order_parts(keys, descending, algorithm)[1]
    out = prepare_out(out, keys.shape, np.int64)
    if keys.size == 0:
        return out
    if keys.size >= INDEX_LIMIT:
        out[...] = order_parts(keys, descending, algorithm)[1]
    elif algorithm == "lsd":
        sort_indexed_passes(keys, key, "long long", out, None)
    else:
        sort_indexed(keys, key, "long long", out, None)
    return out


def sort_pairs(
    keys: Any,
    values: Any,
    *,
    descending: bool = False,
    keys_out: Any = None,
    values_out: Any = None,
    algorithm: str = "auto",
) -> tuple[Any, Any]:
    """Sort keys and move one value, or row, of any dtype with each, stably."""
    # Kernels of this package move 1, 2, 4, 8 or 16 bytes; CuPy gathers others.
    check_array(keys, "keys")
    check_algorithm(algorithm)
    if len(values) != keys.size:
        raise ValueError(f"{len(values)} values for {keys.size} keys; give one value a key.")
    key = device_key(keys.dtype, descending)
    shared = {array.data.ptr for array in (keys_out, values_out) if array is not None}
    if shared & {keys.data.ptr, values.data.ptr}:
        raise ValueError("`keys_out` and `values_out` may not be the inputs: values are gathered from them last.")
    keys_out = prepare_out(keys_out, keys.shape, keys.dtype, "keys_out")
    values_out = prepare_out(values_out, values.shape, values.dtype, "values_out")
    if keys.size == 0:
        return keys_out, values_out
    if algorithm != "auto" or not sort_with_values(keys, key, values, descending, keys_out, values_out):
        positions = order_with_positions(keys, descending, keys_out, algorithm)
        gather(values, positions, values_out)
    return keys_out, values_out


def sort_with_values(keys: Any, key: DeviceKey, values: Any, descending: bool, keys_out: Any, values_out: Any) -> bool:
    """As `sort_pairs`, by passes that move the values; False where gathering them at the end takes less time."""
    n, type_name, skewed = keys.size, value_type(values), False
    if n >= INDEX_LIMIT or type_name is None or type_name != value_type(values_out):
        return False
    if early_values.pays(key, n, type_name):
        skewed = not early_values.sort_with_early_values(keys, values, type_name, key, descending, keys_out, values_out)
        if not skewed:
            return True
    if not takes_values(key, n, type_name, skewed):
        return False
    sort_valued(keys, key, values, type_name, keys_out, values_out)
    return True


def order_with_positions(keys: Any, descending: bool, keys_out: Any, algorithm: str) -> Any:
    """Stable sort into `keys_out`, bit for bit; returns the positions of the sorted keys, uint32 or int64."""
    key = device_key(keys.dtype, descending)
    if keys.size >= INDEX_LIMIT:
        codes, positions = order_parts(keys, descending, algorithm)
        decode(codes, keys.dtype, descending, out=keys_out)
        return positions
    positions = require_cupy().empty(keys.size, np.uint32)
    if algorithm == "lsd":
        sort_indexed_passes(keys, key, "u32", positions, keys_out)
    else:
        sort_indexed(keys, key, "u32", positions, keys_out)
    if keys.dtype.kind == "c":
        gather(keys, positions, keys_out)
    elif key.has_ties:
        for first, last in tie_ranges(keys_out, descending):
            gather(keys, positions[first:last], keys_out[first:last])
    return positions


def order_parts(keys: Any, descending: bool, algorithm: str) -> tuple[Any, Any]:
    """Sort 2^32 keys or more: their sorted codes and positions (int64), stable."""
    # The keys are sorted part by part, and the parts are merged.
    cupy, runs, run_positions = require_cupy(), [], []
    for first in range(0, keys.size, PART_KEYS):
        part = keys[first : first + PART_KEYS]
        ordered = cupy.empty_like(part)
        positions = order_with_positions(part, descending, ordered, algorithm)
        runs.append(encode(ordered, descending, out=ordered.view(device_key(keys.dtype).code_dtype)))
        run_positions.append(positions.astype(np.int64))
        run_positions[-1] += first
        del positions
    codes, (merged_positions,) = merge_runs(runs, [run_positions], ties_of=keys.dtype, descending=descending)
    return codes, merged_positions


def sort_with_positions(keys: Any, *, descending: bool = False) -> tuple[Any, Any]:
    """Sort keys, and return the uint32 positions that they had, int64 from 2^32 keys on, stably."""
    cupy = require_cupy()
    check_array(keys, "keys")
    keys_out = cupy.empty_like(keys)
    if keys.size == 0:
        return keys_out, cupy.empty(0, np.uint32)
    return keys_out, order_with_positions(keys, descending, keys_out, "auto")


def takes_values(key: DeviceKey, n: int, type_name: str, skewed: bool) -> bool:
    """Tell whether stable passes that move the values take less time than gathering them by position."""
    if key.has_ties or (key.itemsize, bytes_of_type(type_name)) not in tuning.LSD:
        return False
    return skewed or (key.itemsize <= NARROW_BYTES and n >= tuning.LSD_PAIRS)


def sort_valued(keys: Any, key: DeviceKey, values: Any, type_name: str, keys_out: Any, values_out: Any) -> None:
    """Stable sort by LSD passes that move the values, of keys that compare equal only if their bits are."""
    cupy = require_cupy()
    codes = [cupy.empty(keys.size, key.code_dtype), keys_out]
    payloads = [cupy.empty(values.nbytes, np.uint8), values_out]
    elements = tied_elements(key, type_name, type_name)
    lsd.sort(elements, keys, keys.size, Arrays(codes, payloads, keys_out, values_out), values)
