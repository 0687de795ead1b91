"""Tests of `rank` against its definition, which counts lesser and equal elements."""

from __future__ import annotations

from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.marks import for_each
from support.ranks import ranks_of_lanes
from support.sorting import computed

import dask_gpusort
from dask_gpusort.chunk.tie_groups import METHODS, NAN_POLICIES


def check(x, array, axis, method, nan_policy, pct, descending=False):
    found = dask_gpusort.rank(x, axis, method=method, nan_policy=nan_policy, pct=pct, descending=descending)
    got = computed(found)
    may_be_nan = array.dtype.kind in "fmM" and nan_policy != "raise"
    assert got.dtype == found.dtype == (np.float64 if method == "average" or pct or may_be_nan else np.int64)
    np.testing.assert_array_equal(got, ranks_of_lanes(array, axis, method, nan_policy, pct, descending))
    return found


@for_each(product(["i1", "u8", "?", "f2", ">f8", "c16", "M8[D]", "S3", "U2", "T", "O", "f4,i2"], [40, 7], METHODS))
def test_descending_ranks_are_those_of_negated_ranks(dtype, chunks, method):
    """The greatest element has rank 1, also of dtypes without negation."""
    keys = ours.make(np.dtypes.StringDType() if dtype == "T" else dtype, 40, "small" if dtype == "O" else "few")
    x = da.from_array(keys, chunks=chunks)
    dense = computed(dask_gpusort.rank(x, method="dense", nan_policy="omit"))
    found = dask_gpusort.rank(x, method=method, nan_policy="omit", descending=True)
    wanted = dask_gpusort.rank(da.from_array(-dense, chunks=chunks), method=method, nan_policy="omit")
    np.testing.assert_array_equal(computed(found), computed(wanted))


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


@pytest.mark.parametrize("method", METHODS)
def test_ties_and_nan_in_several_chunks(method):
    array = np.array([2, np.nan, 1, 2, 2, 0, 1, np.nan, 3, 2, 2, 3])
    with dask.config.set({"gpusort.exchange": "gather", "gpusort.groups": 3}):
        check(da.from_array(array, chunks=2), array, 0, method, "omit", False)
