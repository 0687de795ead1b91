"""Batcher, "Sorting networks and their applications" (AFIPS 1968): networks over a whole array (``odd_even_merge.cu``).

One launch per layer, so that every key is read and written once per layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...network import odd_even_merge_steps
from ..keys.dtypes import USER_LESS, by_expression
from ..launch.arrays import NO_VALUE
from ..launch.launch import Launch, blocks_for, instance

SOURCE = "papers/odd_even_merge.cu"
THREADS = 256


def launch_layer(kernel: str, keys: Any, less: str, positions: Any, numbers: tuple[int, ...]) -> None:
    """Launch one layer: one thread per comparator, of which a layer has at most n / 2."""
    value = NO_VALUE if positions is None else "u32"
    name = instance(kernel, by_expression(keys.dtype, less).code, value, USER_LESS)
    arguments = (keys, positions, np.uint64(keys.size), *(np.uint64(number) for number in numbers))
    Launch(SOURCE, name, blocks_for(keys.size // 2, THREADS), THREADS, arguments, expression=less).run()


def odd_even_merge(keys: Any, positions: Any = None, less: str = "a < b") -> None:
    """Sort keys, and uint32 positions with them, in place by Batcher's network (AFIPS 1968) and a user's comparison."""
    # Where the positions ascend at first, equal keys keep their order.
    for step in odd_even_merge_steps(keys.size):
        launch_layer("exchange_layer", keys, less, positions, step)


def odd_even_transposition(keys: Any, positions: Any = None, less: str = "a < b") -> None:
    """Sort keys in place by odd-even transposition: n layers, for few keys only; parameters as `odd_even_merge`."""
    for layer in range(keys.size):
        launch_layer("exchange_neighbours", keys, less, positions, (layer % 2,))
