"""Tests of `unique` and its relatives, ranks and sets, against NumPy."""

from __future__ import annotations

import functools
import math
from itertools import compress, product

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support.marks import for_each
from support.ranks import ranks_of_lanes
from support.sorting import check_sizes, computed

import dask_gpusort
from dask_gpusort.chunk import distinct, numpy_ops
from dask_gpusort.chunk.tie_groups import METHODS, NAN_POLICIES

compute = functools.partial(dask.compute, scheduler="synchronous")
#: The optional results: indices, inverse and counts.
ALL = (True, True, True)


def test_the_first_of_equal_keys_in_sorted_order_represents_them():
    x = da.from_array([0.0, -0.0, 1.0, -0.0, 0.0], chunks=2)
    values, index = compute(*dask_gpusort.unique(x, return_index=True))
    oracle.assert_same_bits(values, np.array([0.0, 1.0]))
    assert index.tolist() == [0, 2]
    (values,) = compute(dask_gpusort.unique(x[1:]))
    oracle.assert_same_bits(values, np.array([-0.0, 1.0]))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "u8", "?", "M8[s]"])
def test_narrow_ranges_are_counted_as_they_are_sorted(dtype, monkeypatch):
    info = np.iinfo("i8" if dtype in ("?", "M8[s]") else dtype)
    ends = [info.min, info.min + 3] if dtype == "M8[s]" else [0, 1] if dtype == "?" else [info.max - 9, info.max]
    array = np.random.default_rng(0).integers(*ends, 500, dtype=info.dtype, endpoint=True).astype(dtype)
    x = da.from_array(array, chunks=170)
    for _ in range(2):
        for mine, wanted in zip(compute(*dask_gpusort.unique(x, *ALL)), np.unique(array, *ALL), strict=True):
            oracle.assert_same_values(mine, wanted)
        monkeypatch.setattr(distinct, "_TABLE_CODES", 0)


@for_each(product(["i8", ">i4", "f4", "f8", "M8[s]"], [1, -1], [1, 3], [300, 70]))
def test_keys_in_order_are_not_sorted(dtype, step, ties, chunks):
    array = ((np.arange(300)[::step] // ties - 40) * 2**20).astype(dtype)
    if array.dtype.kind == "f":
        array[np.flatnonzero(array == 0)[:1]] = -0.0
    order = np.argsort(array, kind="stable")
    _, index, inverse, counts = np.unique(array, *ALL)
    expected = array[order[np.cumsum(counts) - counts]], index, inverse, counts
    x = da.from_array(array, chunks=chunks).persist(scheduler="synchronous")
    with pytest.MonkeyPatch.context() as patch:
        if step == 1 or ties == 1:
            for name in ("sort_chunks", "sort_and_argsort"):
                patch.delattr(numpy_ops, name)
        for wanted in ALL, (False, True, True), (False, False, True):
            for mine, theirs in zip(
                compute(*dask_gpusort.unique(x, *wanted)), compress(expected, (True, *wanted)), strict=True
            ):
                oracle.assert_same_bits(mine, theirs)
        if chunks == 300:
            share = functools.partial(np.shares_memory, max_work=0)
            both = x.to_delayed()[0], dask_gpusort.unique(x).to_delayed()[0]
            assert not compute(dask.delayed(share)(*both))[0]
    assert (dask_gpusort.rank(x, method="ordinal").compute() == np.argsort(order) + 1).all()


def test_named_tuples_are_those_of_numpy():
    array = np.array([[1.0, np.nan, 2.0], [np.nan, 1.0, 0.0]])
    x = da.from_array(array, chunks=(1, 2))
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        got, expected = getattr(dask_gpusort, name)(x), getattr(np, name)(array)
        assert type(got) is type(expected)
        for mine, theirs in zip(compute(*got), expected, strict=True):
            oracle.assert_same_values(mine, theirs)
    oracle.assert_same_values(dask_gpusort.unique_values(x).compute(), np.sort(np.unique_values(array)))


def test_sizes_are_unknown_until_they_are_computed():
    values = dask_gpusort.unique(da.from_array(np.arange(40) % 7, chunks=9))
    assert math.isnan(values.shape[0])
    values.compute_chunk_sizes()
    assert values.shape == (7,)
    check_sizes(values)


def test_the_number_of_tasks_is_linear():
    def tasks(chunks):
        x = da.ones(1 << 12, chunks=(1 << 12) // chunks)
        return sum(len(found.dask) for found in dask_gpusort.unique(x, True, True, True))

    assert tasks(128) < 2.2 * tasks(64)


def test_a_wrong_chunk_size_is_named():
    x = da.map_blocks(lambda block: block[:2], da.ones(10, chunks=5), chunks=((5, 5),), dtype="f8")
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        dask_gpusort.unique(x).compute(scheduler="synchronous")


@pytest.mark.parametrize("shape", [(40,), (8, 5)])
@pytest.mark.parametrize("axis", [None, 0])
def test_nan_raise_on_request(shape, axis):
    array = np.arange(40.0).reshape(shape)
    x = da.from_array(array, chunks=7)
    found = dask_gpusort.rank(x, axis, method="min", nan_policy="raise")
    oracle.assert_same_bits(computed(found), ranks_of_lanes(array, axis, "min", "raise", False).astype(np.int64))
    assert found.dtype == np.int64
    with pytest.raises(ValueError, match="The input contains nan values"):
        computed(dask_gpusort.rank(da.where(x == 3, np.nan, x), axis, nan_policy="raise"))


def test_all_policies_and_methods_are_known():
    assert METHODS == ("average", "min", "max", "dense", "ordinal")
    assert NAN_POLICIES == ("propagate", "omit", "raise")


@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setdiff1d", "setxor1d"])
def test_sets_of_other_shapes_and_dtypes(name):
    pairs = [
        (np.arange(12).reshape(3, 4), np.array([[3.0], [7.5]])),
        (np.array(4), np.arange(6)),
        # They are compared as floats, which cannot hold all of them; a difference keeps the dtype of its values.
        (np.array([2**53 + 1, 5, 2**53]), np.array([1.5, 5.0])),
    ]
    for pair in pairs[: 3 if name == "setdiff1d" else 2]:
        found = getattr(dask_gpusort, name)(*(da.from_array(one, chunks=2) for one in pair))
        wanted = getattr(np, name)(*pair)
        assert found.dtype == wanted.dtype
        oracle.assert_same_bits(computed(found), wanted)
