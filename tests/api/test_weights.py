"""Weighted quantiles against NumPy, for every strategy."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import NumpyVersion
from support.sorting import computed

import dask_gpusort
from dask_gpusort.chunk.lanes import combine_picked, pick_keys, sum_weights
from dask_gpusort.table import Statistic

METHOD = {"method": "inverted_cdf"}


@pytest.mark.parametrize("nans", [0, 2000])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_whole_lanes_have_the_bits_of_numpy(name, nans):
    """Weights whose sums are rounded, in NumPy's order of equal keys, and shares of them as quantiles."""
    rng = np.random.default_rng(0)
    array, weights = rng.integers(0, 20, (50, 300)).astype("f4"), rng.random((50, 300))
    array[1:].reshape(-1)[rng.integers(0, 49 * 300, nans)] = np.nan
    ordered = np.cumsum(weights[0][np.argsort(array[0])])
    shares = np.minimum(ordered / ordered[-1], 1)
    for axis, q in product((0, 1, None), (shares, shares[:3], shares[150])):
        given_q = q if np.ndim(q) else float(q)
        got = getattr(dask_gpusort, name)(
            da.from_array(array, chunks=(20, 150)), given_q, axis, weights=weights, strategy="rechunk", **METHOD
        )
        expected = getattr(np, name)(array, given_q, axis, weights=weights, **METHOD)
        np.testing.assert_array_equal(computed(got), expected)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
def test_parts_of_a_lane_pick_the_keys_of_the_whole(weights, data):
    """The definition: the first key up to which the sum of weights is at least the share, and is not zero."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(weights)), max_size=4)))
    statistic = Statistic.quantiles([0, 0.25, 0.5, 1], "inverted_cdf")
    keys = np.split(np.arange(len(weights)), cuts)
    loads = np.split(np.array(weights), cuts)
    sums = np.concatenate([sum_weights(*part, statistic) for part in zip(keys, loads, strict=True)])
    picked = [pick_keys(*part, sums, number, statistic) for number, part in enumerate(zip(keys, loads, strict=True))]
    total = sum(weights)
    if total == 0:
        with pytest.raises(ValueError, match="all zero"):
            combine_picked(picked, statistic)
        return
    ends = np.cumsum(weights)
    expected = [np.flatnonzero((ends >= q * total) & (ends > 0))[0] for q in statistic.q]
    assert combine_picked(picked, statistic).tolist() == expected


@pytest.mark.parametrize(("keys", "strategy"), [("f8", "samples"), ("f8", "rechunk"), ("O", "auto")])
@pytest.mark.parametrize("weights", [[1, -1, 2, 3], [0, 0, 0, 0], [1, np.nan, 0, 1], [1, np.inf, 0, 1]], ids=str)
def test_bad_weights_raise_in_the_computation(weights, keys, strategy):
    array = np.arange(4.0).astype(keys)
    lazy = dask_gpusort.quantile(da.from_array(array, chunks=2), 0.5, weights=weights, strategy=strategy, **METHOD)
    with pytest.raises(ValueError, match="Weights (must be|included)") as found:
        computed(lazy)
    if min(weights) < 0 or NumpyVersion(np.__version__) >= "2.4.0":  # before, NumPy refused no others
        with pytest.raises(ValueError, match="Weights") as expected, np.errstate(all="ignore"):
            np.quantile(array, 0.5, weights=weights, **METHOD)
        assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("skip_nan", [False, True])
def test_objects(skip_nan):
    array = np.array([[3, 1, 2], [6, 5, 4]], object)
    name = "nanquantile" if skip_nan else "quantile"
    got = getattr(dask_gpusort, name)(da.from_array(array, chunks=(1, 2)), [0.2, 0.9], 1, weights=[1, 2, 3], **METHOD)
    assert computed(got).tolist() == [[1, 4], [3, 6]]


@pytest.mark.parametrize("chunks", [-1, 3])
@pytest.mark.parametrize("keys", ["f8", "i4", "O"])
def test_weights_that_are_objects(keys, chunks):
    array = np.arange(8)[::-1].astype(keys)
    weights = np.array([Fraction(1, number + 1) for number in range(8)])
    for q in (0.5, Fraction(1, 3), [Fraction(1, 3), Fraction(3, 4)]):
        for name in ("quantile", "nanquantile"):
            found = getattr(dask_gpusort, name)(da.from_array(array, chunks=chunks), q, weights=weights, **METHOD)
            np.testing.assert_array_equal(computed(found), getattr(np, name)(array, q, weights=weights, **METHOD))
