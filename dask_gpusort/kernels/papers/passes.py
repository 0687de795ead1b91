"""The loop of passes that the papers' radix sorts share, and the arrays that they sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..keys.transform import decode, encode
from ..launch.arrays import NO_VALUE, type_of_bytes
from ..launch.loader import require_cupy

#: A one-dimensional, contiguous array in device memory.
Array: TypeAlias = Any

#: Threads of a block: the papers' 256, which divides the threads of every multiprocessor since sm_75.
THREADS = 256
#: Keys that one thread sorts in registers: the papers' 4.
KEYS_PER_THREAD = 4
#: A thread loads 16 bytes, so that it takes more narrow keys: with digits of 4 bits, the table of `four_step` then has
#: at most 1/32 of the keys' bytes.
BYTES_PER_THREAD = 16

#: Codes of keys, and values that travel in registers.
DTYPES = tuple(np.dtype(f"u{size}") for size in (1, 2, 4, 8))


@dataclass(frozen=True)
class KeyValueArrays:
    """Hold unsigned keys, and values of one of their dtypes that travel with them."""

    # View values of other dtypes as unsigned integers of their width. A sort whose output has values and whose input
    # has none sorts the keys' positions along.

    keys: Array
    values: Array | None = None

    @property
    def key_type(self) -> str:
        """C++ type of the keys."""
        return cxx_type(self.keys.dtype)

    @property
    def value_type(self) -> str:
        """C++ type of the values."""
        return NO_VALUE if self.values is None else cxx_type(self.values.dtype)

    @property
    def key_bytes(self) -> int:
        """Bytes of one key."""
        return int(self.keys.dtype.itemsize)

    def empty_like(self) -> KeyValueArrays:
        """Allocate arrays of the same shape and dtypes, with any content."""
        cupy, n = require_cupy(), self.keys.size
        values = None if self.values is None else cupy.empty(n, self.values.dtype)
        return KeyValueArrays(cupy.empty(n, self.keys.dtype), values)


class RadixPass(Protocol):
    """Describe one pass of a radix sort: kernels, their grid and their memory."""

    @property
    def radix_bits(self) -> int: ...

    @property
    def targets(self) -> Sequence[KeyValueArrays]: ...

    def run(self, source: KeyValueArrays, target: KeyValueArrays, shift: np.int32) -> None:
        """Sort by the digit at bit `shift`, stably, from `source` to `target`."""


def sort_by_passes(source: KeyValueArrays, out: KeyValueArrays, prepare: Callable[[KeyValueArrays], RadixPass]) -> None:
    """Sort unsigned keys, stably, with their values: one pass per digit, least significant first."""
    # `source` is only read, and shares no memory with `out`, or is `out`; `prepare` makes the pass for these outputs.
    check_fit(source, out)
    if out.keys.size == 0:
        return
    radix_pass = prepare(out)
    for number, first_bit in enumerate(range(0, 8 * out.key_bytes, radix_pass.radix_bits)):
        target = radix_pass.targets[number % len(radix_pass.targets)]
        radix_pass.run(source, target, np.int32(first_bit))
        source = target


def sort_keys(sort: Callable[[KeyValueArrays, KeyValueArrays], None], keys: Array, out: Array) -> None:
    """Sort keys of any radix dtype by a sort of their codes, into `out`, which may be `keys`."""
    codes = KeyValueArrays(encode(keys))
    sort(codes, codes)
    decode(codes.keys, keys.dtype, out=out)


def cxx_type(dtype: np.dtype[Any]) -> str:
    """Name an unsigned dtype as the kernels do."""
    if np.dtype(dtype) not in DTYPES:
        raise TypeError(
            f"the kernels sort unsigned codes and move unsigned values of 8 to 64 bits, got {dtype}: "
            "encode keys first, view values as unsigned integers of their width"
        )
    return type_of_bytes(dtype.itemsize)


def check_fit(source: KeyValueArrays, out: KeyValueArrays) -> None:
    """Check that a sort can read `source` and write `out`."""
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
    """Keys of a tile that one thread takes."""
    return max(KEYS_PER_THREAD, BYTES_PER_THREAD // key_bytes)
