"""Most-significant-digit sort of one array on the device.

    sample -> quantile map -> histogram of fine buckets -> partition -> partition -> finish in shared memory
                                         buckets that do not fit: `refine`

After Satish, Harris and Garland (IPDPS 2009), section 4, with the digit order turned round: a tile of the last pass
holds a whole bucket, so the keys are read and written once a level, and there are two levels for 2^28 keys of any
width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from . import tuning
from .elements import Arrays, Elements
from .finish import OVERFLOW_WORDS, SEGMENT_BYTES, Buckets, list_overflow, run_finish, run_finish_even
from .histogram import MAP_BYTES, MAP_THREADS, count_fine, sample_quantiles
from .limits import finish_shapes, fit_tile, main_shapes, most_fine
from .loader import Readback, launch, require_cupy
from .partition import run_partition
from .refine import refine

OUTLINE_BYTES = slice(16, 32)  # of QuantileMap: from `plain` to `uneven`
ALLOCATION_ALIGNMENT = 256  # of cudaMalloc, so that vector loads of any array are aligned
SCAN_THREADS = 1024


def finish_shape(elements: Elements, n: int) -> tuple[tuning.Finish, int]:
    """The finishing block for n elements, and the number of fine buckets."""
    fine_limit = most_fine()
    if n <= tuning.SMALL_KEYS:
        shape = finish_shapes(elements)[tuning.SMALL_FINISH]
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
        Leave keys that crowd at every scale, for which stable passes take less time.

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
    smallest = next((s for s in finish_shapes(elements) if n <= s.capacity), None)
    if smallest is not None:
        run_finish(elements, smallest, elements.source, keys, payload, arrays, Buckets(1, None, None, n))
        return True
    shape, num_fine = finish_shape(elements, n)
    left: tuple[Any, Any] | None
    if num_fine <= tuning.SMALL_PARTITIONS[-1].digits:
        left, current = sort_one_level(elements, keys, n, arrays, shape, num_fine, payload), 0
    else:
        left, current = sort_two_levels(elements, keys, n, arrays, shape, num_fine, payload, may_decline), 1
    if left is None:
        return False
    overflow, segments = left
    num_segments, num_keys, _ = Readback(overflow).wait()
    refine(elements, shape, n, arrays, current, (segments, num_segments, num_keys))
    return True


def sort_parts(elements: Elements, keys: Any, n: int, arrays: Arrays, may_decline: bool) -> bool:
    """As `sort`, of more keys than two levels make small buckets of: one partition more, then part by part."""
    parts = 1 << (-(-n // tuning.PART_KEYS) - 1).bit_length()
    num_fine = most_fine()
    coarse = partition_coarse(elements, keys, n, arrays, num_fine, num_fine // parts, None, may_decline)
    if coarse is None:
        return False
    inner = replace(elements, source=elements.codes)
    for begin, end in pairwise([0, *Readback(coarse.cursors).wait()]):
        if begin == end:
            continue
        # What was the target of the last pass is that of the next one.
        codes = [array[begin:end] for array in reversed(arrays.codes)]
        payloads = [None if array is None else array[begin:end] for array in reversed(arrays.payloads)]
        outputs = [None if array is None else array[begin:end] for array in (arrays.keys_out, arrays.positions_out)]
        sort_part(inner, codes[1], end - begin, Arrays(codes, payloads, *outputs), payloads[1])
    return True


def sort_one_level(
    elements: Elements, keys: Any, n: int, arrays: Arrays, shape: tuning.Finish, num_fine: int, payload: Any
) -> tuple[Any, Any]:
    """Sample, count, one partition, finish: five launches, as these inputs are over in less time than a launch takes.

    Returns
    -------
    overflow, segments : cupy.ndarray
        The buckets that did not fit, as `finish` lists them.
    """
    tile = next(tile for tile in tuning.SMALL_PARTITIONS if num_fine <= tile.digits)
    tile = fit_tile(tile, elements, tuning.MAP_WORDS)
    memory, places = carve(
        overflow=8 * OVERFLOW_WORDS,
        counts=8 * num_fine,
        quantiles=MAP_BYTES,
        whole=SEGMENT_BYTES,
        starts=8 * (num_fine + 1),
        cursors=8 * num_fine,
        segments=(n // shape.capacity + 1) * SEGMENT_BYTES,
    )
    launch(
        "sample.cu",
        f"map_small<{elements.source}>",
        1,
        MAP_THREADS,
        (
            keys,
            np.uint64(n),
            np.uint32(num_fine),
            places["quantiles"],
            places["overflow"],
            np.uint32((places["quantiles"] - places["overflow"]) // 8),
        ),
    )
    _, wide = count_fine(
        elements.source,
        f"QuantileBuckets<{elements.code_type}>",
        tuning.MAP_WORDS,
        keys,
        n,
        places["quantiles"],
        num_fine,
        places["counts"],
    )
    launch(
        "count.cu",
        "scan_fine",
        -(-num_fine // SCAN_THREADS),
        SCAN_THREADS,
        (places["counts"], np.uint32(wide), np.uint32(num_fine), places["starts"], places["cursors"], places["whole"]),
    )
    run_partition(
        elements,
        tile,
        f"FineDigits<{elements.code_type}, true, Maps::kEither>",
        elements.source,
        -(-n // tile.keys),
        (keys, payload),
        (arrays.codes[0], arrays.payloads[0]),
        places["quantiles"],
        0,
        (places["whole"], 1),
        places["cursors"],
    )
    table = places["starts"], places["cursors"], 0, places["overflow"], places["segments"]
    buckets = Buckets(num_fine, *table)
    run_finish(elements, shape, elements.codes, arrays.codes[0], arrays.payloads[0], arrays, buckets)
    overflow = memory[: 8 * OVERFLOW_WORDS].view(np.uint64)
    return overflow, memory[places["segments"] - places["overflow"] :]


def carve(**sizes: int) -> tuple[Any, dict[str, int]]:
    """One device allocation for many small arrays: their addresses, in order, 256 bytes aligned."""
    offsets, total = {}, 0
    for name, size in sizes.items():
        offsets[name] = total
        total += -(-size // ALLOCATION_ALIGNMENT) * ALLOCATION_ALIGNMENT
    memory = require_cupy().empty(total, np.uint8)
    return memory, {name: memory.data.ptr + offset for name, offset in offsets.items()}


@dataclass
class Coarse:
    """The buckets of both levels: how elements are told their own, and where each begins.

    Attributes
    ----------
    tile : tuning.Tile
        Of the second level.
    quantiles : cupy.ndarray
        The map of both levels.
    code_type, maps : str
        What it maps, and its kind, as C++ has them.
    fine_bits : int
        Of a fine bucket's number, those below the coarse bucket's.
    num_coarse, num_fine : int
    places : dict
        Addresses of the tables, in `memory`.
    """

    tile: tuning.Tile
    quantiles: Any
    code_type: str
    maps: str
    fine_bits: int
    num_coarse: int
    num_fine: int
    places: dict[str, int]
    memory: Any

    def digits(self, coarse: bool) -> str:
        """The digits of a level, as C++ has them."""
        return f"FineDigits<{self.code_type}, {str(coarse).lower()}, {self.maps}>"

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
    coarse = map_buckets(elements, elements, keys, n, num_fine, fine_per_coarse, may_decline=may_decline)
    if coarse is None:
        return None
    run_partition(
        elements,
        coarse.tile,
        coarse.digits(True),
        elements.source,
        -(-n // coarse.tile.keys),
        (keys, payload),
        (arrays.codes[0], arrays.payloads[0]),
        coarse.quantiles,
        coarse.fine_bits,
        (coarse.places["whole"], 1),
        coarse.places["coarse_cursors"],
    )
    return coarse


def map_buckets(
    elements: Elements,
    fine_elements: Elements,
    keys: Any,
    n: int,
    num_fine: int,
    fine_per_coarse: int,
    *,
    may_decline: bool,
) -> Coarse | None:
    """Sample and count `elements`, of which the second level partitions `fine_elements`; `None` where declined."""
    tile = fit_tile(tuning.PARTITION[fine_elements.shape], fine_elements, tuning.MAP_WORDS)
    fine_bits = fine_per_coarse.bit_length() - 1
    num_coarse = -(-num_fine >> fine_bits)
    quantiles = sample_quantiles(elements, keys, n, num_fine, judged=may_decline)
    outline = Readback(quantiles[OUTLINE_BYTES].view(np.uint32))
    counts, wide = count_fine(
        elements.source, f"QuantileBuckets<{elements.code_type}>", tuning.MAP_WORDS, keys, n, quantiles, num_fine
    )
    memory, places = carve(
        coarse_cursors=8 * num_coarse,
        starts=8 * (num_fine + 1),
        cursors=8 * num_fine,
        whole=SEGMENT_BYTES,
        coarse=num_coarse * SEGMENT_BYTES,
    )
    launch(
        "count.cu",
        "scan_fine",
        -(-num_fine // SCAN_THREADS),
        SCAN_THREADS,
        (counts, np.uint32(wide), np.uint32(num_fine), places["starts"], places["cursors"], places["whole"]),
    )
    launch(
        "count.cu",
        f"describe_segments<{tile.keys}>",
        1,
        SCAN_THREADS,
        (places["starts"], np.uint32(num_fine), np.uint32(fine_bits), places["coarse_cursors"], places["coarse"]),
    )
    # The device is still counting when the answer is here.
    is_plain, *_, is_uneven = outline.wait()
    if is_uneven and may_decline:
        return None
    maps = "Maps::kPlain" if is_plain else "Maps::kByShare"
    return Coarse(tile, quantiles, elements.code_type, maps, fine_bits, num_coarse, num_fine, places, memory)


def sort_two_levels(
    elements: Elements,
    keys: Any,
    n: int,
    arrays: Arrays,
    shape: tuning.Finish,
    num_fine: int,
    payload: Any,
    may_decline: bool,
) -> tuple[Any, Any] | None:
    """Two partitions and the finish; returns as `sort_one_level`, or `None` where it is declined."""
    coarse = partition_coarse(elements, keys, n, arrays, num_fine, split_fine(num_fine), payload, may_decline)
    if coarse is None:
        return None
    first = arrays.codes[0], arrays.payloads[0]
    return finish_coarse(elements, coarse, coarse.digits(False), elements.codes, first, n, arrays, shape)


def split_fine(num_fine: int) -> int:
    """Fine buckets of a coarse one: about as many as there are coarse ones."""
    return 1 << num_fine.bit_length() // 2


def finish_coarse(
    elements: Elements,
    coarse: Coarse,
    digits: str,
    source: str,
    sources: tuple[Any, Any],
    n: int,
    arrays: Arrays,
    shape: tuning.Finish,
) -> tuple[Any, Any]:
    """The second level, from coarse buckets into `codes[1]`, and the finish; returns as `sort_one_level`."""
    target, places, num_fine = (arrays.codes[1], arrays.payloads[1]), coarse.places, coarse.num_fine
    run_partition(
        elements,
        coarse.tile,
        digits,
        source,
        -(-n // coarse.tile.keys) + coarse.num_coarse,
        sources,
        target,
        coarse.quantiles,
        coarse.fine_bits,
        (places["coarse"], coarse.num_coarse),
        places["cursors"],
    )
    buckets = Buckets(num_fine, places["starts"], places["cursors"], 0, **list_overflow(n, shape.capacity, num_fine))
    run_finish_even(elements, shape, elements.codes, *target, arrays, buckets, n / num_fine)
    return buckets.overflow, buckets.segments
