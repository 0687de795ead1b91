"""Sorts of CuPy arrays on the current device and stream, in NumPy 2.5's order.

Every function allocates from CuPy's current allocator and launches on CuPy's current stream. Sorts of more keys than
fit one block read a few counters back, and therefore wait for the stream.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .buckets.counting import COUNTED_BYTES, count_sort, is_countable
from .keys.dtypes import DeviceKey, device_key
from .keys.elements import WIDE_CODE, Arrays, Elements
from .keys.transform import gather, tie_ranges
from .launch.arrays import check_algorithm, check_array, prepare_out, type_of_bytes
from .launch.loader import require_cupy
from .lsd import lsd
from .msd import msd
from .pairs import argsort
from .policy.limits import needs_spare


def sort_codes(keys: Any, key: DeviceKey, out: Any, algorithm: str, as_codes: bool = False) -> None:
    """Sort keys by their one-to-one codes; keys of one or two bytes by LSD passes only (`algorithm` is "lsd")."""
    n, elements, free = keys.size, plain_elements(key, as_codes), algorithm == "auto"
    in_block = algorithm != "lsd" and not needs_spare(elements, n)
    spare = require_cupy().empty(0 if in_block else n, key.code_dtype)
    arrays = Arrays([spare, out], [None, None], out, None)
    passes = algorithm == "lsd" or (free and not in_block and lsd.prefers_lsd(key, n))
    if passes or not msd.sort(elements, keys, n, arrays, may_decline=free):
        lsd.sort(elements, keys, n, arrays)


@functools.cache
def plain_elements(key: DeviceKey, as_codes: bool = False) -> Elements:
    """Keys without payload, by their one-to-one codes; the output is keys, or codes."""
    code_type, order = type_of_bytes(key.itemsize), device_key(key.code_dtype).order if as_codes else key.order
    narrow = None
    if key.itemsize == WIDE_CODE and not key.has_ties:
        narrow = Elements(f"Narrowed<{key.order}>", f"Narrowed<{order}>", "u32")
    return Elements(f"Keys<{key.order}>", f"Keys<{order}>", code_type, domain=key.domain(code_type), narrow=narrow)


def sort_keys(
    keys: Any, *, descending: bool = False, stable: bool = False, out: Any = None, algorithm: str = "auto"
) -> Any:
    """Sort contiguous keys: bool, integers, float16/32/64, datetime64, timedelta64, complex64; `out` may be `keys`.

    NaN and NaT stay last; with `stable`, zeros of both signs, and NaNs, keep their input order.
    """
    # "auto" counts 8- and 16-bit keys and partitions others by their most significant digits.
    check_array(keys, "keys")
    check_algorithm(algorithm)
    key = device_key(keys.dtype, descending)
    out = prepare_out(out, keys.shape, keys.dtype)
    if keys.size == 0:
        return out
    if stable and key.has_ties:
        source = keys.copy() if out.data.ptr == keys.data.ptr else keys
        sort_keys(source, descending=descending, out=out, algorithm=algorithm)
        restore_ties(source, key, out, descending)
        return out
    sort_plain(keys, key, out, algorithm)
    return out


def sort_plain(keys: Any, key: DeviceKey, out: Any, algorithm: str, as_codes: bool = False) -> None:
    """Sort keys, into keys or codes; not stable for keys that compare equal and differ in bits."""
    if algorithm != "lsd" and is_countable(key):
        count_sort(keys, key, out, as_codes)
    else:
        sort_codes(keys, key, out, algorithm if key.itemsize > COUNTED_BYTES else "lsd", as_codes)


def sorted_codes(keys: Any, *, descending: bool = False) -> Any:
    """Sort keys to their codes: `encode(sort_keys(keys))` with one pass less."""
    check_array(keys, "keys")
    key = device_key(keys.dtype, descending)
    codes = require_cupy().empty(keys.size, key.code_dtype)
    if keys.size:
        sort_plain(keys, key, codes, "auto", as_codes=True)
    return codes


def restore_ties(keys: Any, key: DeviceKey, out: Any, descending: bool) -> None:
    """Rewrite the keys of a sorted array that compare equal in the order of the input."""
    if keys.dtype.kind == "c":
        gather(keys, argsort(keys, descending=descending), out)
        return
    bits = keys.view(key.code_dtype)  # compared as bits: CuPy flushes subnormal floats to zero
    magnitude = key.code_dtype.type((1 << 8 * key.itemsize - 1) - 1)
    infinity = np.array(np.inf, keys.dtype).view(key.code_dtype)[()]
    for first, last in tie_ranges(out, descending):
        is_nan = int(out[first : first + 1].view(key.code_dtype)[0]) & int(magnitude) > int(infinity)
        out[first:last] = keys[(bits & magnitude) > infinity] if is_nan else keys[(bits & magnitude) == 0]
