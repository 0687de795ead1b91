"""Sorting networks as layers of comparators, for any number of keys.

A comparator ``(low, high)``, with ``low < high``, moves the lesser key to position ``low``. The comparators of a layer
use no position twice, so they may run in parallel. For 4 keys, with time to the right::

    odd-even merge               odd-even transposition

    0 --o-----o--------          0 --o-----o----
        |     |                      |     |
    1 --o-----|-o---o--          1 --o--o--o--o-
              | |   |                   |     |
    2 --o-----o-|---o--          2 --o--o--o--o-
        |       |                    |     |
    3 --o-------o------          3 --o-----o----

Keys added past the end, greater than all others, would never move, so the comparators there are omitted and nothing is
padded. Networks are not stable: for stability, compare (key, position). (Odd-even transposition is stable, since it
exchanges only neighbours.)

References
----------
Batcher, Sorting networks and their applications, AFIPS 1968.
Knuth, The Art of Computer Programming, volume 3, 5.3.4 (the principle of zeros and ones).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Layer = tuple[NDArray[np.int64], NDArray[np.int64]]


def odd_even_merge_steps(n: int) -> Iterator[tuple[int, int]]:
    """Yield the layers of Batcher's odd-even merge sort of `n` keys, as two numbers each: run and distance.

    Runs of 1, 2, 4, ... keys are merged in pairs, with comparators at the distances `run`, `run` / 2, ..., 1.
    """
    run = 1
    while run < n:
        distance = run
        while distance:
            yield run, distance
            distance //= 2
        run *= 2


def odd_even_merge_layers(n: int) -> Iterator[Layer]:
    """Yield the ``m * (m + 1) / 2`` layers of Batcher's odd-even merge sort of `n` keys, for ``m = ceil(log2(n))``.

    Each has the positions compared, shape (comparators,): ``low < high < n``.
    """
    positions = np.arange(n)
    for run, distance in odd_even_merge_steps(n):
        offset = positions - distance % run
        starts = (offset >= 0) & (offset // distance % 2 == 0) & (positions + distance < n)
        low = positions[starts & (positions // (2 * run) == (positions + distance) // (2 * run))]
        yield low, low + distance


def odd_even_transposition_layers(n: int) -> Iterator[Layer]:
    """Odd-even transposition of `n` keys: n layers of neighbours, alternately from even and from odd positions.

    Yields as `odd_even_merge_layers`.
    """
    for layer in range(n):
        low = np.arange(layer % 2, n - 1, 2)
        yield low, low + 1


def apply(layers: Iterator[Layer], keys: NDArray[Any]) -> NDArray[Any]:
    """Run keys, shape (n, ...), through a network; each column along the first axis is sorted separately."""
    keys = keys.copy()
    for low, high in layers:
        first, second = keys[low], keys[high]
        keys[low], keys[high] = np.minimum(first, second), np.maximum(first, second)
    return keys
