"""Samples of keys that are in several parts (``draw.cu``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..launch.cxx_types import type_of_bytes
from ..launch.grid import blocks_for, instance
from ..launch.launch import Launch
from ..launch.loader import require_cupy

SOURCE = "select/draw.cu"
THREADS = 256


def draw(parts: Sequence[Any], stratum: int, count: int) -> Any:
    """One key of each of the first `count` strata of some parts; see `kernels.draw_samples`."""
    sample = require_cupy().empty(count, parts[0].dtype)
    kernel = instance("draw_keys", type_of_bytes(sample.itemsize))
    for part, first in zip(parts, accumulate(map(len, parts), initial=0), strict=False):
        begin, end = first // stratum, min(-(-(first + len(part)) // stratum), count)
        numbers = np.uint64(first), np.uint64(len(part)), np.uint64(stratum), np.uint32(begin), np.uint32(end)
        blocks = blocks_for(max(end - begin, 0), THREADS)
        Launch(SOURCE, kernel, blocks, THREADS, (part, *numbers, sample)).run()
    return sample
