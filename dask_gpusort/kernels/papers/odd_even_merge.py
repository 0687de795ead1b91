"""Launches of the sorting networks (``network.cu``) on a whole array, one launch a layer.

The form in which networks are usually shown; it moves every key once a layer, so it is there to read and to compare
with, and `merge_sort` is there to be fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...network import odd_even_merge_steps
from ..keys.less import Comparison
from ..launch.launch import Launch

SOURCE = "papers/odd_even_merge.cu"
THREADS = 256


def launch_layer(kernel: str, comparison: Comparison, codes: Any, positions: Any, numbers: tuple[int, ...]) -> None:
    """Launch one layer: a thread a comparator, of which there are at most half as many as keys."""
    value = "NoValue" if positions is None else "u32"
    name = f"{kernel}<{comparison.code}, {value}, {comparison.less}>"
    arguments = (codes, positions, np.uint64(codes.size), *(np.uint64(number) for number in numbers))
    blocks = -(-(codes.size // 2) // THREADS)
    Launch(SOURCE, name, blocks, THREADS, arguments, expression=comparison.expression).run()


def odd_even_merge(comparison: Comparison, codes: Any, positions: Any) -> None:
    """Sort codes in place by Batcher's odd-even merge network.

    Parameters
    ----------
    comparison : Comparison
    codes : array, shape (n,)
        Any n.
    positions : uint32 array, shape (n,), or None
        Moved with the codes; ascending, they keep equal codes in their order.

    References
    ----------
    Batcher, Sorting networks and their applications, AFIPS 1968.
    """
    for step in odd_even_merge_steps(codes.size):
        launch_layer("exchange_layer", comparison, codes, positions, step)


def odd_even_transposition(comparison: Comparison, codes: Any, positions: Any) -> None:
    """Sort codes in place by odd-even transposition: n layers, so for few keys; parameters as `odd_even_merge`."""
    for layer in range(codes.size):
        launch_layer("exchange_neighbours", comparison, codes, positions, (layer % 2,))
