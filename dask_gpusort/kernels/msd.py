"""Most-significant-digit sort of one array on the device.

    sample -> quantile map -> histogram of fine buckets -> partition -> partition -> finish in shared memory
                                         buckets that do not fit: one more level, from the sample on

After Satish, Harris and Garland (IPDPS 2009), section 4, with the digit order turned round: a tile of the last pass
holds a whole bucket, so the keys are read and written once a level, and there are two levels for 2^28 keys of any
width.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import tuning
from .loader import Readback, launch, require_cupy

SEGMENT_BYTES = 96  # sizeof(Segment) in digits.cuh
RANGE_BYTES, MAP_BYTES = 16, 8 + 4 * 4 + 4 * tuning.INTERVAL_WORDS
OVERFLOW_WORDS = 3
OUTLINE_BYTES = slice(8, 20)  # width_bits, num_fine and plain of QuantileMap
INTERVAL_BITS = 11  # kIntervalBits in digits.cuh
PENDING_SHARE = 8  # buckets a block where few are expected: to start a block takes 2 ns of the whole device
ALLOCATION_ALIGNMENT = 256  # of cudaMalloc, so that vector loads of any array are aligned
SAMPLE_THREADS, MAP_THREADS, SCAN_THREADS = 256, 1024, 1024
NARROW_KEYS = 1 << 32  # from here on the counts of a table need 64 bits each


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
        return 8 if self.code_type == "u64" else 4

    @property
    def payload_bytes(self) -> int:
        """Bytes of what travels beside a code."""
        return {"NoPayload": 0, "u32": 4}[self.payload_type]

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


def finish_shape(elements: Elements, n: int) -> tuple[tuning.Finish, int]:
    """The finishing block for n elements, and the number of fine buckets."""
    shapes = tuning.FINISH[elements.shape]
    if n <= tuning.SMALL_KEYS:
        shape = shapes[tuning.SMALL_FINISH]
        return shape, round_fine(-(-n // int(shape.capacity * tuning.FILL)))
    for shape in shapes[tuning.MAIN_FINISH[elements.shape] :]:
        if n <= tuning.MAX_FINE * shape.capacity * tuning.MOST_FILL:
            break
    num_fine = round_fine(-(-n // int(shape.capacity * tuning.FILL)))
    most = tuning.SMALL_PARTITIONS[-1].digits
    if num_fine > most and n <= most * shape.capacity * tuning.MOST_FILL:
        num_fine = most  # fuller buckets, but one level
    return shape, min(num_fine, tuning.MAX_FINE)


def round_fine(num_fine: int) -> int:
    """The next number of the form 2^k or 3 x 2^k: intervals of the quantile map then hold whole buckets."""
    power = 1 << max(num_fine - 1, 1).bit_length()
    return 3 * power // 4 if num_fine <= 3 * power // 4 else power


def run_finish(
    elements: Elements,
    shape: tuning.Finish,
    source: str,
    blocks: int,
    codes: Any,
    payload: Any,
    arrays: Arrays,
    table: tuple[Any, Any, int],
    overflow: tuple[Any, Any],
    pending: Any = None,
) -> None:
    """Sort every bucket of a table in shared memory; list those that do not fit."""
    kernel = "finish_pending" if pending else "finish"
    name = (
        f"{kernel}<{source}, {elements.sink}, {elements.payload_type}, "
        f"{shape.threads}, {shape.items}, {shape.bins}, {shape.blocks}>"
    )
    starts, ends, stride = table
    arguments = (
        codes,
        payload,
        arrays.keys_out,
        arrays.positions_out,
        starts,
        ends,
        np.uint64(stride),
        *overflow,
        pending,
    )
    grid = -(-blocks // PENDING_SHARE) if pending else blocks
    launch("finish.cu", name, grid, shape.threads, arguments, shape.shared_bytes(*elements.shape))


def run_finish_even(
    elements: Elements,
    shape: tuning.Finish,
    num_fine: int,
    codes: Any,
    payload: Any,
    arrays: Arrays,
    places: dict[str, int],
    quantiles: Any,
    exact: bool,
) -> None:
    """Sort the fine buckets of a plain map in shared memory; list the others as pending.

    `exact`: there are as many bins as codes.
    """
    name = (
        f"finish_even<{elements.codes}, {elements.sink}, {elements.payload_type}, "
        f"{shape.threads}, {shape.items}, {shape.bins}, {shape.blocks}, {str(exact).lower()}>"
    )
    arguments = (
        codes,
        payload,
        arrays.keys_out,
        arrays.positions_out,
        places["starts"],
        places["cursors"],
        quantiles,
        places["pending"],
    )
    launch("finish.cu", name, num_fine, shape.threads, arguments, shape.shared_bytes(*elements.shape))


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
    map_words = tuning.MAX_DIGITS * elements.code_bytes // 4 if digits.startswith("Segment") else tuning.INTERVAL_WORDS
    name = (
        f"partition<{source}, {elements.payload_type}, {digits}, "
        f"{tile.threads}, {tile.items}, {tile.digits}, {tile.blocks}>"
    )
    arguments = (*sources, *targets, quantiles, np.uint32(fine_bits), segments[0], np.uint32(segments[1]), cursors)
    shared = tile.shared_bytes(*elements.shape, tile.digits, map_words)
    launch("partition.cu", name, blocks, tile.threads, arguments, shared)


def split_bytes(memory: Any, first: int) -> tuple[Any, Any]:
    """Two parts of one device array: one allocation and one fill instead of two."""
    return memory[:first], memory[first:]


def sample_quantiles(elements: Elements, keys: Any, n: int, num_fine: int) -> Any:
    """The quantile map of a sample of the keys (device bytes of a `QuantileMap`)."""
    cupy = require_cupy()
    num_samples = max(min(tuning.MAX_SAMPLES, n // tuning.SAMPLE_SHARE), 1)
    samples = cupy.empty(num_samples * elements.code_bytes, np.uint8)
    key_range, interval_counts = split_bytes(cupy.zeros(RANGE_BYTES + 4 * tuning.INTERVAL_WORDS, np.uint8), RANGE_BYTES)
    quantiles = cupy.empty(MAP_BYTES, np.uint8)
    count = np.uint32(num_samples)
    launch(
        "sample.cu",
        f"sample_codes<{elements.source}>",
        -(-num_samples // SAMPLE_THREADS),
        SAMPLE_THREADS,
        (keys, np.uint64(n), samples, count, key_range),
    )
    launch(
        "sample.cu",
        f"count_samples<{elements.code_type}>",
        -(-num_samples // tuning.SAMPLES_PER_BLOCK),
        MAP_THREADS,
        (samples, count, key_range, interval_counts),
    )
    launch(
        "sample.cu", "build_map", 1, MAP_THREADS, (interval_counts, count, np.uint32(num_fine), key_range, quantiles)
    )
    return quantiles


def count_blocks(n: int, num_buckets: int, map_words: int) -> tuple[int, int]:
    """Blocks of count_fine, and their shared memory in bytes."""
    shared = 4 * map_words + 2 * (num_buckets + num_buckets % 2)
    # One block a multiprocessor where the counters fill it, two where they do not.
    blocks = multiprocessors(require_cupy().cuda.runtime.getDevice()) * (
        2 if 2 * shared < tuning.COUNT_SHARED_BYTES else 1
    )
    return max(min(blocks, n // tuning.COUNT_KEYS_PER_BLOCK), 1), shared


@functools.cache
def multiprocessors(device: int) -> int:
    """Multiprocessors of a device."""
    return int(require_cupy().cuda.Device(device).attributes["MultiProcessorCount"])


def count_fine(
    source: str, buckets: str, map_words: int, keys: Any, n: int, quantiles: Any, num_fine: int, counts: Any = None
) -> tuple[Any, bool]:
    """Keys of each fine bucket (device array), and whether they are 64 bits wide."""
    wide = n >= NARROW_KEYS
    if counts is None:
        counts = require_cupy().zeros(num_fine if wide else (num_fine + 1) // 2, np.uint64)
    blocks, shared = count_blocks(n, num_fine, map_words)
    launch(
        "count.cu",
        f"count_fine<{source}, {buckets}>",
        blocks,
        tuning.COUNT_THREADS,
        (keys, np.uint64(n), quantiles, counts, np.uint32(wide), np.uint32(num_fine)),
        shared,
    )
    return counts, wide


def sort(elements: Elements, keys: Any, n: int, arrays: Arrays) -> None:
    """Sort n elements into the outputs.

    Parameters
    ----------
    elements : Elements
        What is sorted.
    keys : cupy.ndarray
        n raw keys, contiguous. May be the same memory as `arrays.codes[1]` and the outputs.
    arrays : Arrays
        `codes[1]` may be an output of the same width: the last pass works in place, bucket by bucket.
    """
    smallest = next((s for s in tuning.FINISH[elements.shape] if n <= s.capacity), None)
    if smallest is not None:
        run_finish(elements, smallest, elements.source, 1, keys, None, arrays, (None, None, n), (None, None))
        return
    shape, num_fine = finish_shape(elements, n)
    if num_fine <= tuning.SMALL_PARTITIONS[-1].digits:
        (overflow, segments), current = sort_one_level(elements, keys, n, arrays, shape, num_fine), 0
    else:
        (overflow, segments), current = sort_two_levels(elements, keys, n, arrays, shape, num_fine), 1
    num_segments, num_keys, _ = Readback(overflow).wait()
    refine(elements, shape, n, arrays, current, (segments, num_segments, num_keys))


def sort_one_level(
    elements: Elements, keys: Any, n: int, arrays: Arrays, shape: tuning.Finish, num_fine: int
) -> tuple[Any, Any]:
    """Sample, count, one partition, finish: five launches, as these inputs are over in less time than a launch takes.

    Returns
    -------
    overflow, segments : cupy.ndarray
        The buckets that did not fit, as `finish` lists them.
    """
    tile = next(tile for tile in tuning.SMALL_PARTITIONS if num_fine <= tile.digits)
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
        tuning.INTERVAL_WORDS,
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
        f"FineDigits<{elements.code_type}, true>",
        elements.source,
        -(-n // tile.keys),
        (keys, None),
        (arrays.codes[0], arrays.payloads[0]),
        places["quantiles"],
        0,
        (places["whole"], 1),
        places["cursors"],
    )
    run_finish(
        elements,
        shape,
        elements.codes,
        num_fine,
        arrays.codes[0],
        arrays.payloads[0],
        arrays,
        (places["starts"], places["cursors"], 0),
        (places["overflow"], places["segments"]),
    )
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


def sort_two_levels(
    elements: Elements, keys: Any, n: int, arrays: Arrays, shape: tuning.Finish, num_fine: int
) -> tuple[Any, Any]:
    """Sample, count, two partitions, finish; returns as `sort_one_level`."""
    cupy = require_cupy()
    tile = tuning.PARTITION[elements.shape]
    fine_bits = num_fine.bit_length() // 2
    num_coarse = -(-num_fine >> fine_bits)
    quantiles = sample_quantiles(elements, keys, n, num_fine)
    outline = Readback(quantiles[OUTLINE_BYTES].view(np.uint32))
    counts, wide = count_fine(
        elements.source, f"QuantileBuckets<{elements.code_type}>", tuning.INTERVAL_WORDS, keys, n, quantiles, num_fine
    )
    _memory, places = carve(
        starts=8 * (num_fine + 1),
        cursors=8 * num_fine,
        coarse_cursors=8 * num_coarse,
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
    codes, payloads = arrays.codes, arrays.payloads
    run_partition(
        elements,
        tile,
        f"FineDigits<{elements.code_type}, true>",
        elements.source,
        -(-n // tile.keys),
        (keys, None),
        (codes[0], payloads[0]),
        quantiles,
        fine_bits,
        (places["whole"], 1),
        places["coarse_cursors"],
    )
    run_partition(
        elements,
        tile,
        f"FineDigits<{elements.code_type}, false>",
        elements.codes,
        -(-n // tile.keys) + num_coarse,
        (codes[0], payloads[0]),
        (codes[1], payloads[1]),
        quantiles,
        fine_bits,
        (places["coarse"], num_coarse),
        places["cursors"],
    )
    listed = cupy.zeros(OVERFLOW_WORDS + 1 + num_fine // 2 + 1, np.uint64)
    overflow, places["pending"] = listed[:OVERFLOW_WORDS], listed[OVERFLOW_WORDS:].data.ptr
    segments = cupy.empty((n // shape.capacity + 1) * SEGMENT_BYTES, np.uint8)
    # The device is still partitioning when the answer is here.
    width_bits, _, plain = outline.wait()
    pending = places["pending"] if plain else None
    if plain:
        exact = elements.payload_bytes == 0 and num_fine * shape.bins >= 1 << width_bits + INTERVAL_BITS
        run_finish_even(
            elements, shape.for_even(n / num_fine), num_fine, codes[1], payloads[1], arrays, places, quantiles, exact
        )
    run_finish(
        elements,
        shape,
        elements.codes,
        num_fine,
        codes[1],
        payloads[1],
        arrays,
        (places["starts"], places["cursors"], 0),
        (overflow, segments),
        pending,
    )
    return overflow, segments


def sort_rows(elements: Elements, keys: Any, num_rows: int, length: int, arrays: Arrays) -> None:
    """Sort each of the rows of a contiguous matrix; rows of more than a block's codes become segments."""
    cupy = require_cupy()
    shapes = tuning.FINISH[elements.shape]
    shape = next((s for s in shapes if length <= s.capacity), None)
    if shape is not None:
        run_finish(elements, shape, elements.source, num_rows, keys, None, arrays, (None, None, length), (None, None))
        return
    segments = cupy.empty(num_rows * SEGMENT_BYTES, np.uint8)
    launch(
        "segments.cu",
        "list_rows",
        -(-num_rows // tuning.SEGMENT_THREADS),
        tuning.SEGMENT_THREADS,
        (segments, np.uint32(num_rows), np.uint64(length)),
    )
    shape = shapes[tuning.MAIN_FINISH[elements.shape]]
    first = (elements.source, keys)
    refine(elements, shape, num_rows * length, arrays, 1, (segments, num_rows, num_rows * length), first)


def refine(
    elements: Elements,
    shape: tuning.Finish,
    n: int,
    arrays: Arrays,
    current: int,
    listed: tuple[Any, int, int],
    first: tuple[str, Any] | None = None,
) -> None:
    """Partition segments by digits of their own, level by level, until all fit a block or hold one code.

    Parameters
    ----------
    current : int
        Which of `arrays.codes` holds the segments.
    listed : tuple
        Device bytes of the segments, their number, and their keys.
    first : tuple, optional
        C++ source and array of the first level, where it is not codes.
    """
    cupy = require_cupy()
    tile = tuning.SEGMENT_PARTITION[elements.shape]
    target = np.uint32(shape.capacity * tuning.SEGMENT_FILL)
    keys_alone = elements.payload_bytes == 0
    positions = str(not keys_alone).lower()
    source_name, source = (
        first[0] if first else elements.codes,
        (first[1], None) if first else (arrays.codes[current], arrays.payloads[current]),
    )
    segments, num_segments, num_keys = listed
    while num_segments:
        count = np.uint32(num_segments)
        blocks = num_keys // tile.keys + num_segments
        template = f"<{source_name}, {elements.payload_type}, {tile.items}>"
        launch("segments.cu", f"number_tiles<{tile.items}>", 1, tuning.SEGMENT_THREADS, (segments, count))
        launch("segments.cu", f"measure_segments{template}", blocks, tuning.SEGMENT_THREADS, (*source, segments, count))
        plan = cupy.zeros(2, np.uint64)
        launch("segments.cu", f"plan_segments<{positions}>", 1, tuning.SEGMENT_THREADS, (segments, count, target, plan))
        num_children, num_constant = Readback(plan).wait()
        if num_constant:
            sink = f"<{elements.sink}, {elements.code_type}, {elements.payload_type}, {tile.items}>"
            launch(
                "segments.cu",
                f"store_constant{sink}",
                blocks,
                tuning.SEGMENT_THREADS,
                (source[1], arrays.keys_out, arrays.positions_out, segments, count),
            )
        if num_children == 0:
            return
        splitters = cupy.empty(num_children * elements.code_bytes, np.uint8)
        counts = cupy.zeros(num_children, np.uint64)
        starts, cursors = cupy.empty((2, num_children), np.uint64)
        launch("segments.cu", f"sample_segments<{source_name}>", num_segments, 256, (source[0], segments, splitters))
        launch(
            "segments.cu",
            f"count_segments{template}",
            blocks,
            tuning.SEGMENT_THREADS,
            (*source, splitters, segments, count, counts),
        )
        launch(
            "segments.cu", "scan_segments", num_segments, tuning.SEGMENT_THREADS, (segments, counts, starts, cursors)
        )
        if keys_alone:
            launch(
                "segments.cu",
                f"fill_segments<{elements.sink}, {elements.code_type}, {tile.items}>",
                blocks,
                tuning.SEGMENT_THREADS,
                (starts, arrays.keys_out, segments, count),
            )
        current = 1 - current
        run_partition(
            elements,
            tile,
            f"SegmentDigits<{elements.code_type}, {str(keys_alone).lower()}>",
            source_name,
            blocks,
            source,
            (arrays.codes[current], arrays.payloads[current]),
            splitters,
            0,
            (segments, num_segments),
            cursors,
        )
        source_name, source = elements.codes, (arrays.codes[current], arrays.payloads[current])
        overflow = cupy.zeros(OVERFLOW_WORDS, np.uint64)
        segments = cupy.empty((n // shape.capacity + 1) * SEGMENT_BYTES, np.uint8)
        codes, payload = source
        table = starts, cursors, 0
        run_finish(elements, shape, elements.codes, num_children, codes, payload, arrays, table, (overflow, segments))
        num_segments, num_keys, _ = Readback(overflow).wait()
