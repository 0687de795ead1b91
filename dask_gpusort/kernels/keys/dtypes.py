"""Key dtypes on the device, comparisons by a user's expression, and the elements that a sort moves: their C++ types.

``order.cuh`` holds the codes, which are those of `dask_gpusort.keys` bit by bit, and ``elements.cuh`` the rest.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...keys import encode
from ..launch.arrays import NO_VALUE, bytes_of_type, number_type, type_of_bytes
from ..launch.loader import cxx_constant

FLOAT_BYTES = 4  # narrower floats have so few codes that each code can be a bucket
CODE_BYTES = (1, 2, 4, 8)
KINDS = {"b": "kBool", "u": "kUnsigned", "i": "kSigned", "f": "kFloat", "m": "kTime", "M": "kTime", "c": "kComplex"}
#: C++ type whose ``less(a, b)`` compares two keys by the expression.
USER_LESS = "UserLess"
WIDE_CODE = 8  # bytes: no position can be packed into a word beside such a code
NARROW_BITS = 32
FEWEST_CODE_BYTES = 4  # where codes of 8 and 16 bits are widened: the kernels are compiled for two widths
POSITION_BITS = cxx_constant("keys/elements.cuh", "kPositionBits")


@dataclass(frozen=True)
class DeviceKey:
    """Name the C++ types of a key dtype."""

    itemsize: int  # bytes of a key, and of its code
    order: str  # the type ``KeyOrder<...>``, which encodes and decodes keys
    has_ties: bool  # whether keys of different bits can compare equal (signed zeros, NaNs)
    floats: str = ""  # template arguments of ``FloatOrder`` for floats of 32 or 64 bits; empty for other keys

    @property
    def code_dtype(self) -> Any:
        """NumPy dtype of the codes, unsigned."""
        return np.dtype(f"u{self.itemsize}")

    def domain(self, code_type: str, drop_bits: int = 0) -> str:
        """Name the domain in which digits of these codes are cut (``splitter_map.cuh``)."""
        # `drop_bits` are low bits of a code that hold no part of the key, such as a position.
        return f"ValueDomain<{code_type}, {self.floats}, {drop_bits}>" if self.floats else f"CodeDomain<{code_type}>"


@functools.cache
def device_key(dtype: Any, descending: bool = False) -> DeviceKey:
    """Describe keys of a dtype to the kernels, or refuse it; NaN and NaT stay last when descending."""
    dtype = np.dtype(dtype)
    supported = dtype.kind in KINDS and dtype.isnative and (dtype.kind != "c" or dtype.itemsize == 8)
    if not supported or dtype.itemsize not in CODE_BYTES:
        raise TypeError(
            f"The radix kernels do not sort {dtype}; they sort native bool, integers, float16/32/64, datetime64, "
            "timedelta64 and complex64. Convert the keys, or use the comparison path."
        )
    raw, kind = type_of_bytes(dtype.itemsize), KINDS[dtype.kind]
    reverse = str(bool(descending)).lower()
    floats = f"{raw}, {reverse}" if dtype.kind == "f" and dtype.itemsize >= FLOAT_BYTES else ""
    return DeviceKey(dtype.itemsize, f"KeyOrder<{raw}, Kind::{kind}, {reverse}>", dtype.kind in "fc", floats)


@functools.cache
def first_nan_code(dtype: Any) -> int | None:
    """Give the least code of NaN or NaT, in ascending order; None for dtypes without them."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fcmM":
        return None
    greatest = {"f": np.inf, "c": complex(np.inf, np.inf)}.get(dtype.kind, np.iinfo(np.int64).max)
    return int(encode(np.array([greatest]).astype(dtype))[0]) + 1


@dataclass(frozen=True)
class Comparison:
    """Compare keys of one C++ type by an expression of the user, which the sources call as ``UserLess``."""

    code: str  # type of the keys
    code_bytes: int  # of a key
    expression: str

    def plain(self, position: str = "u32") -> str:
        """C++ type that loads and stores keys, and stores positions of a type."""
        return f"Plain<{self.code}, {position}>"


