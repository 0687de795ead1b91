"""Hypothesis strategies for weights, and NumPy's weighted quantiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from support.statistics import TAKES_Q_AS_GIVEN


@st.composite
def weights_of(draw: Any, shape: Any) -> np.ndarray:
    """Weights whose sums are exact: integers, or eighths; some of them zero, but none of the first along each axis."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = np.dtype(draw(st.sampled_from(("?", "u1", "i8", "f4", "f8"))))
    found = rng.integers(0, draw(st.sampled_from([2, 4, 100])), math.prod(shape))
    if draw(st.booleans()):
        found = np.sort(found)
    found = found.reshape(shape)
    for dim in range(found.ndim):
        first = found.swapaxes(0, dim)[:1]
        first[...] = np.maximum(first, 1)
    found = found.astype(dtype)
    return (found / 8 if dtype.kind == "f" else found).astype(dtype)


def quantiles_of_weights(name: str, array: np.ndarray, q: Any, axis: Any, weights: np.ndarray, **options: Any) -> Any:
    """NumPy's result. Its functions that skip NaN need weights of the whole shape."""
    if weights.shape != array.shape:
        axes = [one % array.ndim for one in ((axis,) if isinstance(axis, int) else axis)]
        kept = [size for dim, size in enumerate(array.shape) if dim not in axes]
        whole = np.broadcast_to(weights, [*kept, *weights.shape])
        weights = np.moveaxis(whole, range(-len(axes), 0), axes)
    assume(TAKES_Q_AS_GIVEN or not isinstance(axis, tuple))  # before 2.4 NumPy mixes up several axes of weights
    if "nan" in name:
        present = array == array
        totals = np.where(present, weights, 0).sum(axis)
        assume(((totals > 0) | ~present.any(axis)).all())  # else NumPy refuses the weights
    if "percent" in name and not TAKES_Q_AS_GIVEN:
        name, q = name.replace("percentile", "quantile"), np.asarray(np.true_divide(q, 100))
    return np.asarray(getattr(np, name)(array, q, axis, weights=weights, **options))
