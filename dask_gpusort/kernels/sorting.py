"""Sorts of CuPy arrays on the current device and stream, in NumPy 2.5's order.

Every function takes memory from CuPy's current allocator and launches on CuPy's current stream. Sorts of more keys than
one block holds read a few counters back, and so wait for the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import count_scan_reorder, four_step, lsd, msd, split, split_launch, tuning
from .dtypes import DeviceKey, device_key
from .elements import Arrays, Elements
from .histogram import count_fine
from .limits import count_bytes, finish_shapes, shared_limit
from .loader import launch, require_cupy

CODE_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
ALGORITHMS = ("auto", "msd", "lsd")
PAPER_SORTS = {"four_step": four_step.sort, "count_scan_reorder": count_scan_reorder.sort, "split": split.sort}
TRANSFORM_THREADS = 256
NARROW_BYTES, WIDE_BYTES = 4, 8
COUNTED_BYTES = 2
POSITION_BITS = 32  # kPositionBits in elements.cuh
INDEX_LIMIT = 1 << POSITION_BITS  # positions inside the kernels are 32 bits wide below this many keys


def check_array(array: Any, name: str, ndim: int = 1) -> None:
    """Raise unless `array` is a contiguous CuPy array of `ndim` dimensions."""
    cupy = require_cupy()
    if not isinstance(array, cupy.ndarray):
        raise TypeError(f"`{name}` is a {type(array).__name__}; give a CuPy array (cupy.asarray copies to the device).")
    if array.ndim != ndim or not array.flags.c_contiguous:
        raise ValueError(
            f"`{name}` has shape {array.shape} and strides {array.strides}; give a contiguous {ndim}-dimensional array "
            "(cupy.ascontiguousarray)."
        )


def prepare_out(out: Any, shape: tuple[int, ...], dtype: Any, name: str = "out") -> Any:
    """`out`, checked, or a new array."""
    if out is None:
        return require_cupy().empty(shape, dtype)
    check_array(out, name, len(shape))
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"`{name}` is {out.dtype} of shape {out.shape}; give {np.dtype(dtype)} of shape {shape}.")
    return out


def check_algorithm(algorithm: str, allowed: Sequence[str] = ALGORITHMS) -> None:
    """Raise unless the algorithm is one of those allowed."""
    if algorithm not in allowed:
        raise ValueError(f"`algorithm` is {algorithm!r}; give one of {', '.join(map(repr, allowed))}.")


def transform_blocks(n: int) -> int:
    """Blocks of a kernel with one thread an element."""
    return -(-n // TRANSFORM_THREADS)


def encode(keys: Any, descending: bool = False, *, out: Any = None) -> Any:
    """The unsigned codes of keys, one to one.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        Keys of a radix dtype.
    descending : bool
        Codes that ascend as the keys descend; NaN and NaT stay last.
    out : cupy.ndarray, optional
        Receives the result; may be the memory of the keys.

    Returns
    -------
    cupy.ndarray, shape (n,), unsigned, of the same itemsize
    """
    check_array(keys, "keys")
    key = device_key(keys.dtype, descending)
    codes = prepare_out(out, keys.shape, key.code_dtype)
    launch(
        "transform.cu",
        f"encode_keys<{key.order}>",
        transform_blocks(keys.size),
        TRANSFORM_THREADS,
        (keys, codes, np.uint64(keys.size)),
    )
    return codes


def decode(codes: Any, dtype: Any, descending: bool = False, *, out: Any = None) -> Any:
    """The keys of codes: the inverse of `encode`. `out` receives them, and may be the memory of the codes."""
    check_array(codes, "codes")
    key = device_key(dtype, descending)
    if codes.dtype != key.code_dtype:
        raise ValueError(f"`codes` are {codes.dtype}; the codes of {np.dtype(dtype)} are {key.code_dtype}.")
    keys = prepare_out(out, codes.shape, np.dtype(dtype))
    launch(
        "transform.cu",
        f"decode_codes<{key.order}>",
        transform_blocks(codes.size),
        TRANSFORM_THREADS,
        (codes, keys, np.uint64(codes.size)),
    )
    return keys


def search_sorted(keys: Any, needles: Any, side: str = "left", *, descending: bool = False) -> Any:
    """Ranks of needles among sorted keys, as `numpy.searchsorted`, in the order of the sort.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        Sorted by `sort_keys` with the same `descending`.
    needles : cupy.ndarray, shape (k,), the same dtype
    side : {"left", "right"}
        Number of keys before the needle, or of keys not after it.

    Returns
    -------
    cupy.ndarray, shape (k,), int64
    """
    check_array(keys, "keys")
    check_array(needles, "needles")
    if keys.dtype != needles.dtype:
        raise ValueError(f"`needles` are {needles.dtype} and `keys` {keys.dtype}; give one dtype.")
    if side not in ("left", "right"):
        raise ValueError(f"`side` is {side!r}; give 'left' or 'right'.")
    order = device_key(keys.dtype, descending).order
    ranks = require_cupy().empty(needles.size, np.int64)
    launch(
        "transform.cu",
        f"search_sorted<{order}, {str(side == 'right').lower()}>",
        transform_blocks(needles.size),
        TRANSFORM_THREADS,
        (keys, np.uint64(keys.size), needles, ranks, np.uint64(needles.size)),
    )
    return ranks


def gather(values: Any, positions: Any, out: Any = None) -> Any:
    """`values[positions]` for values of any width."""
    cupy = require_cupy()
    if values.itemsize not in CODE_TYPES or values.ndim != 1:
        result = values[positions]
        if out is None:
            return result
        out[...] = result
        return out
    out = cupy.empty(positions.size, values.dtype) if out is None else out
    position_type = {4: "u32", 8: "u64"}[positions.itemsize]
    launch(
        "transform.cu",
        f"gather<{CODE_TYPES[values.itemsize]}, {position_type}>",
        transform_blocks(positions.size),
        TRANSFORM_THREADS,
        (values, positions, out, np.uint64(positions.size)),
    )
    return out


def tie_ranges(keys: Any, descending: bool) -> list[tuple[int, int]]:
    """Where sorted real floats hold keys of different bits that compare equal: the zeros, and the NaNs."""
    cupy = require_cupy()
    classes = cupy.asarray(np.array([0.0, np.nan], keys.dtype))
    left = search_sorted(keys, classes, "left", descending=descending)
    right = search_sorted(keys, classes, "right", descending=descending)
    bounds = cupy.stack([left, right], axis=1).get()
    return [(int(first), int(last)) for first, last in bounds if last > first]


def is_countable(key: DeviceKey) -> bool:
    """Whether the block that counts every code fits this device."""
    return key.itemsize <= COUNTED_BYTES and count_bytes(1 << 8 * key.itemsize, 1) <= shared_limit()


def count_sort(keys: Any, key: DeviceKey, out: Any, as_codes: bool = False) -> None:
    """Counting sort of 8- and 16-bit keys: one histogram, then every code as often as it was counted."""
    cupy = require_cupy()
    n, num_codes = keys.size, 1 << 8 * key.itemsize
    counts, wide = count_fine(f"Keys<{key.order}>", "TopBuckets<0>", 1, keys, n, None, num_codes)
    starts, cursors = cupy.empty((2, num_codes + 1), np.uint64)
    launch(
        "count.cu",
        "scan_fine",
        -(-num_codes // msd.SCAN_THREADS),
        msd.SCAN_THREADS,
        (counts, np.uint32(wide), np.uint32(num_codes), starts, cursors, None),
    )
    tile = tuning.FILL_THREADS * tuning.FILL_ROUNDS * 16 // key.itemsize
    order = device_key(key.code_dtype).order if as_codes else key.order
    launch(
        "fill.cu",
        f"fill_runs<{order}>",
        -(-n // tile),
        tuning.FILL_THREADS,
        (starts, np.uint32(num_codes), out, np.uint64(n)),
    )


def sort_codes(keys: Any, key: DeviceKey, out: Any, algorithm: str, as_codes: bool = False) -> None:
    """Sort keys by their one-to-one codes; those of one or two bytes have stable passes only ("lsd")."""
    n, elements, free = keys.size, plain_elements(key, as_codes), algorithm == "auto"
    small = free and lsd.is_small(key, n)
    in_block = not small and algorithm != "lsd" and not needs_spare(elements, n)
    spare = require_cupy().empty(0 if in_block else n, key.code_dtype)
    arrays = Arrays([spare, out], [None, None], out, None)
    passes = algorithm == "lsd" or (free and not in_block and lsd.prefers_passes(key, n))
    if small:
        lsd.sort_small(elements, keys, n, arrays)
    elif passes or not msd.sort(elements, keys, n, arrays, may_decline=free):
        lsd.sort(elements, keys, n, arrays)


def plain_elements(key: DeviceKey, as_codes: bool = False) -> Elements:
    """Keys alone, by their one-to-one codes; to codes in the place of keys if wanted."""
    code_type, order = CODE_TYPES[key.itemsize], device_key(key.code_dtype).order if as_codes else key.order
    narrow = None
    if key.itemsize == WIDE_BYTES and not key.has_ties:
        narrow = Elements(f"Narrowed<{key.order}>", f"Narrowed<{order}>", "u32")
    return Elements(f"Keys<{key.order}>", f"Keys<{order}>", code_type, scale=key.scale(code_type), narrow=narrow)


def needs_spare(elements: Elements, n: int) -> bool:
    """Whether a sort of n elements leaves shared memory."""
    return n > finish_shapes(elements)[-1].capacity


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
        codes = split_launch.Columns(encode(keys, descending))
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


def indexed_elements(key: DeviceKey, position_type: str) -> Elements:
    """Keys with their positions: one code up to 32 bits, two words beyond."""
    if key.itemsize < 8:
        name = f"Packed<{key.order}, {position_type}>"
        return Elements(name, name, "u64", scale=key.scale("u64", POSITION_BITS))
    elements = tied_elements(key, position_type, "u32")
    if key.has_ties:
        return elements
    name = f"PackedNarrowed<{key.order}, {position_type}>"
    return replace(elements, narrow=Elements(name, name, "u64"))


def tied_elements(key: DeviceKey, value_type: str, payload_type: str) -> Elements:
    """Keys by their canonical codes, with a value beside each."""
    name, code_type = f"TiedKeys<{key.order}, {value_type}>", CODE_TYPES[key.itemsize]
    return Elements(name, name, code_type, payload_type, key.scale(code_type))


def sort_indexed_passes(keys: Any, key: DeviceKey, position_type: str, positions_out: Any, keys_out: Any) -> None:
    """As `sort_indexed`, a byte of the keys a pass."""
    cupy = require_cupy()
    codes, payloads = list(cupy.empty((2, keys.size), key.code_dtype)), list(cupy.empty((2, keys.size), np.uint32))
    elements = tied_elements(key, position_type, "u32")
    lsd.sort(elements, keys, keys.size, Arrays(codes, payloads, keys_out, positions_out))


def sort_indexed(keys: Any, key: DeviceKey, position_type: str, positions_out: Any, keys_out: Any) -> None:
    """Stable sort by (key, position): the position is the low part of the code, or travels beside it.

    `positions_out` is int64 or uint32 as `position_type` says; tied floats come out of `keys_out` canonical.
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


