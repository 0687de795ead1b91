"""Element-wise launches (``transform.cu``), one thread per element: encode, decode, gather, search by rank, draw.

Sorted needles are ranked by tiles (``transform.cu``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..launch.arrays import INDEX_LIMIT, check_array, check_side, is_movable, prepare_out, type_of_bytes
from ..launch.launch import Launch, Readback, blocks_for, instance, side_by_side
from ..launch.loader import cxx_constant, require_cupy
from .dtypes import Elements, device_key

SOURCE = "keys/transform.cu"
THREADS = 256  # the launch bound of the kernels that have one
NEEDLE_THREADS = cxx_constant(SOURCE, "kNeedleThreads")
NEEDLE_TILE = NEEDLE_THREADS * cxx_constant(SOURCE, "kNeedlesPerThread")
RANK_THREADS = cxx_constant(SOURCE, "kRankThreads")
LOOK_THREADS, LOOK_TILE = (cxx_constant(SOURCE, name) for name in ("kLookThreads", "kLookTile"))
THREADS_PER_SAMPLE = cxx_constant(SOURCE, "kThreadsPerSample")
PHILOX_OUTPUTS = cxx_constant(SOURCE, "kPhiloxOutputs")


def launch_per_element(kernel: str, n: int, arguments: tuple[Any, ...]) -> None:
    """Launch a kernel with one thread for each of `n` elements."""
    Launch(SOURCE, kernel, blocks_for(n, THREADS), THREADS, arguments).run()


def encode(keys: Any, descending: bool = False, *, out: Any = None) -> Any:
    """Encode keys of a radix dtype as unsigned codes, one to one; `out` may share their memory."""
    # These are the normalized keys of Graefe, Implementing Sorting in Database Systems, ACM Computing Surveys 38, 2006;
    # NaN and NaT stay last.
    check_array(keys, "keys")
    key = device_key(keys.dtype, descending)
    codes = prepare_out(out, keys.shape, key.code_dtype)
    launch_per_element(instance("encode_keys", key.order), keys.size, (keys, codes, np.uint64(keys.size)))
    return codes


def decode(codes: Any, dtype: Any, descending: bool = False, *, out: Any = None) -> Any:
    """Decode codes to keys of a dtype: the inverse of `encode`; `out` may share the memory of the codes."""
    check_array(codes, "codes")
    key = device_key(dtype, descending)
    if codes.dtype != key.code_dtype:
        raise ValueError(f"`codes` are {codes.dtype}; the codes of {np.dtype(dtype)} are {key.code_dtype}.")
    keys = prepare_out(out, codes.shape, np.dtype(dtype))
    launch_per_element(instance("decode_codes", key.order), codes.size, (codes, keys, np.uint64(codes.size)))
    return keys


def floor_codes(codes: Any, dtype: Any, descending: bool = False) -> Any:
    """Replace each code, in place, by the least code of the keys that NumPy calls equal (signed zeros, NaNs)."""
    check_array(codes, "codes")
    key = device_key(dtype, descending)
    if key.has_ties:
        launch_per_element(instance("floor_codes", key.order), codes.size, (codes, np.uint64(codes.size)))
    return codes


def random_keys(start: int, count: int, seed: int) -> Any:
    """Give outputs of `numpy.random.Philox`, of 64 bits, from number `start` on."""
    key = np.random.Philox(np.random.SeedSequence(seed)).state["state"]["key"]
    keys = require_cupy().empty(count, np.uint64)
    counters = blocks_for(start + count, PHILOX_OUTPUTS) - start // PHILOX_OUTPUTS
    launch_per_element(instance("draw_outputs", "u64"), counters, (*key, np.uint64(start), np.uint64(count), keys))
    return keys


def search_sorted(keys: Any, needles: Any, side: str = "left", *, descending: bool = False) -> Any:
    """Rank needles among keys sorted by `sort_keys`, as `numpy.searchsorted`, in the order of the sort."""
    check_array(keys, "keys")
    check_array(needles, "needles")
    if keys.dtype != needles.dtype:
        raise ValueError(f"`needles` are {needles.dtype} and `keys` {keys.dtype}; give one dtype.")
    return search_ranks(SOURCE, "search_sorted", (device_key(keys.dtype, descending).order,), keys, needles, side)


def rank_sorted_needles(keys: Any, needles: Any, side: str = "left") -> Any:
    """Rank needles as `search_sorted` does that are sorted like the keys, ascending."""
    # Ranks are uint32, or int64 if there are 2**32 keys or more.
    check_array(keys, "keys")
    check_array(needles, "needles")
    check_side(side)
    if keys.dtype != needles.dtype:
        raise ValueError(f"`needles` are {needles.dtype} and `keys` {keys.dtype}; give one dtype.")
    n, count = keys.size, needles.size
    ranks = require_cupy().empty(count, np.uint32 if n < INDEX_LIMIT else np.int64)
    name = instance("rank_sorted_needles", device_key(keys.dtype).order, side == "right", type_of_bytes(ranks.itemsize))
    arguments = (keys, np.uint64(n), needles, np.uint64(count), ranks)
    Launch(SOURCE, name, blocks_for(count, NEEDLE_TILE), NEEDLE_THREADS, arguments).run()
    return ranks


def value_type(values: Any) -> str | None:
    """Name the C++ type that holds one value (a row, in several dimensions); `None` if no single access moves it."""
    width = values.itemsize * math.prod(values.shape[1:])
    if not is_movable(width) or not values.flags.c_contiguous or values.data.ptr % width:
        return None
    return type_of_bytes(width)


def gather(values: Any, positions: Any, out: Any = None) -> Any:
    """Gather `values[positions]` for values of any width; `out` may share the memory of `values`."""
    out = require_cupy().empty((positions.size, *values.shape[1:]), values.dtype) if out is None else out
    if out.data.ptr == values.data.ptr:
        values = values.copy()
    type_in, type_out = value_type(values), value_type(out)
    if type_in is None or type_in != type_out:
        out[...] = values[positions]
    else:
        run_gather(type_in, values, positions, out)
    return out


def run_gather(type_name: str, values: Any, positions: Any, out: Any, ahead: int = 0) -> None:
    """`gather` for values that one access moves; prefetches the values `ahead` of the output position (0: none)."""
    n = positions.size
    name = instance("gather", type_name, type_of_bytes(positions.itemsize))
    launch_per_element(name, n, (values, positions, out, np.uint64(n), np.uint64(ahead)))


def gather_in_range(values: Any, indices: Any, out: Any) -> bool:
    """Gather ``values[indices]`` of rows that one memory access moves, and tell whether all indices are in range."""
    # Elements of other indices are undefined; the host waits for the device.
    n, wrong = indices.size, require_cupy().zeros(1, np.uint32)
    arguments = (values, np.uint64(len(values)), indices, out, np.uint64(n), wrong)
    launch_per_element(instance("gather_in_range", value_type(values) or ""), n, arguments)
    return not int(wrong[0])


def scatter(values: Any, positions: Any, out: Any) -> None:
    """Set ``out[positions] = values``, for values that one memory access moves, and positions that differ."""
    n = positions.size
    name = instance("scatter", type_of_bytes(values.itemsize), type_of_bytes(positions.itemsize))
    launch_per_element(name, n, (values, positions, out, np.uint64(n)))


def store_in_order(
    elements: Elements, inputs: tuple[Any, Any], outputs: tuple[Any, Any], n: int, stored: Elements | None = None
) -> bool:
    """Store n elements as they are, or turned if their keys descend; False, with nothing written, if neither sorts.

    `stored` are the same elements as they are stored, if those that are compared lose bits.
    """
    (keys, values), (keys_out, positions_out), stored = inputs, outputs, stored or elements
    found = require_cupy().zeros(2, np.uint32)
    name = instance("find_steps", elements.source, elements.payload_type)
    Launch(SOURCE, name, blocks_for(n, LOOK_TILE), LOOK_THREADS, (keys, np.uint64(n), found)).run()
    falls, rises = Readback(found).wait()
    is_there = keys_out is not None and positions_out is None and keys.data.ptr == keys_out.data.ptr
    if not (falls and rises) and (falls or not is_there):
        name = instance("store_in_order", stored.source, stored.sink, stored.payload_type)
        arguments = keys, values, *outputs, np.uint64(n), np.uint32(falls)
        launch_per_element(name, blocks_for(n, 2), arguments)
    return not (falls and rises)


def tie_ranges(keys: Any, descending: bool) -> list[tuple[int, int]]:
    """Find the ranges of sorted real floats whose keys differ in bits but compare equal: the zeros and the NaNs."""
    cupy = require_cupy()
    classes = cupy.asarray(np.array([0.0, np.nan], keys.dtype))
    with side_by_side:
        left = search_sorted(keys, classes, "left", descending=descending)
        right = search_sorted(keys, classes, "right", descending=descending)
    bounds = zip(left.get().tolist(), right.get().tolist(), strict=True)
    return [(first, last) for first, last in bounds if last > first]


def search_ranks(
    source: str,
    kernel: str,
    types: Sequence[str],
    keys: Any,
    needles: Any,
    side: str,
    *,
    expression: str | None = None,
) -> Any:
    """Rank needles, shape (k,) or (k, width), among sorted keys, as `numpy.searchsorted`, into int64."""
    # `types` are template arguments of the kernel, without the last one, which is true for the right side. The kernel's
    # parameters are the keys, the length of each of their dimensions, the needles, the ranks, and the number of
    # needles.
    check_side(side)
    ranks = require_cupy().empty(len(needles), np.int64)
    lengths = tuple(np.uint64(length) for length in keys.shape)
    Launch(
        source,
        instance(kernel, *types, side == "right"),
        blocks_for(len(needles), THREADS),
        THREADS,
        (keys, *lengths, needles, ranks, np.uint64(len(needles))),
        expression=expression,
    ).run()
    return ranks


def rank_samples(
    codes: Any, distance: int, *, ties_of: Any = None, descending: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read keys of sorted codes, and count the keys less than each and at most each, in one launch and one copy.

    They are every `distance`-th one and the last, which may be taken twice; all three arrays are on the host.
    """
    # With `ties_of`, keys that NumPy calls equal (signed zeros, NaNs) count as equal, and the least code of them stands
    # for each; `descending` says whether its codes are those of a descending sort. This is section 5.2 of Satish,
    # Harris, Garland, IPDPS 2009.
    check_array(codes, "codes")
    key = device_key(codes.dtype if ties_of is None else ties_of, descending and ties_of is not None)
    if codes.dtype != key.code_dtype:
        raise ValueError(f"`codes` are {codes.dtype}; give those of the sort, {key.code_dtype}.")
    count = blocks_for(codes.size, distance) + 1 if codes.size else 0
    summary = require_cupy().empty((3, count), np.uint64)
    arguments = (codes, np.uint64(codes.size), np.uint64(distance), summary, np.uint64(count))
    blocks = blocks_for(count * THREADS_PER_SAMPLE, RANK_THREADS)
    Launch(SOURCE, instance("find_equal_ranges", key.order), blocks, RANK_THREADS, arguments).run()
    least, less, at_most = summary.get()
    return least.astype(codes.dtype), less.view(np.int64), at_most.view(np.int64)
