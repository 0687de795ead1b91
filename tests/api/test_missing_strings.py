"""Missing strings, and objects that are NaN, besides what `test_functions` draws: modes, companions, groups, errors."""

from __future__ import annotations

import functools
import math

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.dtypes import StringDType
from support import oracle
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort

DTYPES = [*(StringDType(na_object=one) for one in (math.nan, ours.UNKNOWN, np.datetime64("NaT"))), np.dtype(object)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chunks", [2, 5])
def test_distinct_strings_and_their_counts(chunks, dtype):
    missing = getattr(dtype, "na_object", math.nan)
    array = np.array(["b", missing, "a", missing, "b", missing], object).astype(dtype)
    x = da.from_array(array, chunks=chunks, name=False)
    values, counts = dask.compute(*dask_gpusort.unique(x, return_counts=True))
    assert (values.tolist()[:2], counts.tolist()) == (["a", "b"], [1, 2, 3])
    oracle.assert_same_values(values, np.array(["a", "b", missing], object).astype(dtype))  # NumPy 2.2 leaves NaN out
    assert [computed(one) for one in dask_gpusort.mode(x, nan_policy="omit")] == ["b", 2]
    for source, times in ((x, 3), (x[:0], 0)):
        found, count = dask.compute(*dask_gpusort.mode(source, keepdims=True))
        oracle.assert_same_values(found, array[1:2])
        assert count == times
    for function in (dask_gpusort.rank, dask_gpusort.mode):
        with pytest.raises(ValueError, match="contains nan"):
            dask.compute(function(x, nan_policy="raise"))


def test_companions_and_rows_of_missing_strings():
    array = np.array([["b", np.nan, "a"], ["a", "a", np.nan]], DTYPES[0])
    x = da.from_array(array, chunks=(1, 2))
    keys, positions = dask.compute(*dask_gpusort.sort_by_key(x, da.from_array(np.arange(6).reshape(2, 3), chunks=2)))
    oracle.assert_same_values(keys, np.array([["a", "b", np.nan], ["a", "a", np.nan]], DTYPES[0]))
    assert positions.tolist() == [[2, 0, 1], [3, 4, 5]]
    assert computed(dask_gpusort.nunique(x, axis=1)).tolist() == [3, 2]
    found = computed(dask_gpusort.rank(x, axis=1, method="min", nan_policy="omit"))
    np.testing.assert_array_equal(found, [[2, np.nan, 1], [1, 1, np.nan]])


def test_groups_that_lack_strings_have_missing_ones():
    x = da.from_array(np.array(["a", "b", np.nan, "b"], DTYPES[0]), chunks=3)
    for by in (np.array([1, 1, 2, 2]), da.from_array([1, 1, 2, 2], chunks=2)):
        mode, count = dask.compute(*dask_gpusort.mode(x, by=by, groups=[2, 7, 1], nan_policy="omit"))
        oracle.assert_same_values(mode, np.array(["b", np.nan, "a"], x.dtype))
        assert count.tolist() == [1, 0, 1]


@pytest.mark.parametrize("missing", ["", "b"])
def test_missing_strings_that_are_strings(missing):
    dtype = StringDType(na_object=missing)
    array = np.array(["b", missing, "a", missing, ""], dtype)
    x = da.from_array(array, chunks=2)
    for mine, wanted in zip(dask_gpusort.unique(x, True, True, True), np.unique(array, True, True, True), strict=True):
        np.testing.assert_array_equal(computed(mine), wanted)
    assert computed(dask_gpusort.rank(x, method="min", nan_policy="raise")).dtype == np.int64


NONE = np.array(["a", "b", None, "c"], StringDType(na_object=None))


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize(
    "function",
    [
        *(getattr(dask_gpusort, name) for name in ("sort", "argsort", "unique", "nunique", "rank", "is_sorted")),
        functools.partial(dask_gpusort.sort, descending=True),
        functools.partial(dask_gpusort.sort, exchange="join"),
        functools.partial(dask_gpusort.topk, k=2),
        lambda x: dask_gpusort.isin(x[:2], x),
        lambda x: dask_gpusort.lexsort([x, x]),
        lambda x: dask_gpusort.merge_sorted(x[:2], x[2:]),
    ],
)
def test_missing_strings_without_an_order_are_named(function, chunks):
    with pytest.raises(ValueError, match=r"Cannot compare null.*None \(element \d of a chunk\).*astype"), groups(2):
        dask.compute(function(da.from_array(NONE, chunks=chunks)), scheduler="sync")


def test_the_remedy_for_missing_strings_without_an_order():
    x = da.from_array(NONE, chunks=2).astype(StringDType(na_object=np.nan))
    assert computed(dask_gpusort.argsort(x)).tolist() == [0, 1, 3, 2]


@pytest.mark.parametrize("dtype", [StringDType(), StringDType(na_object=math.nan)])
@pytest.mark.parametrize("q", [0.5, [0.0, 1.0]])
def test_quantiles_of_long_strings(dtype, q):
    """NumPy's cuts them to the length of the first result, so each lane is compared alone."""
    missing = [math.nan] * 2 if hasattr(dtype, "na_object") else ["c"] * 2
    array = np.array([["abc", *missing], ["of more than 15 bytes", "b", "of more than 15 bytes, too"]], object)
    array = array.astype(dtype)
    found = dask_gpusort.nanquantile(da.from_array(array, chunks=(1, 2)), q, axis=1, method="lower")
    for number, lane in enumerate(array):
        wanted = np.quantile([one for one in lane.tolist() if isinstance(one, str)], q, method="lower")
        assert computed(found)[..., number].tolist() == wanted.tolist()
    by_rows = dask_gpusort.nanquantile(da.from_array(array.ravel(), chunks=2), q, by=[0] * 3 + [1] * 3, method="lower")
    np.testing.assert_array_equal(computed(by_rows), computed(found))
    if hasattr(dtype, "na_object"):
        nothing = dask_gpusort.nanquantile(da.from_array(array[:1, 1:], chunks=1), q, method="lower")
        assert np.isnan(computed(nothing)).all()
