"""Hypothesis strategies for reads and writes at positions, and NumPy's results."""

from __future__ import annotations

import math
from typing import Any

import dask
import dask.array as da
import numpy as np
from hypothesis import strategies as st

from support import strategies as ours
from support.sorting import groups

#: Settings of the exchange that all schedulers have.
exchanges = st.sampled_from(("auto", "gather", "tasks"))
INDEX_DTYPES = ("i8", "i4", "u2", "i1", "u8")
SPREADS = ("random", "equal", "few")


def indices_below(size: int, shape: tuple[int, ...], dtype: str, seed: int, spread: str) -> np.ndarray:
    """Random indices of an axis: negative ones too where the dtype has them, all equal ones, or few distinct ones."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    low, high = max(-size, info.min), min(size - 1, info.max)
    if size == 0 or 0 in shape:
        return np.zeros(shape if 0 in shape else (0,) * len(shape), dtype)
    if spread == "equal":
        return np.full(shape, rng.integers(low, high + 1), dtype)
    if spread == "few":
        return rng.choice(rng.integers(low, high + 1, 3), shape).astype(dtype)
    return rng.integers(low, high + 1, shape).astype(dtype)


@st.composite
def lanes(draw: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, int]:
    """An array of a shape, indices that may be broadcast along the other axes, and the axis."""
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    sizes = list(shape)
    sizes[axis] = draw(st.sampled_from([0, 1, 4, shape[axis], 2 * shape[axis]]))
    for dim in range(len(shape)):
        if dim != axis % len(shape):
            sizes[dim] = draw(st.sampled_from([1, shape[dim]])) if shape[dim] != 1 else draw(st.sampled_from([1, 3]))
    if shape[axis] == 0:
        sizes[axis] = 0
    array = ours.make(draw(st.sampled_from(ours.EVERY)), math.prod(shape), "bits", draw(st.integers(0, 99)))
    dtype, spread = draw(st.sampled_from(INDEX_DTYPES)), draw(st.sampled_from(SPREADS))
    indices = indices_below(shape[axis], tuple(sizes), dtype, draw(st.integers(0, 99)), spread)
    return array.reshape(shape), indices, axis


def built(function: Any, exchange: str, count: int | None, *arguments: Any) -> Any:
    """A function's result where an exchange and a number of groups are set, built without a computation."""
    with dask.config.set({"gpusort.exchange": exchange}), groups(count):
        return function(*arguments)


def chunked(draw: Any, array: np.ndarray) -> Any:
    """A Dask array in drawn chunks."""
    return ours.dask_array(array, draw(ours.chunkings(array.shape))) if array.ndim else da.from_array(array)
