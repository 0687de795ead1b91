"""Early materialization of values: they move once, with the first level of the sort.

    keys, values   --stable partition-->   codes, values            by coarse bucket; positions break ties from here on
    codes          -----partition------>   codes, positions         by fine bucket
                   -----block sort----->   keys, values             gathered inside one coarse bucket at a time

Where different bits compare equal, the block sort writes positions, by which keys and values are then gathered. Values
gathered by their positions in the input come from anywhere in device memory, which serves 35 G sectors a second on an
H200 however narrow the values are. A coarse bucket of 2^20 values fits the second-level cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..keys.dtypes import WIDE_CODE, Arrays, DeviceKey, Elements, indexed_elements, tied_elements
from ..keys.transform import decode, gather, run_gather, store_in_order, tie_ranges
from ..launch.arrays import bytes_of_type, type_of_bytes
from ..launch.launch import Readback, side_by_side
from ..launch.loader import require_cupy
from ..policy import tuning
from .msd import CoarseBuckets, block_sort_shape, sort_coarse_buckets
from .partition import BucketMap, StablePartition, describe_segments, map_buckets, split_fine
from .recursive_partition import SegmentList, partition_recursively


def pays(key: DeviceKey, n: int, type_name: str) -> bool:
    """Tell whether such pairs have a stable first level, and n of them are enough for it to save time."""
    least = tuning.EARLY_VALUES_PAIRS.get(key.itemsize)
    if least is None or not least <= n <= tuning.MOST_TWO_LEVELS:
        return False
    return (key.itemsize, bytes_of_type(type_name)) in tuning.STABLE


def sort_with_early_values(
    keys: Any, values: Any, type_name: str, key: DeviceKey, descending: bool, keys_out: Any, values_out: Any
) -> bool:
    """Stable sort of pairs, with values of a C++ type; False, with nothing written, where the keys are too skewed."""
    cupy = require_cupy()
    n, elements = keys.size, indexed_elements(key, "u32")
    stored = replace(tied_elements(key, type_name, type_name), source=f"Keys<{key.order}>")
    store = partial(store_in_order, elements, (keys, values), (keys_out, values_out), n, stored)
    buckets = map_pairs(keys, key, elements, store)
    if isinstance(buckets, bool):
        return buckets
    with side_by_side:
        tile = describe_segments(elements, buckets)
        codes, bucket_values = cupy.empty(n, key.code_dtype), cupy.empty(n * bytes_of_type(type_name), np.uint8)
        inputs, outputs = (keys, values), (codes, bucket_values)
        starts = buckets.tables["coarse_cursors"]
        StablePartition(key, type_name, buckets.digits(True), inputs, outputs, starts).run(n)
        if not key.has_ties:
            addresses = cupy.asarray(np.array([bucket_values.data.ptr, values_out.data.ptr], np.uint64))
            gathered = replace(elements, sink=f"Gathered<{key.order}, {type_name}>")
            sort_buckets(key, CoarseBuckets(gathered, outputs_alone(keys_out, addresses), tile, buckets), codes)
            return True
        positions = cupy.empty(n, np.uint32)
        sort_buckets(key, CoarseBuckets(elements, outputs_alone(keys_out, positions), tile, buckets), codes)
    restore_ties(codes, positions, keys_out, descending)
    del codes
    run_gather(type_name, bucket_values, positions, values_out, tuning.GATHER_AHEAD * -(-n // buckets.num_coarse))
    return True


def outputs_alone(keys_out: Any, positions_out: Any) -> Arrays:
    """Give the outputs, with no intermediate arrays yet."""
    return Arrays([None, None], [None, None], keys_out, positions_out)


def map_pairs(keys: Any, key: DeviceKey, elements: Elements, store: Callable[[], bool]) -> BucketMap | bool:
    """Give the buckets of both levels, by keys alone; without them, as `map_buckets`."""
    # Positions would split the buckets of frequent 32-bit keys, but those in the coarse buckets are not known yet.
    cupy = require_cupy()
    n = keys.size
    shape, num_fine = block_sort_shape(elements, n)
    canonical = tied_elements(key, "u32", "NoValue")
    split, rest = split_fine(num_fine), lambda found: found
    buckets = map_buckets(canonical, keys, n, num_fine, split, rest, store, True)
    if isinstance(buckets, bool) or key.itemsize == WIDE_CODE:
        return buckets
    sizes = buckets.starts[1:] - buckets.starts[:-1]
    skewed = cupy.where(sizes > np.uint64(shape.capacity), sizes, np.uint64(0)).sum(keepdims=True)
    return False if Readback(skewed).wait()[0] > tuning.SKEWED_SHARE * n else buckets


def sort_buckets(key: DeviceKey, coarse: CoarseBuckets, codes: Any) -> None:
    """Sort one-to-one codes in coarse buckets, into keys (canonical ones where they tie) and positions or values."""
    cupy, n = require_cupy(), codes.size
    elements, arrays, digits = coarse.elements, coarse.arrays, coarse.buckets.digits(False)
    shape, _ = block_sort_shape(elements, n)
    unsigned = f"KeyOrder<{type_of_bytes(key.itemsize)}, Kind::kUnsigned, false>"
    order = f"CodesOf<{key.order}>" if key.has_ties else unsigned
    if key.itemsize == WIDE_CODE:
        source = f"TiedKeys<{order}, u32>"
        arrays.codes[1], arrays.payloads[1] = arrays.keys_out, cupy.empty(n, np.uint32)
    else:
        source, digits = f"Packed<{order}, u32>", replace(digits, name=f"PackedDigits<{digits.name}>")
        arrays.codes[1] = cupy.empty(n, np.uint64)
    segments = SegmentList.of_overflow(sort_coarse_buckets(coarse, digits, source, (codes, None), n, shape))
    if segments.count:
        arrays.codes[0] = cupy.empty(n, np.uint64)
        arrays.payloads[0] = cupy.empty(n, np.uint32) if elements.payload_bytes else None
        partition_recursively(elements, shape, n, arrays, 1, segments)


def restore_ties(codes: Any, positions: Any, keys_out: Any, descending: bool) -> None:
    """Replace sorted keys that compare equal by the keys of the codes at their positions, which may differ in bits."""
    everywhere = [(0, codes.size)]
    ranges = everywhere if keys_out.dtype.kind == "c" else tie_ranges(keys_out, descending)
    for first, last in ranges:
        own = gather(codes, positions[first:last])
        decode(own, keys_out.dtype, descending, out=keys_out[first:last])
