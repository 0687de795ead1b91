"""How a NumPy dtype is named on the device: its raw unsigned type, its kind of order, and its code.

The transform itself is `order.cuh`, which equals `dask_gpusort.keys` bit by bit.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

FLOAT_BYTES = 4  # narrower ones have so few codes that every one may be a bucket
RAW_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
KINDS = {"b": "kBool", "u": "kUnsigned", "i": "kSigned", "f": "kFloat", "m": "kTime", "M": "kTime", "c": "kComplex"}


@dataclass(frozen=True)
class DeviceKey:
    """A key dtype as the kernels see it.

    Attributes
    ----------
    itemsize : int
        Bytes of a key, and of its code.
    order : str
        The C++ type `KeyOrder<...>`.
    has_ties : bool
        Whether keys of different bits can compare equal (signed zeros, NaNs).
    floats : str
        C++ arguments of the order of floats of 32 or 64 bits; empty of other keys.
    """

    itemsize: int
    order: str
    has_ties: bool
    floats: str = ""

    @property
    def code_dtype(self) -> Any:
        """Unsigned dtype of the codes."""
        return np.dtype(f"u{self.itemsize}")

    def domain(self, code_type: str, drop_bits: int = 0) -> str:
        """C++ name of where codes stand whose bits from `drop_bits` on are these keys' (see domain.cuh)."""
        return f"ValueDomain<{code_type}, {self.floats}, {drop_bits}>" if self.floats else f"CodeDomain<{code_type}>"


@functools.cache
def device_key(dtype: Any, descending: bool = False) -> DeviceKey:
    """How keys of `dtype` are sorted on the device.

    Raises
    ------
    TypeError
        The dtype is not sorted by radix kernels.
    """
    dtype = np.dtype(dtype)
    supported = dtype.kind in KINDS and dtype.isnative and (dtype.kind != "c" or dtype.itemsize == 8)
    if not supported or dtype.itemsize not in RAW_TYPES:
        raise TypeError(
            f"The radix kernels do not sort {dtype}; they sort native bool, integers, float16/32/64, datetime64, "
            "timedelta64 and complex64. Convert the keys, or use the comparison path."
        )
    raw, kind = RAW_TYPES[dtype.itemsize], KINDS[dtype.kind]
    reverse = str(bool(descending)).lower()
    floats = f"{raw}, {reverse}" if dtype.kind == "f" and dtype.itemsize >= FLOAT_BYTES else ""
    return DeviceKey(dtype.itemsize, f"KeyOrder<{raw}, Kind::{kind}, {reverse}>", dtype.kind in "fc", floats)
