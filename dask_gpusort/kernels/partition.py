"""One level of a most-significant-digit sort: every element to the bucket of its digit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import tuning
from .elements import Elements
from .loader import launch

PLAIN, BY_SHARE, EITHER = "Maps::kPlain", "Maps::kByShare", "Maps::kEither"


@dataclass(frozen=True)
class Digits:
    """What a partition takes for the digit of an element.

    Attributes
    ----------
    name : str
        As C++ has it.
    map_words : int
        Of shared memory that its map takes.
    """

    name: str
    map_words: int


def fine_digits(scale: str, maps: str, is_coarse: bool) -> Digits:
    """The coarse or the other part of the number of a fine bucket; `maps` is what is known of the map."""
    # Only the first level looks all over the map.
    is_copied = is_coarse and maps != PLAIN
    name = f"FineDigits<{scale}, {str(is_coarse).lower()}, {maps}>"
    return Digits(name, tuning.MAP_WORDS if is_copied else tuning.WORDS_PER_VECTOR)


def segment_digits(code_type: str, keys_alone: bool) -> Digits:
    """The digits that a segment has of its own."""
    return Digits(f"SegmentDigits<{code_type}, {str(keys_alone).lower()}>", tuning.SEGMENT_MAP_WORDS)


def run_partition(
    elements: Elements,
    tile: tuning.Tile,
    digits: Digits,
    source: str,
    blocks: int,
    sources: tuple[Any, Any],
    targets: tuple[Any, Any],
    quantiles: Any,
    fine_bits: int,
    segments: tuple[Any, int],
    cursors: Any,
) -> None:
    """Move every element to the bucket of its digit, within its segment."""
    name = (
        f"partition<{source}, {elements.payload_type}, {digits.name}, "
        f"{tile.threads}, {tile.items}, {tile.digits}, {tile.blocks}>"
    )
    arguments = (*sources, *targets, quantiles, np.uint32(fine_bits), segments[0], np.uint32(segments[1]))
    shared = tile.shared_bytes(*elements.shape, tile.digits, digits.map_words)
    ends = cursors, np.uint64(elements.base)
    launch("partition.cu", name, blocks, tile.threads, (*arguments, *ends), shared)
