"""Hypothesis strategies for order statistics, each with NumPy's function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.lib import NumpyVersion

from dask_gpusort.table import METHODS, Statistic


@st.composite
def statistics_of(draw: Any) -> tuple[Statistic, Any]:
    """A statistic, and NumPy's function of an array, an axis and keepdims."""
    skip_nan = draw(st.booleans())
    if draw(st.booleans()):
        return Statistic.median(skip_nan=skip_nan), np.nanmedian if skip_nan else np.median
    q = draw(st.sampled_from([0.5, 0, [0.1, 0.9, 0.5], np.float32(0.7), np.array([[0.2], [1]]), [0.25]]))
    method = draw(st.sampled_from(list(METHODS)))
    function = np.nanquantile if skip_nan else np.quantile
    return Statistic.quantiles(q, method, skip_nan=skip_nan), partial(function, q=q, method=method)


#: Since 2.4 NumPy takes `q` as it is; before, a Python number, and any of percentiles, in the dtype of float keys.
TAKES_Q_AS_GIVEN = NumpyVersion(np.__version__) >= "2.4.0"


def given_to_numpy(q: Any) -> Any:
    """The same `q`, in an array if NumPy would take a number in the dtype of float keys."""
    return np.asarray(q) if isinstance(q, (int, float)) and not TAKES_Q_AS_GIVEN else q


def without_extremes(array: np.ndarray) -> np.ndarray:
    """The same keys in the middle of their range: `numpy.nanmedian` adds keys to themselves, which can overflow."""
    if array.dtype.kind == "f":
        array = np.clip(array, -30_000, 30_000)
    elif array.dtype.kind in "mM":
        array = np.where(np.isnat(array), array, np.clip(array.astype("i8"), -(1 << 40), 1 << 40).astype(array.dtype))
    return array


def where_sums_fit(function: Callable[[np.ndarray], Any], array: np.ndarray) -> tuple[Any, np.ndarray]:
    """What a function of NumPy finds of keys, and these keys: without extremes if it refuses them.

    Since 2.5, NumPy refuses sums and differences of times that overflow; before, they wrapped.
    """
    try:
        return function(array), array
    except OverflowError:
        array = without_extremes(array)
        return function(array), array
