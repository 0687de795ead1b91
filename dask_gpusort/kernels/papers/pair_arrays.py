"""What the launches of the papers' sorts share: names of template instances, and columns to sort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..launch.loader import require_cupy

#: A one-dimensional, contiguous array in the device's memory.
Array: TypeAlias = Any

#: Threads of one block: the papers' 256, which divides what every multiprocessor since sm_75 holds.
THREADS = 256
#: Keys one thread sorts in registers: the papers' 4.
KEYS_PER_THREAD = 4
#: Narrow keys take more, so that a thread loads 16 bytes: with digits of 4 bits the offset table of `four_step` then
#: takes at most 1/32 of the keys' bytes.
BYTES_PER_THREAD = 16

#: Unsigned codes of keys, and values that travel in registers, by what the kernels call them.
CXX_NAMES = {
    np.dtype(np.uint8): "unsigned char",
    np.dtype(np.uint16): "unsigned short",
    np.dtype(np.uint32): "unsigned int",
    np.dtype(np.uint64): "unsigned long long",
}
NO_VALUE = "NoValue"


@dataclass(frozen=True)
class Columns:
    """Keys, and the values that travel with them.

    Parameters
    ----------
    keys : array, shape (n,), of uint8, uint16, uint32 or uint64
    values : array, shape (n,), or None
        Of the dtypes of the keys; any dtype of the same width can be viewed as one. None on the input side of a sort
        whose output has values stands for the positions of the keys.
    """

    keys: Array
    values: Array | None = None

    @property
    def key_name(self) -> str:
        """C++ type of the keys."""
        return cxx_name(self.keys.dtype)

    @property
    def value_name(self) -> str:
        """C++ type of the values."""
        return NO_VALUE if self.values is None else cxx_name(self.values.dtype)

    @property
    def key_bits(self) -> int:
        """Bits of one key."""
        return 8 * int(self.keys.dtype.itemsize)

    def empty_like(self) -> Columns:
        """Allocate columns of the same shape and dtypes, with any content."""
        cupy, n = require_cupy(), self.keys.size
        values = None if self.values is None else cupy.empty(n, self.values.dtype)
        return Columns(cupy.empty(n, self.keys.dtype), values)


def cxx_name(dtype: np.dtype[Any]) -> str:
    """Name an unsigned dtype as the kernels do.

    Raises
    ------
    TypeError
        If the dtype is none that the kernels move.
    """
    try:
        return CXX_NAMES[np.dtype(dtype)]
    except KeyError:
        raise TypeError(
            f"the kernels sort unsigned codes and move unsigned values of 8 to 64 bits, got {dtype}: "
            "encode keys first, view values as unsigned integers of their width"
        ) from None


def check_columns(source: Columns, out: Columns) -> None:
    """Check that a sort can read `source` and write `out`.

    Raises
    ------
    ValueError
        If lengths or dtypes differ, or if there are values to read and nowhere to write them.
    """
    if source.keys.dtype != out.keys.dtype or source.keys.shape != out.keys.shape:
        raise ValueError(
            f"keys out ({out.keys.dtype}, shape {out.keys.shape}) must be like "
            f"keys in ({source.keys.dtype}, shape {source.keys.shape})"
        )
    if out.values is not None and out.values.shape != out.keys.shape:
        raise ValueError(f"values out of shape {out.values.shape} must be as many as the {out.keys.size} keys")
    if source.values is not None and (
        out.values is None or source.values.dtype != out.values.dtype or source.values.shape != out.values.shape
    ):
        raise ValueError("values in need values out of the same dtype and shape: pass both, or none in")


def keys_per_thread(key_bytes: int) -> int:
    """Keys that one thread of a tile takes."""
    return max(KEYS_PER_THREAD, BYTES_PER_THREAD // key_bytes)
