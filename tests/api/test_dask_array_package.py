"""Arrays of the package `dask_array` are taken, and given back, lazily."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import partial
from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from support.marks import for_each

import dask_gpusort
import dask_gpusort.xarray

dx = pytest.importorskip("dask_array")

VALUES = np.random.default_rng(5).integers(0, 9, 23)
#: Functions that NumPy has too.
OF_NUMPY = {
    "sort": lambda own, a: (own.sort(a),),
    "argsort": lambda own, a: (own.argsort(a, kind="stable"),),
    "lexsort": lambda own, a: (own.lexsort([a, a % 2]),),
    "median": lambda own, a: (own.median(a),),
    "quantile": lambda own, a: (own.quantile(a, [0.2, 0.7]),),
    "unique": lambda own, a: own.unique(a, return_index=True, return_counts=True),
    "unique_all": lambda own, a: own.unique_all(a),
    "isin": lambda own, a: (own.isin(a, test_elements=a[:3]),),
    "take": lambda own, a: (own.take(a, a),),
    "searchsorted": lambda own, a: (own.searchsorted(np.arange(9), a),),
    "interp": lambda own, a: (own.interp(a, np.arange(9), np.arange(9) / 2),),
}
#: Public functions of one array of integers, with NumPy's results of them, in tuples.
CALLS = {name: (partial(call, dask_gpusort), partial(call, np)) for name, call in OF_NUMPY.items()} | {
    "chunks": (lambda a: (dask_gpusort.sort(a, chunks=4),), lambda a: (np.sort(a),)),
    "sort_by_key": (
        lambda a: dask_gpusort.sort_by_key((a % 2, a), -a),
        lambda a: ((a % 2)[(order := np.lexsort((a, a % 2)))], a[order], -a[order]),
    ),
    "merge_sorted": (
        lambda a: (dask_gpusort.merge_sorted(dask_gpusort.sort(a), dask_gpusort.sort(a)),),
        lambda a: (np.sort(np.r_[a, a]),),
    ),
    "groups": (
        lambda a: (dask_gpusort.quantile(a, 0.2, by=a % 3), dask_gpusort.median(a, by=a % 3, strategy="sort")),
        lambda a: tuple(
            np.array([function(a[a % 3 == group]) for group in range(3)])
            for function in (lambda own: np.quantile(own, 0.2), np.median)
        ),
    ),
    "topk": (
        lambda a: dask_gpusort.topk(a, 3, values=[a]),
        lambda a: (np.sort(a)[:-4:-1],) * 2,
    ),
    "put": (
        lambda a: (dask_gpusort.put_along_axis(a, a[:1], 70, 0),),
        lambda a: (np.where(np.arange(23) == a[0], 70, a),),
    ),
    "partition": (lambda a: (dask_gpusort.partition(a, 0)[:1],), lambda a: (a.min(keepdims=True),)),
}


def refuse(*args, **kwargs):
    raise AssertionError("computes")


def held(a):
    return a.persist(scheduler="synchronous")


@for_each(product(CALLS, [23, 5], [lambda a: a, held]))
def test_arrays_of_the_package_are_given_back_lazily(name, chunks, make):
    function, oracle = CALLS[name]
    array = make(dx.from_array(VALUES, chunks=chunks))
    with dask.config.set(scheduler=refuse):
        found = function(array)
    wanted = oracle(VALUES)
    assert len(found) == len(wanted)
    if hasattr(wanted, "_fields"):
        assert found._fields == wanted._fields
    for one, expected in zip(found, wanted, strict=True):
        assert type(one) is dx.Array
        computed = one.compute(scheduler="synchronous")
        np.testing.assert_array_equal(computed, expected)
        assert computed.dtype == one.dtype == np.asarray(expected).dtype
        assert one.ndim == np.ndim(expected)
    together = dask.compute(*found, scheduler="threads")
    for one, expected in zip(together, wanted, strict=True):
        np.testing.assert_array_equal(one, expected)


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


def test_the_package_is_not_imported():
    code = "import sys, dask_gpusort; dask_gpusort.sort([2, 1]).compute(); sys.exit('dask_array' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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


#: Calls of the accessor of a series with the dimension x and the coordinate "label".
ACCESSOR_CALLS = {
    "sort_values": lambda x: x.gpusort.sort_values("x"),
    "argsort": lambda x: x.gpusort.argsort("x"),
    "sortby": lambda x: x.gpusort.sortby("label"),
    "descending": lambda x: x.gpusort.sortby("label", ascending=False),
    "median": lambda x: x.gpusort.median("x"),
    "quantile": lambda x: x.gpusort.quantile([0.2, 0.5], "x"),
    "rank": lambda x: x.gpusort.rank("x"),
    "topk": lambda x: x.gpusort.topk(3, "x"),
}


@pytest.mark.parametrize("name", ACCESSOR_CALLS)
def test_accessor(name):
    def series(values, labels):
        return xr.DataArray(values, dims="x", coords={"label": ("x", labels)}, name="rain")

    labels = VALUES[::-1].copy()
    lazy = series(dx.from_array(VALUES, chunks=5), dx.from_array(labels, chunks=5))
    with dask.config.set(scheduler=refuse):
        found = ACCESSOR_CALLS[name](lazy)
    assert type(found.data) is dx.Array
    xr.testing.assert_identical(found.compute(), ACCESSOR_CALLS[name](series(VALUES, labels)))
