"""Batcher, "Sorting networks and their applications" (AFIPS 1968): networks over a whole array (``odd_even_merge.cu``).

One launch per layer, so that every key is read and written once per layer: these sorts are there to read and to compare
with. `merge.merge_sort` is the fast comparison sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...network import odd_even_merge_steps
from ..keys.less import Comparison
from ..launch.cxx_types import NO_VALUE
from ..launch.launch import Launch, blocks_for, instance

SOURCE = "papers/odd_even_merge.cu"
THREADS = 256


def launch_layer(kernel: str, comparison: Comparison, codes: Any, positions: Any, numbers: tuple[int, ...]) -> None:
    """Launch one layer: one thread per comparator, of which a layer has at most n / 2."""
    value = NO_VALUE if positions is None else "u32"
    name = instance(kernel, comparison.code, value, comparison.less)
    arguments = (codes, positions, np.uint64(codes.size), *(np.uint64(number) for number in numbers))
    blocks = blocks_for(codes.size // 2, THREADS)
    Launch(SOURCE, name, blocks, THREADS, arguments, expression=comparison.expression).run()


def odd_even_merge(comparison: Comparison, codes: Any, positions: Any) -> None:
    """Sort codes, and uint32 positions with them, in place by Batcher's network (AFIPS 1968).

    Where the positions ascend at first, equal codes keep their order.
    """
    for step in odd_even_merge_steps(codes.size):
        launch_layer("exchange_layer", comparison, codes, positions, step)


def odd_even_transposition(comparison: Comparison, codes: Any, positions: Any) -> None:
    """Sort codes in place by odd-even transposition: n layers, for few keys only; parameters as `odd_even_merge`."""
    for layer in range(codes.size):
        launch_layer("exchange_neighbours", comparison, codes, positions, (layer % 2,))
