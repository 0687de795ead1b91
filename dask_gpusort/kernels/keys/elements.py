"""What a sort on the device moves: the C++ names of its elements, and its arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .dtypes import RAW_TYPES, DeviceKey

WIDTHS = {"NoValue": 0, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "u128": 16}
WIDE_CODE = 8  # bytes; a position fits no code beside such a one
NARROW_BITS = 32
POSITION_BITS = 32  # kPositionBits in elements.cuh


@dataclass(frozen=True)
class Elements:
    """The C++ names of what is sorted (see elements.cuh).

    Attributes
    ----------
    source, sink : str
        How an element is read in the first pass, and written in the last.
    code_type, payload_type : str
        What travels in between; ``"NoValue"`` for keys alone.
    domain : str
        Where codes stand on the line that digits are cut from, for sorts that sample them.
    narrow : Elements, optional
        The same by codes of 32 bits, where those of all keys lie within 2^32.
    base : int
        What narrow codes count from.
    """

    source: str
    sink: str
    code_type: str
    payload_type: str = "NoValue"
    domain: str = ""
    narrow: Elements | None = None
    base: int = 0

    @property
    def code_bytes(self) -> int:
        """Bytes of a code."""
        return WIDTHS[self.code_type]

    @property
    def payload_bytes(self) -> int:
        """Bytes of what travels beside a code."""
        return WIDTHS[self.payload_type]

    @property
    def codes(self) -> str:
        """C++ source of the codes between the passes."""
        return f"Codes<{self.code_type}>"

    @property
    def code_domain(self) -> str:
        """C++ name of the codes' own places."""
        return f"CodeDomain<{self.code_type}>"

    @property
    def block_sort_domain(self) -> str:
        """C++ name of the line that bins of uneven codes are cut from."""
        return self.domain or self.code_domain

    @property
    def narrow_domain(self) -> str:
        """C++ name of where narrow codes stand on the line of wide ones: if packed with positions, by the high word."""
        return f"CodeDomain<{self.code_type}, {8 * self.code_bytes - NARROW_BITS}>"

    @property
    def shape(self) -> tuple[int, int]:
        """Key of the tuning tables."""
        return self.code_bytes, self.payload_bytes


@dataclass
class Arrays:
    """Device arrays of one sort: codes and payload, twice, and the outputs (`None`: not wanted)."""

    codes: list[Any]
    payloads: list[Any]
    keys_out: Any
    positions_out: Any

    def narrowed(self, elements: Elements, n: int) -> Arrays:
        """The same memory, for elements whose codes are as wide and have no payload, or half as wide."""
        codes = self.codes
        if codes[0].itemsize > elements.code_bytes:
            # Both in the first one: the last pass then reads no output that it writes.
            halves = codes[0].view(f"u{elements.code_bytes}")
            codes = [halves[:n], halves[n : 2 * n]]
        return Arrays(codes, [None, None], self.keys_out, self.positions_out)


def indexed_elements(key: DeviceKey, position_type: str) -> Elements:
    """Keys with their positions: one code up to 32 bits, two words beyond."""
    if key.itemsize < WIDE_CODE:
        name = f"Packed<{key.order}, {position_type}>"
        return Elements(name, name, "u64", domain=key.domain("u64", POSITION_BITS))
    elements = tied_elements(key, position_type, "u32")
    if key.has_ties:
        return elements
    name = f"PackedNarrowed<{key.order}, {position_type}>"
    return replace(elements, narrow=Elements(name, name, "u64"))


def tied_elements(key: DeviceKey, value_type: str, payload_type: str) -> Elements:
    """Keys by their canonical codes, with a value beside each."""
    name, code_type = f"TiedKeys<{key.order}, {value_type}>", RAW_TYPES[key.itemsize]
    return Elements(name, name, code_type, payload_type, key.domain(code_type))
