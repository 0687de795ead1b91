"""Tie groups of sorted keys (``ties.cu``): one bit for each key, and counts of the bits before each word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import device_key, first_nan_code
from ..keys.transform import value_type
from ..launch.array_checks import check_array
from ..launch.cxx_types import type_of_bytes
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..primitives.scan import exclusive_scan

SOURCE = "ties/ties.cu"
THREADS = cxx_constant(SOURCE, "kTieThreads")
TILE = cxx_constant(SOURCE, "kTieTile")
WORD_BITS = cxx_constant(SOURCE, "kWordBits")
#: C++ names of the ways to rank ties.
RANKINGS = {method: f"Ranking::k{method.capitalize()}" for method in ("average", "min", "max", "dense")}
#: Twice the rank of a key has 32 bits.
MOST_RANKED = 1 << 31


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
    """Find the tie groups of sorted keys, in ascending rows of `length` keys, or in one (Jacobson, FOCS 1989).

    With `equal_nan`, all NaN, and NaT, are one group; else each is one.
    """
    check_array(keys, "keys")
    n, first_nan = keys.size, first_nan_code(keys.dtype)
    bits = require_cupy().empty(blocks_for(n, WORD_BITS), np.uint32)
    nans = np.uint64(first_nan or 0), np.int32(first_nan is not None), np.int32(not equal_nan)
    arguments = (keys, np.uint64(n), np.uint64(n if length is None else length), *nans, bits)
    name = instance("mark_first_keys", device_key(keys.dtype).order)
    Launch(SOURCE, name, blocks_for(n, TILE), THREADS, arguments).run()
    return _counted(bits, n)


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
