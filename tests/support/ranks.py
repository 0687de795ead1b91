"""Ranks of keys by their definition, which counts lesser and equal ones."""

from __future__ import annotations

from typing import Any

import numpy as np


def ranks_of_lanes(array: np.ndarray, axis: int | None, *options: Any) -> np.ndarray:
    """The ranks in each lane as floats."""
    if axis is None:
        return _ranks_of_lane(array.ravel(), *options)
    found = np.empty(array.shape)
    rows, to_fill = np.moveaxis(array, axis, -1), np.moveaxis(found, axis, -1)
    for index in np.ndindex(rows.shape[:-1]):
        to_fill[index] = _ranks_of_lane(rows[index], *options)
    return found


def _ranks_of_lane(lane: np.ndarray, method: str, nan_policy: str, pct: bool, descending: bool = False) -> np.ndarray:
    nan = lane != lane if lane.dtype.kind in "fmM" else np.zeros(len(lane), bool)
    held = lane[~nan]
    if descending:
        held = -np.unique(held, return_inverse=True)[1]
    less = (held[:, None] > held).sum(axis=1)
    equal = (held[:, None] == held).sum(axis=1)
    found = {
        "average": less + (equal + 1) / 2,
        "min": less + 1,
        "max": less + equal,
        "dense": np.searchsorted(np.unique(held), held) + 1,
        "ordinal": np.argsort(np.argsort(held, kind="stable")) + 1,
    }[method]
    ranks = np.full(len(lane), np.nan)
    if nan_policy == "omit" or not nan.any():
        ranks[~nan] = found / len(held) if pct and len(held) else found
    return ranks
