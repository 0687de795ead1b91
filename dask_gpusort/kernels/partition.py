"""One level of a most-significant-digit sort: every element to the bucket of its digit."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import tuning
from .elements import Elements
from .loader import launch


def run_partition(
    elements: Elements,
    tile: tuning.Tile,
    digits: str,
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
    if digits.startswith("Segment"):
        map_words = tuning.SEGMENT_MAP_WORDS
    else:
        map_words = tuning.WORDS_PER_VECTOR if "kPlain" in digits else tuning.MAP_WORDS
    name = (
        f"partition<{source}, {elements.payload_type}, {digits}, "
        f"{tile.threads}, {tile.items}, {tile.digits}, {tile.blocks}>"
    )
    arguments = (*sources, *targets, quantiles, np.uint32(fine_bits), segments[0], np.uint32(segments[1]), cursors)
    shared = tile.shared_bytes(*elements.shape, tile.digits, map_words)
    launch("partition.cu", name, blocks, tile.threads, arguments, shared)
