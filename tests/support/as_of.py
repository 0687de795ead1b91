"""As-of joins by their definition: all pairs of elements are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from support import strategies as ours

#: Dtypes whose elements have distances, and those that are joined with each other.
NUMBERS = [np.dtype(name) for name in ("?", "i1", "i4", "i8", "u1", "u4", "f2", "f4", "f8", ">i4", ">f8")]
NUMBERS = [dtype for dtype in NUMBERS if dtype in ours.EVERY]
DATES = [np.dtype(name) for name in ("M8[D]", "M8[ns]", ">M8[us]")]
TIMES = [np.dtype(name) for name in ("m8[s]", ">m8[ms]")]
#: Labels of two arrays that can be equal.
LABELS = st.sampled_from(
    [
        ("i1", "i8"),
        ("f4", "f8"),
        ("?", "u1"),
        ("S1", "S5"),
        ("U1", "U4"),
        (">U3", "U4"),
        ("M8[D]", "M8[ns]"),
        (">i4",) * 2,
    ]
)
#: Dtypes of values.
VALUES = [dtype for dtype in ours.EVERY if dtype.kind in "biufmM"]
DISTRIBUTIONS = ["few", "special", "small", "bits", "zipf"]


def rows_of(left: Any, right: Any, labels: Any, direction: str, tolerance: Any, exact: bool) -> np.ndarray:
    """The row of `right` for each element of `left`, -1 where there is none."""
    dtype = np.result_type(left, right).newbyteorder("=")
    one, other = left.astype(dtype), right.astype(dtype)
    numbers = [each.view(np.int64) if dtype.kind in "mM" else each for each in (one, other)]
    found = np.full(left.shape, -1)
    for at in np.ndindex(left.shape):
        near = [
            row
            for row in range(len(other))
            if other[row] == other[row] and (labels is None or same(labels[0][at], labels[1][row]))
        ]
        back = [row for row in near if other[row] < one[at] or (exact and other[row] == one[at])]
        ahead = [row for row in near if other[row] > one[at] or (exact and other[row] == one[at])]
        both = []
        if back and direction != "forward":
            both.append(max(back, key=lambda row: (numbers[1][row], row)))
        if ahead and direction != "backward":
            both.append(min(ahead, key=lambda row: (numbers[1][row], row)))
        far = [(apart(numbers[0][at], numbers[1][row]), row) for row in both]
        far = [pair for pair in far if tolerance is None or pair[0] <= tolerance]
        if far:
            found[at] = min(far, key=lambda pair: pair[0])[1]
    return found


def apart(one: Any, other: Any) -> Any:
    """The distance of two elements, of floats in their dtype, else exact."""
    if one.dtype.kind == "f":
        return one.dtype.type(0) if one == other else abs(one - other)
    return abs(int(one) - int(other))


def same(one: Any, other: Any) -> bool:
    """Whether two labels are equal; all that are missing are."""
    return bool(one == other or (one != one and other != other))
