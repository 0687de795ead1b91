"""Tests of missing strings, and of objects that are NaN: all functions take them as NaN of floats, in any chunks."""

from __future__ import annotations

import functools
import math
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.dtypes import StringDType
from support import oracle
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort
from dask_gpusort.chunk.tie_groups import METHODS, NAN_POLICIES

DTYPES = [*(StringDType(na_object=one) for one in (math.nan, ours.UNKNOWN, np.datetime64("NaT"))), np.dtype(object)]
FLAGS = st.fixed_dictionaries(
    {name: st.booleans() for name in ("return_index", "return_inverse", "return_counts", "equal_nan")}
)
DIRECTIONS = st.fixed_dictionaries({"descending": st.booleans()})
#: Functions of one array, and of two, with their options; what sorts Python objects compares none that are missing.
OF_ONE: dict[str, tuple[Any, Any]] = {
    "unique": (dask_gpusort.unique, FLAGS),
    "unique_all": (dask_gpusort.unique_all, st.just({})),
    "nunique": (dask_gpusort.nunique, st.fixed_dictionaries({"equal_nan": st.booleans()})),
    "mode": (
        functools.partial(dask_gpusort.mode, keepdims=True),
        st.fixed_dictionaries({"nan_policy": st.sampled_from(NAN_POLICIES)}),
    ),
    "rank": (
        dask_gpusort.rank,
        st.fixed_dictionaries(
            {"method": st.sampled_from(METHODS), "nan_policy": st.sampled_from(NAN_POLICIES), "pct": st.booleans()}
        ),
    ),
    "sort": (dask_gpusort.sort, DIRECTIONS),
    "argsort": (dask_gpusort.argsort, DIRECTIONS),
    "lexsort": (lambda x, **how: dask_gpusort.lexsort([x], **how), DIRECTIONS),
    "lexsort of two keys": (lambda x, **how: dask_gpusort.lexsort([x, x], **how), DIRECTIONS),
    "topk": (dask_gpusort.topk, st.fixed_dictionaries({"k": st.integers(-9, 9)})),
    "is_sorted": (dask_gpusort.is_sorted, DIRECTIONS),
}
OF_TWO: dict[str, tuple[Any, Any]] = {
    "union1d": (dask_gpusort.union1d, st.just({})),
    "intersect1d": (dask_gpusort.intersect1d, st.fixed_dictionaries({"return_indices": st.booleans()})),
    "setdiff1d": (dask_gpusort.setdiff1d, st.just({})),
    "setxor1d": (dask_gpusort.setxor1d, st.just({})),
    "isin": (dask_gpusort.isin, st.fixed_dictionaries({"invert": st.booleans()})),
    "searchsorted": (
        lambda x, y, **how: dask_gpusort.searchsorted(dask_gpusort.sort(x), y, **how),
        st.fixed_dictionaries({"side": st.sampled_from(["left", "right"])}),
    ),
    "merge_sorted": (
        lambda x, y: dask_gpusort.merge_sorted(dask_gpusort.sort(x), dask_gpusort.sort(y)),
        st.just({}),
    ),
}


def elements(draw: Any, dtype: Any) -> np.ndarray:
    """Few strings, many of which are missing."""
    missing = getattr(dtype, "na_object", math.nan)
    names = draw(st.lists(st.sampled_from(["", "a", "b", "bb", missing, missing]), max_size=14))
    return np.array([*names, missing], object).astype(dtype)


def results(function: Any, arrays: list[np.ndarray], chunks: list[Any], options: dict[str, Any]) -> list[Any]:
    """What a function finds of arrays in chunks, or the error that it raises."""
    try:
        found = function(*(ours.dask_array(*one) for one in zip(arrays, chunks, strict=True)), **options)
        several = isinstance(found, (tuple, list))
        return [np.asarray(one) for one in dask.compute(*(found if several else [found]), scheduler="sync")]
    except ValueError as error:
        return [str(error)]


@pytest.mark.parametrize("name", [*OF_ONE, *OF_TWO])
@given(st.data(), st.sampled_from(DTYPES), ours.groups)
def test_missing_ones_are_as_nan_of_floats(name, data, dtype, count):
    function, options = (OF_ONE | OF_TWO)[name]
    how = data.draw(options)
    arrays = [elements(data.draw, dtype) for _ in range(1 + (name in OF_TWO))]
    chunks = [data.draw(ours.chunkings(one.shape)) for one in arrays]
    floats, keys = oracle.as_numbers(*arrays)
    with groups(count):
        got = results(function, arrays, chunks, how)
    wanted = results(function, floats, [one.shape for one in floats], how)
    for mine, one in zip(got, wanted, strict=True):
        if isinstance(one, str) or one.dtype != np.float64 or mine.dtype == np.float64:
            np.testing.assert_array_equal(mine, one)
        else:
            values = keys[np.where(np.isnan(one), len(keys) - 1, one).astype(int)]
            oracle.assert_same_values(mine, values)


@pytest.mark.parametrize("chunks", [2, 5])
def test_distinct_strings_and_their_counts(chunks):
    array = np.array(["b", np.nan, "a", np.nan, "b"], DTYPES[0])
    x = da.from_array(array, chunks=chunks)
    values, counts = dask.compute(*dask_gpusort.unique(x, return_counts=True))
    assert (values.tolist()[:2], counts.tolist()) == (["a", "b"], [1, 2, 2])
    oracle.assert_same_values(values, np.array(["a", "b", np.nan], array.dtype))  # NumPy 2.2 leaves NaN out
    assert [computed(one) for one in dask_gpusort.mode(x, nan_policy="omit")] == ["b", 2]
    with pytest.raises(ValueError, match="contains nan"):
        computed(dask_gpusort.rank(x, nan_policy="raise"))
    (none,) = dask.compute(dask_gpusort.mode(x[:0]))
    assert math.isnan(none.mode)
    assert none.count == 0


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
