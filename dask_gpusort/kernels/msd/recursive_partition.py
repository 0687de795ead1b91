"""Further levels: segments that fit no block are partitioned by digits of their own until they do.

measure -> plan -> sample -> count -> scan -> partition -> finish
^                                                         |  children that do not fit
+---------------------------------------------------------+
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..block_sort.block_sort import Buckets, list_overflow, run_uniform_block_sort
from ..keys.elements import Arrays, Elements
from ..launch.launch import Launch, Readback
from ..launch.loader import require_cupy
from ..policy import tuning
from ..policy.limits import fit_tile
from .partition import run_partition, segment_digits


def partition_recursively(
    elements: Elements,
    shape: tuning.BlockSortShape,
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
    tile = fit_tile(tuning.SEGMENT_PARTITION[elements.shape], elements, tuning.SEGMENT_MAP_WORDS)
    target = np.uint32(shape.capacity * tuning.SEGMENT_FILL)
    keys_alone = elements.payload_bytes == 0
    base = np.uint64(elements.base)
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
        Launch("msd/segments.cu", f"number_tiles<{tile.items}>", 1, tuning.SEGMENT_THREADS, (segments, count)).run()
        Launch(
            "msd/segments.cu", f"measure_segments{template}", blocks, tuning.SEGMENT_THREADS, (*source, segments, count)
        ).run()
        plan = cupy.zeros(2, np.uint64)
        Launch(
            "msd/segments.cu", f"plan_segments<{positions}>", 1, tuning.SEGMENT_THREADS, (segments, count, target, plan)
        ).run()
        num_children, num_constant = Readback(plan).wait()
        if num_constant:
            sink = f"<{elements.sink}, {elements.code_type}, {elements.payload_type}, {tile.items}>"
            Launch(
                "msd/segments.cu",
                f"store_constant{sink}",
                blocks,
                tuning.SEGMENT_THREADS,
                (source[1], arrays.keys_out, arrays.positions_out, segments, count, base),
            ).run()
        if num_children == 0:
            return
        intervals = cupy.empty(num_children * tuning.INTERVALS_PER_DIGIT, np.uint32)
        counts = cupy.zeros(num_children, np.uint64)
        starts, cursors = cupy.empty((2, num_children), np.uint64)
        Launch(
            "msd/segments.cu",
            f"sample_segments<{source_name}>",
            num_segments,
            tuning.SEGMENT_THREADS,
            (source[0], segments, intervals),
        ).run()
        Launch(
            "msd/segments.cu",
            f"count_segments{template}",
            blocks,
            tuning.SEGMENT_THREADS,
            (*source, intervals, segments, count, counts),
        ).run()
        Launch(
            "msd/segments.cu",
            "scan_segments",
            num_segments,
            tuning.SEGMENT_THREADS,
            (segments, counts, starts, cursors),
        ).run()
        if keys_alone:
            Launch(
                "msd/segments.cu",
                f"fill_segments<{elements.sink}, {elements.code_type}, {tile.items}>",
                blocks,
                tuning.SEGMENT_THREADS,
                (starts, arrays.keys_out, segments, count, base),
            ).run()
        current = 1 - current
        run_partition(
            elements,
            tile,
            segment_digits(elements.code_type, keys_alone),
            source_name,
            blocks,
            source,
            (arrays.codes[current], arrays.payloads[current]),
            intervals,
            0,
            (segments, num_segments),
            cursors,
        )
        source_name, source = elements.codes, (arrays.codes[current], arrays.payloads[current])
        children = Buckets(num_children, starts, cursors, 0, **list_overflow(n, shape.capacity, num_children))
        codes, payload = source
        run_uniform_block_sort(elements, shape, elements.codes, codes, payload, arrays, children)
        segments = children.segments
        num_segments, num_keys, _ = Readback(children.overflow).wait()
