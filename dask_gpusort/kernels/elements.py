"""What a sort on the device moves: the C++ names of its elements, and its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .dtypes import RAW_TYPES, DeviceKey

WIDTHS = {"NoPayload": 0, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "u128": 16}
WIDE_CODE = 8  # bytes; a position fits no code beside such a one


@dataclass(frozen=True)
class Elements:
    """The C++ names of what is sorted (see elements.cuh).

    Attributes
    ----------
    source, sink : str
        How an element is read in the first pass, and written in the last.
    code_type, payload_type : str
        What travels in between; ``"NoPayload"`` for keys alone.
    """

    source: str
    sink: str
    code_type: str
    payload_type: str = "NoPayload"

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


def indexed_elements(key: DeviceKey, position_type: str) -> Elements:
    """Keys with their positions: one code up to 32 bits, two words beyond."""
    if key.itemsize < WIDE_CODE:
        name = f"Packed<{key.order}, {position_type}>"
        return Elements(name, name, "u64")
    return tied_elements(key, position_type, "u32")


def tied_elements(key: DeviceKey, value_type: str, payload_type: str) -> Elements:
    """Keys by their canonical codes, with a value beside each."""
    name = f"TiedKeys<{key.order}, {value_type}>"
    return Elements(name, name, RAW_TYPES[key.itemsize], payload_type)
