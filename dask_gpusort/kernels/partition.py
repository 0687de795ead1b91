"""One level of a most-significant-digit sort: every element to the bucket of its digit."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import tuning
from .dtypes import DeviceKey
from .elements import WIDTHS, Elements
from .limits import fit_stable
from .loader import launch, require_cupy

RADIX = 256  # kRadix in lsd_digits.cuh: most digits of a stable pass


def count_map_words(digits: str) -> int:
    """Words of the map that a block copies to tell digits."""
    if digits.startswith("Segment"):
        return tuning.SEGMENT_MAP_WORDS
    return tuning.WORDS_PER_VECTOR if "kPlain" in digits else tuning.MAP_WORDS


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
    name = (
        f"partition<{source}, {elements.payload_type}, {digits}, "
        f"{tile.threads}, {tile.items}, {tile.digits}, {tile.blocks}>"
    )
    arguments = (*sources, *targets, quantiles, np.uint32(fine_bits), segments[0], np.uint32(segments[1]), cursors)
    shared = tile.shared_bytes(*elements.shape, tile.digits, count_map_words(digits))
    launch("partition.cu", name, blocks, tile.threads, arguments, shared)


def run_partition_stable(
    key: DeviceKey,
    value_type: str,
    digits: str,
    n: int,
    sources: tuple[Any, Any],
    targets: tuple[Any, Any],
    quantiles: Any,
    fine_bits: int,
    starts: Any,
) -> None:
    """Move every key and its value to the bucket of its digit, as one-to-one codes, in the order of the input."""
    code_bytes, payload_bytes = key.itemsize, WIDTHS[value_type]
    map_words = count_map_words(digits)
    storage = code_bytes, payload_bytes, map_words, map_words == tuning.MAP_WORDS
    tile = fit_stable(tuning.STABLE[code_bytes, payload_bytes], *storage)
    tiles = -(-n // tile.keys)
    status = require_cupy().zeros(tiles * RADIX + 1, np.uint32)
    name = (
        f"partition_stable<Keys<{key.order}>, {value_type}, OfKeys<{key.order}, {digits}>, "
        f"{tile.threads}, {tile.items}, {tile.blocks}>"
    )
    arguments = (*sources, *targets, np.uint64(n), quantiles, np.uint32(fine_bits), starts, status, status[-1:])
    launch("partition.cu", name, tiles, tile.threads, arguments, tuning.stable_shared_bytes(tile, *storage))
