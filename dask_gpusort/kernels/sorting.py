"""Sorts of CuPy arrays on the current device and stream, in NumPy 2.5's order.

Every function takes memory from CuPy's current allocator and launches on CuPy's current stream. Sorts of more keys than
one block holds read a few counters back, and so wait for the stream.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .buckets.histogram import count_fine
from .keys.dtypes import DeviceKey, device_key
from .keys.elements import WIDE_CODE, Arrays, Elements
from .keys.transform import decode, encode, gather, tie_ranges
from .launch.array_checks import ALGORITHMS, check_algorithm, check_array, prepare_out
from .launch.cxx_types import type_of_bytes
from .launch.launch import Launch
from .launch.loader import require_cupy
from .lsd import lsd
from .msd import msd
from .pairs import argsort
from .papers import count_scan_reorder, four_step, split
from .papers.passes import KeyValueArrays
from .policy import tuning
from .policy.limits import count_bytes, needs_spare, shared_limit

PAPER_SORTS = {"four_step": four_step.sort, "count_scan_reorder": count_scan_reorder.sort, "split": split.sort}
COUNTED_BYTES = 2


def is_countable(key: DeviceKey) -> bool:
    """Whether the block that counts every code fits this device."""
    return key.itemsize <= COUNTED_BYTES and count_bytes(1 << 8 * key.itemsize, 1) <= shared_limit()


def count_sort(keys: Any, key: DeviceKey, out: Any, as_codes: bool = False) -> None:
    """Counting sort of 8- and 16-bit keys: one histogram, then every code as often as it was counted."""
    cupy = require_cupy()
    n, num_codes = keys.size, 1 << 8 * key.itemsize
    counts, wide = count_fine(f"Keys<{key.order}>", "TopBuckets<0>", 1, keys, n, None, num_codes)
    starts, cursors = cupy.empty((2, num_codes + 1), np.uint64)
    Launch(
        "buckets/count.cu",
        "scan_fine",
        -(-num_codes // msd.SCAN_THREADS),
        msd.SCAN_THREADS,
        (counts, np.uint32(wide), np.uint32(num_codes), starts, cursors, None),
    ).run()
    tile = tuning.FILL_THREADS * tuning.FILL_ROUNDS * 16 // key.itemsize
    order = device_key(key.code_dtype).order if as_codes else key.order
    Launch(
        "buckets/fill.cu",
        f"fill_runs<{order}>",
        -(-n // tile),
        tuning.FILL_THREADS,
        (starts, np.uint32(num_codes), out, np.uint64(n)),
    ).run()


def sort_codes(keys: Any, key: DeviceKey, out: Any, algorithm: str, as_codes: bool = False) -> None:
    """Sort keys by their one-to-one codes; those of one or two bytes have stable passes only ("lsd")."""
    n, elements, free = keys.size, plain_elements(key, as_codes), algorithm == "auto"
    small = free and lsd.prefers_cooperative(key, n)
    in_block = not small and algorithm != "lsd" and not needs_spare(elements, n)
    spare = require_cupy().empty(0 if in_block else n, key.code_dtype)
    arrays = Arrays([spare, out], [None, None], out, None)
    passes = algorithm == "lsd" or (free and not in_block and lsd.prefers_lsd(key, n))
    if small:
        lsd.sort_cooperative(elements, keys, n, arrays)
    elif passes or not msd.sort(elements, keys, n, arrays, may_decline=free):
        lsd.sort(elements, keys, n, arrays)


@functools.cache
def plain_elements(key: DeviceKey, as_codes: bool = False) -> Elements:
    """Keys alone, by their one-to-one codes; to codes in the place of keys if wanted."""
    code_type, order = type_of_bytes(key.itemsize), device_key(key.code_dtype).order if as_codes else key.order
    narrow = None
    if key.itemsize == WIDE_CODE and not key.has_ties:
        narrow = Elements(f"Narrowed<{key.order}>", f"Narrowed<{order}>", "u32")
    return Elements(f"Keys<{key.order}>", f"Keys<{order}>", code_type, domain=key.domain(code_type), narrow=narrow)


def sort_keys(
    keys: Any, *, descending: bool = False, stable: bool = False, out: Any = None, algorithm: str = "auto"
) -> Any:
    """Sort keys.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        Contiguous; bool, integers, float16/32/64, datetime64, timedelta64, complex64.
    descending : bool
        Largest first; NaN and NaT stay last.
    stable : bool
        Zeros of both signs keep their input order among themselves, and NaNs theirs.
    out : cupy.ndarray, optional
        Receives the result; may be `keys`.
    algorithm : {"auto", "msd", "lsd", "four_step", "count_scan_reorder", "split"}
        "auto" counts 8- and 16-bit keys and partitions others by their most significant digits. The last three are the
        papers' own, on codes: to read and to compare with.

    Returns
    -------
    cupy.ndarray, shape (n,)
    """
    check_array(keys, "keys")
    check_algorithm(algorithm, (*ALGORITHMS, *PAPER_SORTS))
    key = device_key(keys.dtype, descending)
    out = prepare_out(out, keys.shape, keys.dtype)
    if keys.size == 0:
        return out
    if stable and key.has_ties:
        source = keys.copy() if out.data.ptr == keys.data.ptr else keys
        sort_keys(source, descending=descending, out=out, algorithm=algorithm)
        restore_ties(source, key, out, descending)
        return out
    if algorithm in PAPER_SORTS:
        codes = KeyValueArrays(encode(keys, descending))
        PAPER_SORTS[algorithm](codes, codes)
        out[...] = decode(codes.keys, keys.dtype, descending)
    else:
        sort_plain(keys, key, out, algorithm)
    return out


def sort_plain(keys: Any, key: DeviceKey, out: Any, algorithm: str, as_codes: bool = False) -> None:
    """Sort keys, not stable among ties of different bits, to keys or to codes."""
    if algorithm != "lsd" and is_countable(key):
        count_sort(keys, key, out, as_codes)
    else:
        sort_codes(keys, key, out, algorithm if key.itemsize > COUNTED_BYTES else "lsd", as_codes)


def sorted_codes(keys: Any, *, descending: bool = False) -> Any:
    """The codes of sorted keys: what `encode(sort_keys(keys))` gives, with a pass less.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        As for `sort_keys`.
    descending : bool
        Largest first; NaN and NaT stay last.

    Returns
    -------
    cupy.ndarray, shape (n,), unsigned, of the same itemsize
    """
    check_array(keys, "keys")
    key = device_key(keys.dtype, descending)
    codes = require_cupy().empty(keys.size, key.code_dtype)
    if keys.size:
        sort_plain(keys, key, codes, "auto", as_codes=True)
    return codes


def restore_ties(keys: Any, key: DeviceKey, out: Any, descending: bool) -> None:
    """Rewrite the tied keys of a sorted array in the order of the input."""
    if keys.dtype.kind == "c":
        gather(keys, argsort(keys, descending=descending), out)
        return
    bits = keys.view(key.code_dtype)  # compared as bits: CuPy flushes subnormal floats to zero
    magnitude = key.code_dtype.type((1 << 8 * key.itemsize - 1) - 1)
    infinity = np.array(np.inf, keys.dtype).view(key.code_dtype)[()]
    for first, last in tie_ranges(out, descending):
        is_nan = int(out[first : first + 1].view(key.code_dtype)[0]) & int(magnitude) > int(infinity)
        out[first:last] = keys[(bits & magnitude) > infinity] if is_nan else keys[(bits & magnitude) == 0]


def top_histogram(keys: Any, bits: int, *, descending: bool = False) -> Any:
    """Keys of each value of the most significant `bits` (at most 16) of the code.

    Returns
    -------
    cupy.ndarray, shape (2**bits,), int64

    References
    ----------
    Satish, Harris, Garland, IPDPS 2009, section 4, step 2, with the whole chunk as one tile.
    """
    check_array(keys, "keys")
    key = device_key(keys.dtype, descending)
    most = min(16, 8 * key.itemsize)
    if not 1 <= bits <= most:
        raise ValueError(f"`bits` is {bits}; codes of {keys.dtype} are counted by 1 to {most} bits.")
    drop = 8 * key.itemsize - bits
    if keys.size == 0:
        return require_cupy().zeros(1 << bits, np.int64)
    counts, wide = count_fine(f"Keys<{key.order}>", f"TopBuckets<{drop}>", 1, keys, keys.size, None, 1 << bits)
    return counts.view(np.int64) if wide else counts.view(np.uint32)[: 1 << bits].astype(np.int64)