def by_expression(dtype: Any, less: str) -> Comparison:
    """Compare keys by the user's CUDA C++ expression in ``a`` and ``b``, true where ``a`` comes first."""
    # It is refused if it is no text, or if the dtype has no C++ type.
    dtype = np.dtype(dtype)
    cxx = number_type(dtype)
    if cxx is None:
        raise TypeError(
            f"`less` does not take keys of {dtype}: give native bool, integers, float32/64, datetime64, timedelta64 or "
            "complex keys (float16 keys: convert them to float32)."
        )
    if not isinstance(less, str) or not less.strip():
        raise TypeError(f"`less` is {less!r}; give a CUDA C++ expression in `a` and `b`, such as 'a < b'.")
    return Comparison(cxx, dtype.itemsize, less)


@dataclass(frozen=True)
class Elements:
    """Name the C++ types of the elements of one sort."""

    source: str  # type that reads an element in the first pass (``elements.cuh``)
    sink: str  # type that writes it in the last one
    code_type: str  # what the passes in between move, with the payload
    payload_type: str = NO_VALUE  # ``"NoValue"`` for keys alone
    domain: str = ""  # in which digits are cut, for sorts that sample their keys
    narrow: Elements | None = None  # the same elements with codes of 32 bits, for keys whose codes span less than 2^32
    base: int = 0  # the code from which narrow codes count

    @functools.cached_property
    def code_bytes(self) -> int:
        """Bytes of a code."""
        return bytes_of_type(self.code_type)

    @functools.cached_property
    def payload_bytes(self) -> int:
        """Bytes that travel beside a code."""
        return bytes_of_type(self.payload_type)

    @property
    def codes(self) -> str:
        """Type that reads and writes codes between the passes."""
        return f"Codes<{self.code_type}>"

    @property
    def code_domain(self) -> str:
        """Domain of the codes themselves."""
        return f"CodeDomain<{self.code_type}>"

    @property
    def block_sort_domain(self) -> str:
        """Domain in which a block sort cuts the bins of skewed codes."""
        return self.domain or self.code_domain

    @property
    def narrow_domain(self) -> str:
        """Domain of narrow codes; without the low word where that holds a position."""
        return f"CodeDomain<{self.code_type}, {8 * self.code_bytes - NARROW_BITS}>"

    @functools.cached_property
    def shape(self) -> tuple[int, int]:
        """Bytes of a code and of its payload: the key of the tuning tables."""
        return self.code_bytes, self.payload_bytes


@dataclass
class Arrays:
    """Device arrays of one sort: two of codes, two of payloads, and the outputs (`None`: not wanted)."""

    codes: list[Any]
    payloads: list[Any]
    keys_out: Any
    positions_out: Any

    def narrowed(self, elements: Elements, n: int) -> Arrays:
        """The same memory, for elements without payload whose codes are as wide or half as wide."""
        codes = self.codes
        if codes[0].itemsize > elements.code_bytes:
            # Both arrays share the memory of the first one, so that the last pass never reads the output it writes.
            halves = codes[0].view(f"u{elements.code_bytes}")
            codes = [halves[:n], halves[n : 2 * n]]
        return Arrays(codes, [None, None], self.keys_out, self.positions_out)


def indexed_elements(key: DeviceKey, position_type: str) -> Elements:
    """Keys with their positions: packed into one word for keys to 32 bits, in two words for wider keys."""
    if key.itemsize < WIDE_CODE:
        name = f"Packed<{key.order}, {position_type}>"
        return Elements(name, name, "u64", domain=key.domain("u64", POSITION_BITS))
    elements = tied_elements(key, position_type, "u32")
    if key.has_ties:
        return elements
    name = f"PackedNarrowed<{key.order}, {position_type}>"
    return replace(elements, narrow=Elements(name, name, "u64"))


def tied_elements(key: DeviceKey, value_type: str, payload_type: str) -> Elements:
    """Keys by their canonical codes, each with a value."""
    name, code_type = f"TiedKeys<{key.order}, {value_type}>", type_of_bytes(key.itemsize)
    return Elements(name, name, code_type, payload_type, key.domain(code_type))


def wide_elements(key: DeviceKey) -> Elements:
    """Keys without payload, by their one-to-one codes; 8- and 16-bit keys get codes of 32 bits."""
    if key.itemsize < FEWEST_CODE_BYTES:
        name = f"Widened<{key.order}>"
        return Elements(name, name, type_of_bytes(FEWEST_CODE_BYTES), domain=key.domain("u32"))
    name, code_type = f"Keys<{key.order}>", type_of_bytes(key.itemsize)
    return Elements(name, name, code_type, domain=key.domain(code_type))