def check_indexable(n: int) -> None:
    """Raise where positions would not fit 32 bits."""
    if n >= INDEX_LIMIT:
        raise ValueError(
            f"{n} keys are more than 2^32 - 1, the most that are sorted with positions in one chunk; rechunk."
        )


def argsort(keys: Any, *, descending: bool = False, out: Any = None, algorithm: str = "auto") -> Any:
    """Positions that sort the keys, stable.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        As for `sort_keys`; n below 2^32.
    descending : bool
        Largest first; equal keys still keep their input order.
    out : cupy.ndarray of int64, optional
        Receives the result.

    Returns
    -------
    cupy.ndarray, shape (n,), int64
    """
    check_array(keys, "keys")
    check_algorithm(algorithm)
    check_indexable(keys.size)
    key = device_key(keys.dtype, descending)
    out = prepare_out(out, keys.shape, np.int64)
    if keys.size == 0:
        return out
    if algorithm == "lsd":
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
    """Sort keys and move one value with each, stable.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        As for `argsort`.
    values : cupy.ndarray, shape (n, ...)
        Anything CuPy can index; 1-D values of 1, 2, 4 or 8 bytes are moved by a kernel of our own.

    Returns
    -------
    keys : cupy.ndarray, shape (n,)
    values : cupy.ndarray, shape (n, ...)
    """
    check_array(keys, "keys")
    check_algorithm(algorithm)
    check_indexable(keys.size)
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
    if algorithm == "auto" and takes_values(key, keys.size, values):
        sort_valued(keys, key, values, keys_out, values_out)
        return keys_out, values_out
    positions = order_with_positions(keys, descending, keys_out, algorithm)
    return keys_out, gather(values, positions, values_out)


