"""Pairs of a row and a sorted key that is equal, of NumPy and CuPy chunks: rows know the first and the last position.

::

    first   2 5 5     rows         0 0   2     a row of which `first` is `last` has no key: it is in no pair,
    last    4 5 6     positions    2 3   5     or if all rows are kept in one of position -1
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import complete


def list_pairs(first: Any, last: Any, rows: Any = None, *, keep: bool) -> Any:
    """Task: the row of each pair, or without rows the position of its key; `keep` says whether all rows are kept."""
    counts = np.maximum(last - first, 1) if keep else last - first
    starts, step = (np.where(first == last, -1, first), 1) if rows is None else (rows, 0)
    starts, counts = starts[counts > 0], counts[counts > 0]
    # CuPy repeats by no array of counts, so differences are summed up: a step, or at the end of a row the next start.
    differences = np.full_like(starts, step, shape=int(counts.sum()))
    differences[:1] = starts[:1]
    differences[np.cumsum(counts[:-1])] = starts[1:] - starts[:-1] - step * (counts[:-1] - 1)
    return complete(np.cumsum(differences))


def list_alone(first: Any, last: Any, rows: Any) -> Any:
    """Task: the rows without a key."""
    return complete(rows[first == last])
