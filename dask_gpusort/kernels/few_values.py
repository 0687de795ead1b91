"""Counts of the values of keys that have few, and the number of each key's value, without a sort (``few.cu``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .keys.dtypes import device_key, wide_elements
from .launch.arrays import check_array, type_of_bytes
from .launch.launch import Launch, blocks_for, instance
from .launch.loader import cxx_constant, require_cupy
from .policy.limits import multiprocessors

SOURCE = "select/few.cu"
THREADS = cxx_constant(SOURCE, "kFewThreads")
BLOCKS = cxx_constant(SOURCE, "kFewBlocks")
TILE = cxx_constant(SOURCE, "kFewTile")
SLOTS = cxx_constant(SOURCE, "kFewSlots")
MOST_FEW = cxx_constant(SOURCE, "kMostFew")
#: Of 2^27 keys of 1,000 values, every second sample misses one value, whose keys are counted one by one.
SAMPLES = 1 << 13


@dataclass(frozen=True)
class FewCodes:
    """Hold the codes of the values of some keys, and how often each occurs, on the host."""

    codes: npt.NDArray[Any]  # ascending; keys that are equal may have several
    counts: npt.NDArray[np.int64]
    _slots: npt.NDArray[np.intp]  # of the codes, in the table
    _table: Any  # on the device, as the keys
    _keys: Any

    def numbers(self, dtype: Any) -> Any:
        """Give the number of each key's code, as unsigned integers of a dtype, or int64."""
        cupy, keys = require_cupy(), self._keys
        found = cupy.empty(keys.shape, dtype)
        # A search for the greatest code of all, if there is one, ends at an empty slot.
        numbers = np.full(SLOTS + 1, len(self._slots) - 1)
        numbers[self._slots] = np.arange(len(self._slots))
        name = instance("number_few", _source(keys), type_of_bytes(found.itemsize))
        arguments = keys, np.uint64(keys.size), self._table, cupy.asarray(numbers.astype(np.uint32)), found
        Launch(SOURCE, name, _blocks(keys.size, THREADS), THREADS, arguments).run()
        return found


def count_few(keys: Any) -> FewCodes | None:
    """Count the codes of some keys; None if there are more than `MOST_FEW`. Waits for the device."""
    check_array(keys, "keys")
    table = require_cupy().zeros(2 * SLOTS + 3, np.uint64)
    arguments = keys, np.uint64(keys.size), np.uint32(min(keys.size, SAMPLES)), table
    Launch(SOURCE, instance("count_few", _source(keys)), _blocks(keys.size, TILE), THREADS, arguments).run()
    found = table.get()
    if found[-1] > MOST_FEW:
        return None
    words, counts = found[:-1].reshape(2, SLOTS + 1)
    slots = np.flatnonzero(counts)
    codes = (~words[slots]).astype(device_key(keys.dtype).code_dtype)
    order = np.argsort(codes)
    return FewCodes(codes[order], counts[slots[order]].astype(np.int64), slots[order], table, keys)


def _source(keys: Any) -> str:
    return wide_elements(device_key(keys.dtype)).source


def _blocks(n: int, per_block: int) -> int:
    return min(blocks_for(n, per_block), BLOCKS * multiprocessors())
