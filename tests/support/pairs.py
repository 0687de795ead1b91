"""Equi-joins by their definition: all pairs of rows are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from support import as_of
from support import strategies as ours

#: Dtypes whose elements can be equal.
KINDS = [
    as_of.NUMBERS,
    as_of.DATES,
    as_of.TIMES,
    *([np.dtype(name) for name in names] for names in (("S1", "S5", "S17"), ("U1", "U4", ">U3"), ("c8",), ("u8",))),
]
KINDS = [[dtype for dtype in kind if dtype in ours.EVERY] for kind in KINDS]
DISTRIBUTIONS = ["constant", "few", "few", "special", "small", "bits", "zipf"]
HOW = ("inner", "left", "right", "outer")


def pairs_of(left: Sequence[Any], right: Sequence[Any], how: str) -> list[np.ndarray]:
    """Rows of both sides."""
    equal = np.ones((len(left[0]), len(right[0])), bool)
    for one, other in zip(left, right, strict=True):
        dtype = np.result_type(one, other)
        equal &= same(one.astype(dtype)[:, None], other.astype(dtype)[None, :])
    rows, others = np.nonzero(equal)  # in C order
    if how == "right":
        others, rows = np.nonzero(equal.T)
    alone, others_alone = np.flatnonzero(~equal.any(1)), np.flatnonzero(~equal.any(0))
    if how in ("left", "outer"):
        rows, others = (np.concatenate(both) for both in ((rows, alone), (others, np.full_like(alone, -1))))
        order = np.argsort(rows, kind="stable")
        rows, others = rows[order], others[order]
    if how == "outer":
        rows, others = np.append(rows, np.full_like(others_alone, -1)), np.append(others, others_alone)
    if how == "right":
        rows, others = (
            np.concatenate(both) for both in ((rows, np.full_like(others_alone, -1)), (others, others_alone))
        )
        order = np.argsort(others, kind="stable")
        rows, others = rows[order], others[order]
    return [rows, others]


def same(one: Any, other: Any) -> Any:
    """Whether elements are equal; all that are missing are, of complex numbers each part."""
    if one.dtype.kind == "c":
        return same(one.real, other.real) & same(one.imag, other.imag)
    return (one == other) | ((one != one) & (other != other))