def order_with_positions(keys: Any, descending: bool, keys_out: Any, algorithm: str) -> Any:
    """Stable sort into `keys_out`, tied keys with their own bits; the positions they came from, uint32."""
    key = device_key(keys.dtype, descending)
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


def sort_with_positions(keys: Any, *, descending: bool = False) -> tuple[Any, Any]:
    """Sort keys and tell where they came from, stable.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        As for `argsort`.
    descending : bool
        Largest first; equal keys still keep their input order.

    Returns
    -------
    keys : cupy.ndarray, shape (n,)
    positions : cupy.ndarray, shape (n,), uint32
    """
    cupy = require_cupy()
    check_array(keys, "keys")
    check_indexable(keys.size)
    keys_out = cupy.empty_like(keys)
    if keys.size == 0:
        return keys_out, cupy.empty(0, np.uint32)
    return keys_out, order_with_positions(keys, descending, keys_out, "auto")


def takes_values(key: DeviceKey, n: int, values: Any) -> bool:
    """Whether stable passes that move the values themselves take less time than to gather them by position."""
    movable = values.ndim == 1 and values.flags.c_contiguous and (key.itemsize, values.itemsize) in tuning.LSD
    return movable and key.itemsize == NARROW_BYTES and not key.has_ties and n >= tuning.LSD_PAIRS


def sort_valued(keys: Any, key: DeviceKey, values: Any, keys_out: Any, values_out: Any) -> None:
    """Stable sort of keys without ties of different bits, each with its value of 4 or 8 bytes."""
    cupy = require_cupy()
    value_type = CODE_TYPES[values.itemsize]
    codes = [cupy.empty(keys.size, key.code_dtype), keys_out]
    payloads = [cupy.empty(keys.size, f"u{values.itemsize}"), values_out]
    elements = tied_elements(key, value_type, value_type)
    lsd.sort(elements, keys, keys.size, Arrays(codes, payloads, keys_out, values_out), values)


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
