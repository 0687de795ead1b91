"""Sorting networks as layers of comparators, for any number of keys.

A comparator ``(low, high)``, with ``low < high``, leaves the lesser key at place ``low``. The comparators of one layer
touch no place twice, so they may run at once. Drawn for 4 keys, time to the right::

    odd-even merge               odd-even transposition

    0 --o-----o--------          0 --o-----o----
        |     |                      |     |
    1 --o-----|-o---o--          1 --o--o--o--o-
              | |   |                   |     |
    2 --o-----o-|---o--          2 --o--o--o--o-
        |       |                    |     |
    3 --o-------o------          3 --o-----o----

The lesser key always goes to the lower place. Keys past the end, taken as greater than all, would never move: their
comparators are left out, and nothing is padded. Networks are not stable: compare (key, position) where that matters.
(Odd-even transposition is stable as it is, since only neighbours are exchanged.)

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

__all__ = ["apply", "odd_even_merge_layers", "odd_even_merge_steps", "odd_even_transposition_layers"]

Layer = tuple[NDArray[np.int64], NDArray[np.int64]]


def odd_even_merge_steps(n: int) -> Iterator[tuple[int, int]]:
    """The layers of Batcher's odd-even merge sort, as two numbers each.

    Parameters
    ----------
    n : int
        Number of keys.

    Yields
    ------
    run : int
        Keys of the sorted runs that are being merged in pairs: 1, 2, 4, ...
    distance : int
        Places between the ends of the layer's comparators: `run`, then its half, and so on to 1.
    """
    run = 1
    while run < n:
        distance = run
        while distance:
            yield run, distance
            distance //= 2
        run *= 2


def odd_even_merge_layers(n: int) -> Iterator[Layer]:
    """Batcher's odd-even merge sort.

    Parameters
    ----------
    n : int
        Number of keys.

    Yields
    ------
    low, high : int64 arrays, shape (comparators,)
        Places of the comparators of one layer, ``low < high < n``. The number of layers is ``m * (m + 1) / 2`` where
        ``m`` is the number of doublings from 1 to n, rounded up.
    """
    places = np.arange(n)
    for run, distance in odd_even_merge_steps(n):
        offset = places - distance % run
        starts = (offset >= 0) & (offset // distance % 2 == 0) & (places + distance < n)
        low = places[starts & (places // (2 * run) == (places + distance) // (2 * run))]
        yield low, low + distance


def odd_even_transposition_layers(n: int) -> Iterator[Layer]:
    """Odd-even transposition: n layers that exchange neighbours, from even and from odd places in turn.

    Parameters
    ----------
    n : int
        Number of keys.

    Yields
    ------
    low, high : int64 arrays, shape (comparators,)
    """
    for layer in range(n):
        low = np.arange(layer % 2, n - 1, 2)
        yield low, low + 1


def apply(layers: Iterator[Layer], keys: NDArray[Any]) -> NDArray[Any]:
    """Run keys through a network.

    Parameters
    ----------
    layers : iterator of (low, high)
    keys : array, shape (n, ...)
        Each column, along the first axis, is sorted on its own.

    Returns
    -------
    array, same shape
    """
    keys = keys.copy()
    for low, high in layers:
        first, second = keys[low], keys[high]
        keys[low], keys[high] = np.minimum(first, second), np.maximum(first, second)
    return keys
