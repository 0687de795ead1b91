"""Tie groups of sorted keys, one bit a key, and writes to the positions of a permutation (``ties.cu``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..keys.dtypes import device_key, first_nan_code
from ..keys.transform import value_type
from ..launch.arrays import check_array, type_of_bytes
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.limits import fit
from ..primitives.scan import exclusive_scan

SOURCE = "ties/ties.cu"
THREADS = cxx_constant(SOURCE, "kTieThreads")
TILE = cxx_constant(SOURCE, "kTieTile")
WORD_BITS = cxx_constant(SOURCE, "kWordBits")
#: C++ names of the ways to rank ties.
RANKINGS = {method: f"Ranking::k{method.capitalize()}" for method in ("average", "min", "max", "dense")}
#: The same for keys of sorted rows.
ROW_RANKINGS = {"average": "kAverage", "min": "kMin", "max": "kMax", "ordinal": "kOrdinal"}
#: Twice the rank of a key has 32 bits.
MOST_RANKED = 1 << 31
SCATTER_THREADS = 256
#: C++ types of the elements of the output.
ELEMENTS = {"u4": "u32", "i8": "long long", "f8": "double"}
PAIR_BYTES = 8


@dataclass(frozen=True)
class TieBits:
    """Hold the tie groups of sorted keys."""

    bits: Any  # uint32, shape (words,): whether each key is the first of its group, the first key in the lowest bit
    offsets: Any  # uint64, shape (words + 1,): groups that begin in earlier words; the last element counts all groups
    size: int  # keys

    def count(self) -> int:
        """Count the groups; waits for the device."""
        return int(self.offsets[-1])

    def starts(self, count: int) -> Any:
        """Position of the first key of each of the `count` groups, then the number of keys: int64, (count + 1,)."""
        found = require_cupy().zeros(count + 1, np.int64)
        self._launch(instance("list_starts", "long long"), found)
        return found

    def take_firsts(self, values: Any, count: int) -> Any:
        """Give the values at the first keys of the `count` groups, for values that one memory access moves."""
        found = require_cupy().empty(count, values.dtype)
        self._launch(instance("take_firsts", value_type(values) or ""), values, found)
        return found

    def numbers(self, dtype: Any) -> Any:
        """Give the number of each key's group, as unsigned integers of a dtype, or int64."""
        found = require_cupy().empty(self.size, dtype)
        self._launch(instance("number_keys", type_of_bytes(found.itemsize)), found)
        return found

    def ranks(self, starts: Any, method: str, length: int) -> Any:
        """Ranks of keys in rows of some length, by a method of `RANKINGS`: uint32, twice the rank for "average"."""
        found = require_cupy().empty(self.size, np.uint32)
        name = instance("rank_keys", RANKINGS[method])
        arguments = (self.bits, self.offsets, starts, np.uint64(self.size), np.uint64(length), found)
        Launch(SOURCE, name, blocks_for(self.size, TILE), THREADS, arguments).run()
        return found

    def _launch(self, kernel: str, *arrays: Any) -> None:
        """Launch a kernel with one thread for each key."""
        arguments = (self.bits, self.offsets, np.uint64(self.size), *arrays)
        Launch(SOURCE, kernel, blocks_for(self.size, TILE), THREADS, arguments).run()


def mark_ties(keys: Any, *, equal_nan: bool = True, length: int | None = None) -> TieBits:
    """Find the tie groups of sorted keys, in rows of `length` keys, or in one (Jacobson, FOCS 1989)."""
    # With `equal_nan`, all NaN, and NaT, are one group; else each is one.
    check_array(keys, "keys")
    n, first_nan = keys.size, first_nan_code(keys.dtype)
    bits = require_cupy().empty(blocks_for(n, WORD_BITS), np.uint32)
    nans = np.uint64(first_nan or 0), np.int32(first_nan is not None), np.int32(not equal_nan)
    arguments = (keys, np.uint64(n), np.uint64(n if length is None else length), *nans, bits)
    name = instance("mark_first_keys", device_key(keys.dtype).order)
    Launch(SOURCE, name, blocks_for(n, TILE), THREADS, arguments).run()
    return _counted(bits, n)


