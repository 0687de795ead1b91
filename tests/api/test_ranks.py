"""Tests of `rank` against its definition, which counts lesser and equal elements."""

from __future__ import annotations

import math

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import strategies as ours
from support.sorting import check_sizes, computed, groups

import dask_gpusort
from dask_gpusort.chunk.tie_ranks import METHODS, NAN_POLICIES

#: NumPy compares these by value.
DTYPES = [np.dtype(name) for name in ("?", "i1", "i8", "u8", "f2", "f4", "f8", ">f8", "M8[D]", "m8[s]", "U3", "S2")]
methods = st.sampled_from(METHODS)


def rank_of_lane(lane, method, nan_policy, pct):
    """The ranks of a lane as floats."""
    nan = lane != lane if lane.dtype.kind in "fmM" else np.zeros(len(lane), bool)
    held = lane[~nan]
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


def expected(array, axis, *options):
    if axis is None:
        return rank_of_lane(array.ravel(), *options)
    found = np.empty(array.shape)
    rows, to_fill = np.moveaxis(array, axis, -1), np.moveaxis(found, axis, -1)
    for index in np.ndindex(rows.shape[:-1]):
        to_fill[index] = rank_of_lane(rows[index], *options)
    return found


def check(x, array, axis, method, nan_policy, pct):
    found = dask_gpusort.rank(x, axis, method=method, nan_policy=nan_policy, pct=pct)
    got = computed(found)
    may_be_nan = array.dtype.kind in "fmM" and nan_policy != "raise"
    assert got.dtype == found.dtype == (np.float64 if method == "average" or pct or may_be_nan else np.int64)
    np.testing.assert_array_equal(got, expected(array, axis, method, nan_policy, pct))
    return found


@given(st.data(), ours.arrays(DTYPES), methods, st.sampled_from(["omit", "propagate"]), st.booleans(), ours.groups)
def test_one_dimension(data, array, method, nan_policy, pct, count):
    # With query planning, Dask computes no chunks of unknown sizes.
    unknown = not da.array_expr_enabled() and data.draw(st.booleans())
    x = ours.dask_array(array, data.draw(ours.chunkings(array.shape)), unknown=unknown)
    with groups(count):
        found = check(x, array, data.draw(st.sampled_from([None, 0, -1])), method, nan_policy, pct)
    if not unknown:
        assert found.chunks == x.chunks
        check_sizes(found)


@given(st.data(), st.sampled_from([(5, 7), (1, 9), (4, 0), (3, 4, 5)]), methods, st.booleans())
def test_any_axis(data, shape, method, pct):
    dtype = data.draw(st.sampled_from(DTYPES))
    array = ours.make(dtype, math.prod(shape), data.draw(st.sampled_from(ours.DISTRIBUTIONS))).reshape(shape)
    x = ours.dask_array(array, data.draw(ours.chunkings(shape)))
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    found = check(x, array, axis, method, data.draw(st.sampled_from(["omit", "propagate"])), pct)
    if axis is not None:
        assert found.chunks == x.chunks
        check_sizes(found)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("method", METHODS)
def test_lanes_that_no_chunk_holds(method, axis, monkeypatch):
    monkeypatch.setattr("dask_gpusort.graph.select.statistics.chunk_limit", lambda array: 0)
    array = np.random.default_rng(0).integers(0, 9, (12, 10)).astype("f4")
    array[3, 4] = np.nan
    x = da.from_array(array, chunks=(5, 4))
    assert check(x, array, axis, method, "omit", True).chunks == x.chunks


@pytest.mark.parametrize("shape", [(40,), (8, 5)])
@pytest.mark.parametrize("axis", [None, 0])
def test_nan_raise_on_request(shape, axis):
    array = np.arange(40.0).reshape(shape)
    x = da.from_array(array, chunks=7)
    check(x, array, axis, "min", "raise", False)
    with pytest.raises(ValueError, match="The input contains nan values"):
        computed(dask_gpusort.rank(da.where(x == 3, np.nan, x), axis, nan_policy="raise"))


def test_all_policies_and_methods_are_known():
    assert METHODS == ("average", "min", "max", "dense", "ordinal")
    assert NAN_POLICIES == ("propagate", "omit", "raise")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"method": "first"}, ValueError, "method must be one of 'average'"),
        ({"nan_policy": "drop"}, ValueError, "nan_policy must be one of"),
        ({"axis": 1}, np.exceptions.AxisError, "axis 1"),
    ],
)
def test_wrong_arguments(options, error, text):
    with pytest.raises(error, match=text):
        dask_gpusort.rank(da.ones(4, chunks=2), **options)


def test_lanes_of_unknown_sizes_are_refused():
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        dask_gpusort.rank(ours.forget_sizes(da.ones((4, 4), chunks=2)), 0)


def test_the_graph_is_built_without_computing(raise_if_computes):
    with raise_if_computes():
        x = da.ones((20, 8), chunks=4)
        for axis in (None, 0, 1):
            dask_gpusort.rank(x, axis, pct=True)


def test_on_a_cluster(on_cluster):
    array = ours.make("f8", 3000, "small")
    found = dask_gpusort.rank(da.from_array(array, chunks=300), method="ordinal").compute()
    np.testing.assert_array_equal(found, expected(array, None, "ordinal", "propagate", False))
