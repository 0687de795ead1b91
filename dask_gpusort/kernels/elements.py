"""What a sort on the device moves: the C++ names of its elements, and its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WIDTHS = {"NoPayload": 0, "u8": 1, "u16": 2, "u32": 4, "u64": 8}


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
