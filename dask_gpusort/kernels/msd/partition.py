"""One level of a most-significant-digit sort: every element to the bucket of its digit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import DeviceKey
from ..keys.elements import Elements
from ..launch.cxx_types import bytes_of_type
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from ..policy import tuning
from ..policy.limits import fit_stable

RADIX = 256  # kRadix in lsd_digits.cuh: most digits of a stable pass
UNIFORM, BY_SHARE, EITHER = "Maps::kUniform", "Maps::kByShare", "Maps::kEither"


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


def fine_digits(domain: str, maps: str, is_coarse: bool) -> Digits:
    """The coarse or the other part of the number of a fine bucket; `maps` is what is known of the map."""
    # Only the first level looks all over the map.
    is_copied = is_coarse and maps != UNIFORM
    name = f"FineDigits<{domain}, {str(is_coarse).lower()}, {maps}>"
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
    splitters: Any,
    fine_bits: int,
    segments: tuple[Any, int],
    cursors: Any,
) -> None:
    """Move every element to the bucket of its digit, within its segment."""
    name = (
        f"partition<{source}, {elements.payload_type}, {digits.name}, "
        f"{tile.threads}, {tile.items}, {tile.digits}, {tile.blocks}>"
    )
    arguments = (*sources, *targets, splitters, np.uint32(fine_bits), segments[0], np.uint32(segments[1]))
    shared = tile.shared_bytes(*elements.shape, tile.digits, digits.map_words)
    ends = cursors, np.uint64(elements.base)
    Launch("msd/partition.cu", name, blocks, tile.threads, (*arguments, *ends), shared).run()


def run_partition_stable(
    key: DeviceKey,
    value_type: str,
    digits: Digits,
    n: int,
    sources: tuple[Any, Any],
    targets: tuple[Any, Any],
    splitters: Any,
    fine_bits: int,
    starts: Any,
) -> None:
    """Move every key and its value to the bucket of its digit, as one-to-one codes, in the order of the input."""
    code_bytes, payload_bytes = key.itemsize, bytes_of_type(value_type)
    storage = code_bytes, payload_bytes, digits.map_words, True
    tile = fit_stable(tuning.STABLE[code_bytes, payload_bytes], *storage)
    tiles = -(-n // tile.keys)
    status = require_cupy().zeros(tiles * RADIX + 1, np.uint32)
    name = (
        f"partition_stable<Keys<{key.order}>, {value_type}, OfKeys<{key.order}, {digits.name}>, "
        f"{tile.threads}, {tile.items}, {tile.blocks}>"
    )
    arguments = (*sources, *targets, np.uint64(n), splitters, np.uint32(fine_bits), starts, status, status[-1:])
    Launch("msd/partition.cu", name, tiles, tile.threads, arguments, tuning.stable_shared_bytes(tile, *storage)).run()
