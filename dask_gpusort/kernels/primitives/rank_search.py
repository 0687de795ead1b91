"""Rank look-ups: the launch of kernels that search sorted keys for needles, with one thread for each needle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..launch.array_checks import check_side
from ..launch.grid import blocks_for, instance
from ..launch.launch import Launch
from ..launch.loader import require_cupy

THREADS = 256  # the launch bound of the kernels that have one


def search_ranks(
    source: str,
    kernel: str,
    types: Sequence[str],
    keys: Any,
    needles: Any,
    side: str,
    *,
    expression: str | None = None,
) -> Any:
    """Rank needles, shape (k,) or (k, width), among sorted keys, as `numpy.searchsorted`, into int64.

    `types` are template arguments of the kernel, without the last one, which is true for the right side.
    """
    # The kernel's parameters are the keys, the length of each of their dimensions, the needles, the ranks, and the
    # number of needles.
    check_side(side)
    ranks = require_cupy().empty(len(needles), np.int64)
    lengths = tuple(np.uint64(length) for length in keys.shape)
    Launch(
        source,
        instance(kernel, *types, side == "right"),
        blocks_for(len(needles), THREADS),
        THREADS,
        (keys, *lengths, needles, ranks, np.uint64(len(needles))),
        expression=expression,
    ).run()
    return ranks
