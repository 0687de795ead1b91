"""Most-significant-digit sort of one array on the device.

    sample -> quantile map -> histogram of fine buckets -> partition -> partition -> finish in shared memory
                                         buckets that do not fit: `partition_recursively`

After Satish, Harris and Garland (IPDPS 2009), section 4, with the digit order turned round: a tile of the last pass
holds a whole bucket, so the keys are read and written once a level, and there are two levels for 2^28 keys of any
width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..block_sort.block_sort import (
    OVERFLOW_WORDS,
    SEGMENT_BYTES,
    Buckets,
    list_overflow,
    run_block_sort,
    run_uniform_block_sort,
)
from ..buckets.histogram import MAP_BYTES, MAP_THREADS, count_fine, sample_splitters, whole_balance_test
from ..keys.elements import NARROW_BITS, Arrays, Elements
from ..launch.launch import Launch, Readback
from ..launch.loader import require_cupy
from ..policy import tuning
from ..policy.limits import block_sort_shapes, fit_tile, main_shapes, most_fine
from .partition import BY_SHARE, EITHER, UNIFORM, Digits, fine_digits, run_partition
from .recursive_partition import partition_recursively

MAP_FLAGS_BYTES = slice(60, 76)  # of SplitterMap: from `plain` to `narrow`
STRAYED_BYTES = slice(76, 88)  # `strayed` and `base`
ALLOCATION_ALIGNMENT = 256  # of cudaMalloc, so that vector loads of any array are aligned
SCAN_THREADS = 1024


def block_sort_shape(elements: Elements, n: int) -> tuple[tuning.BlockSortShape, int]:
    """The finishing block for n elements, and the number of fine buckets."""
    fine_limit = most_fine()
    if n <= tuning.SMALL_KEYS:
        shape = block_sort_shapes(elements)[tuning.SMALL_BLOCK_SORT]
        return shape, round_fine(-(-n // int(shape.capacity * tuning.FILL)))
    for shape in main_shapes(elements):
        if n <= fine_limit * shape.capacity * tuning.MOST_FILL:
            break
    num_fine = round_fine(-(-n // int(shape.capacity * tuning.FILL)))
    most = tuning.SMALL_PARTITIONS[-1].digits
    if num_fine > most and n <= most * shape.capacity * tuning.MOST_FILL:
        num_fine = most  # fuller buckets, but one level
    return shape, min(num_fine, fine_limit)


def round_fine(num_fine: int) -> int:
    """The next number of the form 2^k or 3 x 2^k: intervals of the quantile map then hold whole buckets."""
    power = 1 << max(num_fine - 1, 1).bit_length()
    return 3 * power // 4 if num_fine <= 3 * power // 4 else power


def sort(elements: Elements, keys: Any, n: int, arrays: Arrays, may_decline: bool = False) -> bool:
    """Sort n elements into the outputs.

    Parameters
    ----------
    elements : Elements
        What is sorted; the payload, if they have one, is their positions.
    keys : cupy.ndarray
        n raw keys, contiguous. May be the same memory as `arrays.codes[1]` and the outputs.
    arrays : Arrays
        `codes[1]` may be an output of the same width: the last pass works in place, bucket by bucket.
    may_decline : bool
        Leave keys that crowd at every domain, for which stable passes take less time.

    Returns
    -------
    bool
        False: declined, and nothing is written.
    """
    if n <= tuning.MOST_TWO_LEVELS:
        return sort_part(elements, keys, n, arrays, None, may_decline)
    return sort_parts(elements, keys, n, arrays, may_decline)


def sort_part(
    elements: Elements, keys: Any, n: int, arrays: Arrays, payload: Any = None, may_decline: bool = False
) -> bool:
    """As `sort`, by two levels of partition at most where keys are even; `payload` may be there already."""
    smallest = next((s for s in block_sort_shapes(elements) if n <= s.capacity), None)
    if smallest is not None:
        run_block_sort(elements, smallest, elements.source, keys, payload, arrays, Buckets(1, None, None, n))
        return True
    shape, num_fine = block_sort_shape(elements, n)
    left: UnsortedSegments | None
    if num_fine <= tuning.SMALL_PARTITIONS[-1].digits:
        left = sort_one_level(elements, keys, n, arrays, shape, num_fine, payload)
    else:
        left = sort_two_levels(elements, keys, n, arrays, shape, num_fine, payload, may_decline)
    if left is None:
        return False
    num_segments, num_keys, _ = Readback(left.overflow).wait()
    partition_recursively(left.elements, shape, n, left.arrays, left.current, (left.segments, num_segments, num_keys))
    return True


def sort_parts(elements: Elements, keys: Any, n: int, arrays: Arrays, may_decline: bool) -> bool:
    """As `sort`, of more keys than two levels make small buckets of: one partition more, then part by part."""
    parts = 1 << (-(-n // tuning.PART_KEYS) - 1).bit_length()
    num_fine = most_fine()
    # A part has a map of its own, of its own codes.
    wide = replace(elements, narrow=None)
    coarse = partition_coarse(wide, keys, n, arrays, num_fine, num_fine // parts, None, may_decline)
    if coarse is None:
        return False
    inner = replace(wide, source=elements.codes)
    for begin, end in pairwise([0, *Readback(coarse.buckets.cursors).wait()]):
        if begin == end:
            continue
        # What was the target of the last pass is that of the next one.
        codes = [array[begin:end] for array in reversed(arrays.codes)]
        payloads = [None if array is None else array[begin:end] for array in reversed(arrays.payloads)]
        outputs = [None if array is None else array[begin:end] for array in (arrays.keys_out, arrays.positions_out)]
        sort_part(inner, codes[1], end - begin, Arrays(codes, payloads, *outputs), payloads[1])
    return True


def sort_one_level(
    elements: Elements, keys: Any, n: int, arrays: Arrays, shape: tuning.BlockSortShape, num_fine: int, payload: Any
) -> UnsortedSegments:
    """Sample, count, one partition, finish: five launches, as such inputs are over in less time than one takes."""
    tile = next(tile for tile in tuning.SMALL_PARTITIONS if num_fine <= tile.digits)
    tile = fit_tile(tile, elements, tuning.MAP_WORDS)
    memory, places = allocate_workspace(
        overflow=8 * OVERFLOW_WORDS,
        counts=8 * num_fine,
        splitters=MAP_BYTES,
        whole=SEGMENT_BYTES,
        starts=8 * (num_fine + 1),
        cursors=8 * num_fine,
        segments=(n // shape.capacity + 1) * SEGMENT_BYTES,
    )
    Launch(
        "buckets/splitters.cu",
        f"map_small<{elements.source}>",
        1,
        MAP_THREADS,
        (
            keys,
            np.uint64(n),
            np.uint32(num_fine),
            places["splitters"],
            places["overflow"],
            np.uint32((places["splitters"] - places["overflow"]) // 8),
        ),
    ).run()
    _, wide = count_fine(
        elements.source,
        f"SplitterBuckets<{elements.code_domain}>",
        tuning.MAP_WORDS,
        keys,
        n,
        places["splitters"],
        num_fine,
        places["counts"],
    )
    Launch(
        "buckets/count.cu",
        "scan_fine",
        -(-num_fine // SCAN_THREADS),
        SCAN_THREADS,
        (places["counts"], np.uint32(wide), np.uint32(num_fine), places["starts"], places["cursors"], places["whole"]),
    ).run()
    run_partition(
        elements,
        tile,
        fine_digits(elements.code_domain, EITHER, True),
        elements.source,
        -(-n // tile.keys),
        (keys, payload),
        (arrays.codes[0], arrays.payloads[0]),
        places["splitters"],
        0,
        (places["whole"], 1),
        places["cursors"],
    )
    table = places["starts"], places["cursors"], 0, places["overflow"], places["segments"]
    buckets = Buckets(num_fine, *table)
    run_block_sort(elements, shape, elements.codes, arrays.codes[0], arrays.payloads[0], arrays, buckets)
    overflow = memory[: 8 * OVERFLOW_WORDS].view(np.uint64)
    return UnsortedSegments(elements, arrays, 0, overflow, memory[places["segments"] - places["overflow"] :])


def allocate_workspace(**sizes: int) -> tuple[Any, dict[str, int]]:
    """One device allocation for many small arrays: their addresses, in order, 256 bytes aligned."""
    offsets, total = {}, 0
    for name, size in sizes.items():
        offsets[name] = total
        total += -(-size // ALLOCATION_ALIGNMENT) * ALLOCATION_ALIGNMENT
    memory = require_cupy().empty(total, np.uint8)
    return memory, {name: memory.data.ptr + offset for name, offset in offsets.items()}


class MapFlags(NamedTuple):
    """What the host learns of a map (words of `SplitterMap`, as its fields say)."""

    is_uniform: int
    by_value: int
    is_imbalanced: int
    is_narrow: int


@dataclass
class BucketMap:
    """The buckets of both levels: how elements are told their own, and where each begins.

    Attributes
    ----------
    splitters : cupy.ndarray
        The map of both levels.
    domain, maps : str
        Where codes stand in it, and its kind, as C++ has them.
    is_narrow : bool
        The codes of a sample lie close.
    fine_bits : int
        Of a fine bucket's number, those below the coarse bucket's.
    num_coarse, num_fine : int
    places : dict
        Addresses of the tables, in `memory`.
    """

    splitters: Any
    domain: str
    maps: str
    is_narrow: bool
    fine_bits: int
    num_coarse: int
    num_fine: int
    places: dict[str, int]
    memory: Any

    def digits(self, is_coarse: bool) -> Digits:
        """The digits of a level."""
        return fine_digits(self.domain, self.maps, is_coarse)

    def table(self, name: str, count: int) -> Any:
        """A table of 64-bit words: shape (count,)."""
        return self.memory[self.places[name] - self.memory.data.ptr :][: 8 * count].view(np.uint64)

    @property
    def cursors(self) -> Any:
        """Starts of the coarse buckets, and once they are filled their ends: shape (num_coarse,)."""
        return self.table("coarse_cursors", self.num_coarse)

    @property
    def starts(self) -> Any:
        """Starts of the fine buckets, and the end of all: shape (num_fine + 1,)."""
        return self.table("starts", self.num_fine + 1)


@dataclass
class Coarse:
    """Elements in the buckets of the first level: by narrow codes, where those of all keys lie close."""

    elements: Elements
    arrays: Arrays
    tile: tuning.Tile
    buckets: BucketMap


@dataclass
class UnsortedSegments:
    """What the finish leaves for further levels.

    Attributes
    ----------
    elements, arrays : Elements, Arrays
    current : int
        Which of the arrays' codes holds the segments.
    overflow, segments : cupy.ndarray
        As `finish` lists buckets that do not fit.
    """

    elements: Elements
    arrays: Arrays
    current: int
    overflow: Any
    segments: Any


def base_of(splitters: Any) -> int | None:
    """What narrow codes count from; `None` where some code strays too far, which is known when all are counted."""
    strayed, *base = Readback(splitters[STRAYED_BYTES].view(np.uint32)).wait()
    return None if strayed else base[0] | base[1] << NARROW_BITS


def partition_coarse(
    elements: Elements,
    keys: Any,
    n: int,
    arrays: Arrays,
    num_fine: int,
    fine_per_coarse: int,
    payload: Any,
    may_decline: bool,
) -> Coarse | None:
    """Sample, count, and one partition into `codes[0]`; `None` where the sort is declined."""
    buckets = map_buckets(elements, keys, n, num_fine, fine_per_coarse, may_decline=may_decline)
    if buckets is None:
        return None
    if buckets.is_narrow and elements.narrow is not None and (base := base_of(buckets.splitters)) is not None:
        elements = replace(elements.narrow, base=base)
        arrays, buckets.domain = arrays.narrowed(elements, n), elements.narrow_domain
    tile = describe_segments(elements, buckets)
    run_partition(
        elements,
        tile,
        buckets.digits(True),
        elements.source,
        -(-n // tile.keys),
        (keys, payload),
        (arrays.codes[0], arrays.payloads[0]),
        buckets.splitters,
        buckets.fine_bits,
        (buckets.places["whole"], 1),
        buckets.places["coarse_cursors"],
    )
    return Coarse(elements, arrays, tile, buckets)


def map_buckets(
    elements: Elements, keys: Any, n: int, num_fine: int, fine_per_coarse: int, *, may_decline: bool
) -> BucketMap | None:
    """Sample and count; `None` where the sort is declined."""
    fine_bits = fine_per_coarse.bit_length() - 1
    num_coarse = -(-num_fine >> fine_bits)
    splitters = sample_splitters(elements, keys, n, num_fine, whole_balance_test(n, num_fine) if may_decline else None)
    map_flags = Readback(splitters[MAP_FLAGS_BYTES].view(np.uint32))
    counts, wide = count_fine(
        elements.source, f"SplitterBuckets<{elements.domain}>", tuning.MAP_WORDS, keys, n, splitters, num_fine
    )
    memory, places = allocate_workspace(
        coarse_cursors=8 * num_coarse,
        starts=8 * (num_fine + 1),
        cursors=8 * num_fine,
        whole=SEGMENT_BYTES,
        coarse=num_coarse * SEGMENT_BYTES,
    )
    Launch(
        "buckets/count.cu",
        "scan_fine",
        -(-num_fine // SCAN_THREADS),
        SCAN_THREADS,
        (counts, np.uint32(wide), np.uint32(num_fine), places["starts"], places["cursors"], places["whole"]),
    ).run()
    # The device is still counting when the answer is here.
    found = MapFlags(*map_flags.wait())
    if found.is_imbalanced and may_decline:
        return None
    domain = elements.domain if found.by_value else elements.code_domain
    maps, is_narrow = UNIFORM if found.is_uniform else BY_SHARE, bool(found.is_narrow)
    return BucketMap(splitters, domain, maps, is_narrow, fine_bits, num_coarse, num_fine, places, memory)


def describe_segments(elements: Elements, buckets: BucketMap) -> tuning.Tile:
    """Make the coarse buckets segments of the second level; gives its tile."""
    tile = fit_tile(tuning.PARTITION[elements.shape], elements, tuning.MAP_WORDS)
    places, numbers = buckets.places, (np.uint32(buckets.num_fine), np.uint32(buckets.fine_bits))
    arguments = (places["starts"], *numbers, places["coarse_cursors"], places["coarse"])
    Launch("buckets/count.cu", f"describe_segments<{tile.keys}>", 1, SCAN_THREADS, arguments).run()
    return tile


def sort_two_levels(
    elements: Elements,
    keys: Any,
    n: int,
    arrays: Arrays,
    shape: tuning.BlockSortShape,
    num_fine: int,
    payload: Any,
    may_decline: bool,
) -> UnsortedSegments | None:
    """Two partitions and the finish; `None` where it is declined."""
    coarse = partition_coarse(elements, keys, n, arrays, num_fine, split_fine(num_fine), payload, may_decline)
    if coarse is None:
        return None
    first = coarse.arrays.codes[0], coarse.arrays.payloads[0]
    return finish_coarse(coarse, coarse.buckets.digits(False), coarse.elements.codes, first, n, shape)


def split_fine(num_fine: int) -> int:
    """Fine buckets of a coarse one: about as many as there are coarse ones."""
    return 1 << num_fine.bit_length() // 2


def finish_coarse(
    coarse: Coarse, digits: Digits, source: str, sources: tuple[Any, Any], n: int, shape: tuning.BlockSortShape
) -> UnsortedSegments:
    """The second level, from `sources` in coarse buckets into `codes[1]`, and the finish."""
    elements, arrays, mapped = coarse.elements, coarse.arrays, coarse.buckets
    target, places, num_fine = (arrays.codes[1], arrays.payloads[1]), mapped.places, mapped.num_fine
    run_partition(
        elements,
        coarse.tile,
        digits,
        source,
        -(-n // coarse.tile.keys) + mapped.num_coarse,
        sources,
        target,
        mapped.splitters,
        mapped.fine_bits,
        (places["coarse"], mapped.num_coarse),
        places["cursors"],
    )
    buckets = Buckets(num_fine, places["starts"], places["cursors"], 0, **list_overflow(n, shape.capacity, num_fine))
    run_uniform_block_sort(elements, shape, elements.codes, *target, arrays, buckets, n / num_fine)
    return UnsortedSegments(elements, arrays, 1, buckets.overflow, buckets.segments)
