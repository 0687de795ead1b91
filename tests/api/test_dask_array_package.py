"""Arrays of the package `dask_array` are taken, and given back, lazily."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import strategies as ours
from support.scripts import run_fresh
from test_functions import FUNCTIONS

import dask_gpusort
import dask_gpusort.xarray

dx = pytest.importorskip("dask_array")

VALUES = np.random.default_rng(5).integers(0, 9, 23)


def refuse(*args, **kwargs):
    raise AssertionError("computes")


def held(a):
    return a.persist(scheduler="synchronous")


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=4)
@given(data=st.data())
def test_arrays_of_the_package_are_given_back_lazily(name, data):
    """By every function, of any dtypes and chunks, held or not."""
    with np.errstate(all="ignore"):
        case = FUNCTIONS[name].draw(data.draw, (23,))
        arrays = []
        for array in case.arrays:
            make = data.draw(st.sampled_from([lambda a: a, held]))
            arrays.append(make(dx.from_array(array, chunks=data.draw(ours.chunkings(array.shape)))))
        with dask.config.set(scheduler=refuse):
            found = case.call(*arrays)
        found = found if isinstance(found, (tuple, list)) else [found]
        of_arguments = found[:-1] if name == "shuffle" else found  # whose last one is a permutation of numbers
        assert {type(one) for one in of_arguments} == {dx.Array}
        computed = [one.compute(scheduler="synchronous") for one in found]
        for one, got, together, wanted in zip(found, computed, dask.compute(*found), case.wanted, strict=True):
            case.same(np.asarray(got), wanted)
            case.same(np.asarray(together), wanted)
            assert got.dtype == one.dtype or not isinstance(got, np.ndarray)  # scalars have the native byte order
            assert one.ndim == np.ndim(wanted)


def test_tuples_keep_their_names():
    found = dask_gpusort.unique_all(dx.from_array(VALUES, chunks=5))
    assert found._fields == np.unique_all(VALUES)._fields
    assert {type(one) for one in found} == {dx.Array}


def test_unknown_sizes_and_operations_on_results():
    array = dx.from_array(VALUES, chunks=5)
    found = dask_gpusort.sort(array[array > 3])
    assert type(found) is dx.Array
    assert np.isnan(found.shape[0])
    np.testing.assert_array_equal(found.compute(), np.sort(VALUES[VALUES > 3]))
    assert dask_gpusort.sort(array).chunks == array.chunks
    assert dask_gpusort.nunique(array).name.startswith("nunique-")
    np.testing.assert_array_equal((dask_gpusort.sort(array)[3:9] + 1).compute(), np.sort(VALUES)[3:9] + 1)


@pytest.mark.parametrize("other", [lambda a: a, lambda a: da.from_array(a, chunks=4)], ids=["numpy", "dask.array"])
def test_mixed_arguments(other):
    array, second = dx.from_array(VALUES, chunks=5), VALUES[::-1].copy()
    keys, values = dask_gpusort.sort_by_key(other(second), array)
    order = np.argsort(second, kind="stable")
    assert type(keys) is type(values) is dx.Array
    np.testing.assert_array_equal(keys.compute(), second[order])
    np.testing.assert_array_equal(values.compute(), VALUES[order])


def test_explanations_and_arrays_of_dask_stay_what_they_are():
    assert dask_gpusort.explain(dx.from_array(VALUES, chunks=5)).detail.startswith("keys")
    assert type(dask_gpusort.sort(da.from_array(VALUES, chunks=5))) is da.Array


def test_errors_name_the_argument():
    with pytest.raises(np.exceptions.AxisError, match="axis 1"):
        dask_gpusort.sort(dx.from_array(VALUES, chunks=5), 1)


def test_functions_are_pickled():
    assert pickle.loads(pickle.dumps(dask_gpusort.sort)) is dask_gpusort.sort


@pytest.mark.usefixtures("workers_fork_from_a_server")
def test_the_package_is_not_imported():
    run_fresh("dask_gpusort.sort([2, 1]).compute(scheduler='synchronous')", "assert 'dask_array' not in sys.modules")


def test_on_a_cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"):
        array = dx.from_array(VALUES, chunks=5)
        for one in (array, array.persist()):
            np.testing.assert_array_equal(dask_gpusort.sort(one).compute(), np.sort(VALUES))


def test_numpys_functions_after_register():
    array = dx.from_array(VALUES.reshape(1, 23), chunks=(1, 5))
    functions = (np.sort, np.median, np.unique, lambda a: np.lexsort((a, a)), lambda a: np.quantile(a, 0.3, 1))
    before = vars(dx).get("median")
    with dask_gpusort.register("numpy"):
        for function in (*functions, lambda a: np.take(a, [3, 0]), lambda a: np.median(a, 0)):
            with dask.config.set(scheduler=refuse):
                found = function(array)
            assert type(found) is dx.Array
            np.testing.assert_array_equal(found.compute(), function(VALUES.reshape(1, 23)))
    assert vars(dx).get("median") is before


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sort_values", ("x",)),
        ("argsort", ("x",)),
        ("sortby", ("label",)),
        ("sortby", ("label", False)),
        ("median", ("x",)),
        ("quantile", ([0.2, 0.5], "x")),
        ("rank", ("x",)),
        ("topk", (3, "x")),
    ],
)
def test_accessor(name, arguments):
    def series(values, labels):
        return xr.DataArray(values, dims="x", coords={"label": ("x", labels)}, name="rain")

    labels = VALUES[::-1].copy()
    lazy = series(dx.from_array(VALUES, chunks=5), dx.from_array(labels, chunks=5))
    with dask.config.set(scheduler=refuse):
        found = getattr(lazy.gpusort, name)(*arguments)
    assert type(found.data) is dx.Array
    xr.testing.assert_identical(found.compute(), getattr(series(VALUES, labels).gpusort, name)(*arguments))