def rank_rows(keys: Any, positions: Any, method: str, out: Any) -> None:
    """Ranks of keys in the sorted rows of a matrix, by a method of `ROW_RANKINGS`, at their positions in the row.

    Positions are uint32, and may count from the start of a row before.
    """
    first_nan, element = first_nan_code(keys.dtype), ELEMENTS[out.dtype.str[1:]]
    nans = np.uint64(first_nan or 0), np.int32(first_nan is not None)
    name = instance("rank_rows", device_key(keys.dtype).order, f"Ranking::{ROW_RANKINGS[method]}", element)
    arguments = (keys, positions, np.uint64(keys.size), np.uint32(keys.shape[1]), *nans, out)
    Launch(SOURCE, name, blocks_for(keys.size, TILE), THREADS, arguments).run()


def pack_ties(flags: Any) -> TieBits:
    """Pack the tie groups of sorted keys, from one bool for each key: whether it is the first of its group."""
    bits = require_cupy().empty(blocks_for(flags.size, WORD_BITS), np.uint32)
    name = instance("pack_flags", "bool")
    Launch(SOURCE, name, blocks_for(flags.size, TILE), THREADS, (flags, np.uint64(flags.size), bits)).run()
    return _counted(bits, flags.size)


def _counted(bits: Any, n: int) -> TieBits:
    words = bits.size
    offsets = require_cupy().empty(words + 1, np.uint64)
    name = instance("count_bits", THREADS)
    Launch(SOURCE, name, blocks_for(words + 1, THREADS), THREADS, (bits, np.uint64(words), offsets)).run()
    exclusive_scan(offsets)
    return TieBits(bits, offsets, n)


def scatter_numbers(numbers: Any, positions: Any, out: Any, factor: float = 1, first: int = 0) -> None:
    """Set ``out[positions] = numbers * factor``, for positions that are a permutation; None counts from `first`."""
    # The output shares no memory with the inputs; `factor` is for floats.
    n, element = positions.size, ELEMENTS[out.dtype.str[1:]]
    shape = tuning.SCATTER
    bits = max(n - 1, 0).bit_length() - shape.bucket_bits
    if n < shape.least or bits < 1:
        arguments = (positions, numbers, np.uint32(first), out, np.uint64(n), np.float64(factor))
        name, blocks = instance("write_at_positions", element), blocks_for(n, SCATTER_THREADS)
        Launch(SOURCE, name, blocks, SCATTER_THREADS, arguments).run()
        return
    pairs = partition_pairs(numbers, first, positions, out, bits)
    name = instance("write_buckets", shape.threads, shape.bucket_bits, element)
    buckets = blocks_for(n, 1 << shape.bucket_bits)
    Launch(SOURCE, name, buckets, shape.threads, (pairs, out, np.uint64(n), np.float64(factor))).run()


def partition_pairs(numbers: Any, first: int, positions: Any, out: Any, bits: int) -> Any:
    """Pairs of positions and numbers, partitioned by so many leading bits of the positions, in one pass or two."""
    cupy, shape, n = require_cupy(), tuning.SCATTER, np.uint64(positions.size)
    first_bits = bits if 1 << bits <= shape.radix else (bits + 1) // 2
    shape = replace(shape, radix=max(shape.radix, 1 << first_bits))
    shape = fit(shape, lambda shape: shape.shared_bytes, by_halves=True)
    shift, last_shift = shape.bucket_bits + bits - first_bits, shape.bucket_bits

    def launch(kernel: str, bucket_bits: int, *arguments: Any) -> None:
        name = instance(kernel, shape.threads, shape.items, shape.radix)
        cursors = cupy.zeros(blocks_for(positions.size, 1 << bucket_bits), np.uint32)
        tiles = blocks_for(positions.size, shape.tile)
        scalars = (n, np.int32(bucket_bits), np.int32(shift))
        Launch(SOURCE, name, tiles, shape.threads, (*arguments, cursors, *scalars), shape.shared_bytes).run()

    # The output's own memory holds the pairs between two passes, if they fit.
    in_out = shift > last_shift and out.itemsize == PAIR_BYTES
    pairs = out.view(np.uint64) if in_out else cupy.empty(positions.size, np.uint64)
    launch("partition_positions", shift, positions, numbers, np.uint32(first), pairs)
    if shift == last_shift:
        return pairs
    found = cupy.empty(positions.size, np.uint64)
    launch("partition_pairs", last_shift, pairs, found)
    return found
