"""Pairs whose values move once, early: stable to a coarse bucket, and from then on only within it.

    keys, values   --stable partition-->   codes, values            by coarse bucket; the place breaks ties from here on
    codes          -----partition------>   codes, places            by fine bucket
                   -----finish--------->   keys, values             from places in one coarse bucket at a time

Where keys tie that differ in their bits, the finish gives places, and keys and values are gathered by them. Values
gathered by their positions in the input come from anywhere in device memory, which reads 35 G sectors a second
on an H200 however narrow they are. A coarse bucket of 2^20 values lies in the second-level cache.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..keys.dtypes import DeviceKey
from ..keys.elements import WIDE_CODE, Arrays, Elements, indexed_elements, tied_elements
from ..keys.transform import decode, gather, run_gather, tie_ranges
from ..launch.cxx_types import bytes_of_type, type_of_bytes
from ..launch.launch import Readback
from ..launch.loader import require_cupy
from ..msd import msd
from ..policy import tuning
from .partition import run_partition_stable
from .recursive_partition import partition_recursively


def pays(key: DeviceKey, n: int, type_name: str) -> bool:
    """Whether there is a first level for such pairs, and n are enough for it to take less time than it saves."""
    least = tuning.EARLY_VALUES_PAIRS.get(key.itemsize)
    if least is None or not least <= n <= tuning.MOST_TWO_LEVELS:
        return False
    if (key.itemsize, bytes_of_type(type_name)) not in tuning.STABLE:
        return False
    return msd.block_sort_shape(indexed_elements(key, "u32"), n)[1] > tuning.SMALL_PARTITIONS[-1].digits


def sort_with_early_values(
    keys: Any, values: Any, type_name: str, key: DeviceKey, descending: bool, keys_out: Any, values_out: Any
) -> bool:
    """Stable sort of pairs, values of a C++ type; False where declined, with nothing written: the keys crowd."""
    cupy = require_cupy()
    n, elements = keys.size, indexed_elements(key, "u32")
    buckets = map_pairs(keys, key, elements)
    if buckets is None:
        return False
    tile = msd.describe_segments(elements, buckets)
    codes, moved = cupy.empty(n, key.code_dtype), cupy.empty(n * bytes_of_type(type_name), np.uint8)
    run_partition_stable(
        key,
        type_name,
        buckets.digits(True),
        n,
        (keys, values),
        (codes, moved),
        buckets.splitters,
        buckets.fine_bits,
        buckets.places["coarse_cursors"],
    )
    if not key.has_ties:
        moves = cupy.asarray(np.array([moved.data.ptr, values_out.data.ptr], np.uint64))
        gathered = replace(elements, sink=f"Gathered<{key.order}, {type_name}>")
        sort_places(key, msd.Coarse(gathered, outputs_alone(keys_out, moves), tile, buckets), codes)
        return True
    places = cupy.empty(n, np.uint32)
    sort_places(key, msd.Coarse(elements, outputs_alone(keys_out, places), tile, buckets), codes)
    restore_ties(codes, places, keys_out, descending)
    del codes
    run_gather(type_name, moved, places, values_out, tuning.GATHER_AHEAD * -(-n // buckets.num_coarse))
    return True


def outputs_alone(keys_out: Any, places_out: Any) -> Arrays:
    """The outputs, and no memory in between yet."""
    return Arrays([None, None], [None, None], keys_out, places_out)


def map_pairs(keys: Any, key: DeviceKey, elements: Elements) -> msd.BucketMap | None:
    """The buckets of both levels, which know of keys alone; `None` where the keys crowd.

    Positions would cut the buckets of frequent 32-bit keys, but places are not known yet.
    """
    cupy = require_cupy()
    n = keys.size
    shape, num_fine = msd.block_sort_shape(elements, n)
    canonical = tied_elements(key, "u32", "NoValue")
    buckets = msd.map_buckets(canonical, keys, n, num_fine, msd.split_fine(num_fine), may_decline=True)
    if buckets is None or key.itemsize == WIDE_CODE:
        return buckets
    sizes = buckets.starts[1:] - buckets.starts[:-1]
    skewed = cupy.where(sizes > np.uint64(shape.capacity), sizes, np.uint64(0)).sum(keepdims=True)
    return None if Readback(skewed).wait()[0] > tuning.SKEWED_SHARE * n else buckets


def sort_places(key: DeviceKey, coarse: msd.Coarse, codes: Any) -> None:
    """Sort one-to-one codes in coarse buckets: keys, tied ones canonical, and what the sink makes of their places."""
    cupy, n = require_cupy(), codes.size
    elements, arrays, digits = coarse.elements, coarse.arrays, coarse.buckets.digits(False)
    shape, _ = msd.block_sort_shape(elements, n)
    order = (
        f"CodesOf<{key.order}>" if key.has_ties else f"KeyOrder<{type_of_bytes(key.itemsize)}, Kind::kUnsigned, false>"
    )
    if key.itemsize == WIDE_CODE:
        source = f"TiedKeys<{order}, u32>"
        arrays.codes[1], arrays.payloads[1] = arrays.keys_out, cupy.empty(n, np.uint32)
    else:
        source, digits = f"Packed<{order}, u32>", replace(digits, name=f"OfPacked<{digits.name}>")
        arrays.codes[1] = cupy.empty(n, np.uint64)
    left = msd.finish_coarse(coarse, digits, source, (codes, None), n, shape)
    num_segments, num_keys, _ = Readback(left.overflow).wait()
    if num_segments:
        arrays.codes[0] = cupy.empty(n, np.uint64)
        arrays.payloads[0] = cupy.empty(n, np.uint32) if elements.payload_bytes else None
        partition_recursively(elements, shape, n, arrays, 1, (left.segments, num_segments, num_keys))


def restore_ties(codes: Any, places: Any, keys_out: Any, descending: bool) -> None:
    """Give sorted keys that compare equal their own bits again: those of the codes at their places."""
    everywhere = [(0, codes.size)]
    ranges = everywhere if keys_out.dtype.kind == "c" else tie_ranges(keys_out, descending)
    for first, last in ranges:
        own = gather(codes, places[first:last])
        decode(own, keys_out.dtype, descending, out=keys_out[first:last])
