"""Tests of the accessor of xarray's objects: xarray's own methods of arrays in memory are the oracle."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle

from dask_gpusort.graph.scheduler import scheduler_in_use

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")
accessors = pytest.importorskip("dask_gpusort.xarray")

pytestmark = pytest.mark.skipif(da.array_expr_enabled(), reason="xarray's functions need dispatch of NumPy functions")

CHUNKS = {"time": 7, "y": 4, "x": 3}


def make_cube(dtype="f4", times=30):
    """Maps with coordinates of no, one and two dimensions; floats have NaN, and one pixel has nothing else."""
    rng = np.random.default_rng(0)
    keys = rng.normal(280, 10, (times, 5, 8)).astype(dtype)
    if keys.dtype.kind == "f":
        keys[rng.random(keys.shape) < 0.1] = np.nan
        keys[:, 2, 3] = np.nan
    coords = {
        "time": pd.date_range("2020-01-20", periods=times),
        "y": np.arange(5) * 2.0,
        "area": (("y", "x"), rng.integers(0, 9, (5, 8))),
        "run": 3,
        "month": ("time", rng.integers(1, 5, times), {"units": "month"}),
        "depth": ("time", np.where(rng.random(times) < 0.2, np.nan, rng.integers(0, 9, times))),
    }
    attrs = {"units": "K", "long_name": "temperature"}
    return xr.DataArray(keys, dims=("time", "y", "x"), coords=coords, attrs=attrs, name="t")


def make_dataset():
    """The cube with variables that have other dtypes, other orders of dimensions, or lack some of them."""
    cube = make_cube()
    return cube.to_dataset().assign(
        rounded=make_cube("i2").transpose("y", "time", "x"),
        count=("x", np.arange(8), {"units": "1"}),
        name=("time", np.array(list("abc" * 10))),
        scalar=7,
    )


SOURCES = [make_cube, make_dataset, lambda: make_cube("i4").rename(None)]


@pytest.fixture(autouse=True)
def only_numpy():
    """Xarray's methods of arrays in memory are NumPy's, also where libraries with other dtypes and roundings are found."""
    with xr.set_options(use_bottleneck=False, use_numbagg=False):
        yield


def numbers_only(obj):
    return {"numeric_only": True} if isinstance(obj, xr.Dataset) else {}


def check(ours, expected, source, no_computation, *, indexes=True):
    """Compare what `ours` gives for arrays in memory, and lazily for Dask arrays, with what is expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # empty slices
        in_memory = ours(source)
        assert not dask.is_dask_collection(in_memory)
        xr.testing.assert_identical(in_memory, expected)
        with no_computation():
            lazy = ours(source.chunk(CHUNKS))
        found = lazy.compute(scheduler="synchronous")
    if not indexes:
        lost = [name for name in expected.xindexes if name not in found.xindexes]
        found = found.set_xindex(lost[0]) if lost else found
    xr.testing.assert_identical(found, expected)
    for name, variable in found.variables.items() if isinstance(found, xr.Dataset) else [(None, found)]:
        wanted = expected if name is None else expected.variables[name]
        assert (variable.dtype, variable.dims) == (wanted.dtype, wanted.dims)
    return lazy


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("dim", ["time", ["time", "x"], None, ...])
@pytest.mark.parametrize("skipna", [None, False])
def test_median_and_quantile(make, dim, skipna, raise_if_computes):
    source = make()
    number = numbers_only(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        medians = source.median(dim, skipna=skipna)
        one = source.quantile(0.3, dim, skipna=skipna, **number)
        several = source.quantile([0.05, 0.5], dim, method="lower", skipna=skipna, **number)
    check(lambda x: x.gpusort.median(dim, skipna=skipna), medians, source, raise_if_computes)
    check(lambda x: x.gpusort.quantile(0.3, dim, skipna=skipna, **number), one, source, raise_if_computes)
    lower = {"method": "lower", "skipna": skipna, **number}
    check(lambda x: x.gpusort.quantile([0.05, 0.5], dim, **lower), several, source, raise_if_computes)


@pytest.mark.parametrize("keep", [True, False])
def test_attributes(keep):
    cube = make_cube().chunk(CHUNKS).assign_attrs(units="K")
    for found in (cube.gpusort.median("time", keep_attrs=keep), cube.gpusort.quantile([0.5], "y", keep_attrs=keep)):
        assert found.attrs == (cube.attrs if keep else {})
    with xr.set_options(keep_attrs=keep):
        ds = make_dataset().assign_attrs(title="maps").gpusort.quantile(0.5, "time", numeric_only=True)
    assert (ds.attrs, ds.t.attrs) == (({"title": "maps"}, cube.attrs) if keep else ({}, {}))


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("key", ["time", "month", "depth", ["month", "time"], ["month", "y"], "twice"])
def test_sortby(make, ascending, key, raise_if_computes):
    source = make()
    by = (lambda x: x["month"] * 2) if key == "twice" else key
    expected = source.sortby(by, ascending)
    lazy = check(lambda x: x.gpusort.sortby(by, ascending), expected, source, raise_if_computes, indexes=key == "time")
    variables = lazy.variables if isinstance(lazy, xr.Dataset) else {"t": lazy}
    for name in set(variables) & {"t", "rounded"}:
        assert dict(variables[name].chunksizes) == {"time": (7, 7, 7, 7, 2), "y": (4, 1), "x": (3, 3, 2)}
    assert ("time" in lazy.xindexes) == (key == "time")


def test_sortby_a_variable_and_an_array_of_another_object():
    ds = make_dataset()
    key = xr.DataArray(da.from_array(np.arange(30)[::-1], chunks=4), dims="time")
    for by, wanted in ((key, ds.sortby(key.compute())), ("name", ds.sortby("name"))):
        found = ds.chunk(CHUNKS).gpusort.sortby(by)
        assert found.name.chunks is not None
        xr.testing.assert_identical(found.compute().set_xindex("time"), wanted)
    with pytest.raises(ValueError, match=r"not 1-D.*'t'"):
        ds.gpusort.sortby("t")


def test_sortby_aligns_keys_by_their_labels():
    ds = make_dataset()
    key = xr.DataArray(np.arange(30), dims="time", coords={"time": ds.time.values[::-1]})
    xr.testing.assert_identical(ds.gpusort.sortby(key), ds.sortby(key))
    found = ds.chunk(CHUNKS).gpusort.sortby(key)
    xr.testing.assert_identical(found.compute(scheduler="synchronous"), ds.sortby(key))


def test_sortby_of_a_multiindex():
    stacked = make_dataset()[["t"]].stack(all=("time", "x"))
    expected = stacked.assign(k=("all", np.arange(240) * 7 % 240)).sortby("k")
    found = stacked.chunk(y=2, all=50).assign(k=("all", da.from_array(np.arange(240) * 7 % 240, chunks=50)))
    found = found.gpusort.sortby("k").compute()
    assert "all" not in found.coords
    np.testing.assert_array_equal(found.t.values, expected.t.values)
    np.testing.assert_array_equal(found.time.values, expected.time.values)
    np.testing.assert_array_equal(found.x.values, expected.x.values)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("dim", ["time", "x"])
def test_sort_values_and_argsort(dim, ascending, raise_if_computes):
    for make in SOURCES:
        source = make()
        ds = source if isinstance(source, xr.Dataset) else source.to_dataset(name="t")
        own = [name for name, variable in ds.data_vars.items() if dim in variable.dims]
        labels = [name for name, coord in ds.coords.items() if dim in coord.dims]
        wanted = {}
        for function in (oracle.sort, oracle.argsort):
            arrays = {
                name: ds[name].variable._replace(
                    data=function(ds[name].values, ds[name].get_axis_num(dim), descending=not ascending)
                )
                for name in own
            }
            wanted[function] = ds.drop_vars(labels).assign(arrays)
            if isinstance(source, xr.DataArray):
                wanted[function] = wanted[function]["t"].rename(source.name)
        check(lambda x: x.gpusort.sort_values(dim, ascending=ascending), wanted[oracle.sort], source, raise_if_computes)
        lazy = check(
            lambda x: x.gpusort.argsort(dim, ascending=ascending), wanted[oracle.argsort], source, raise_if_computes
        )
        assert lazy.chunksizes == source.chunk(CHUNKS).chunksizes


@pytest.mark.parametrize("k", [3, -4, 100])
def test_topk(k):
    cube = make_cube()
    for source in (cube, cube.chunk(CHUNKS)):
        found = source.gpusort.topk(k, "time")
        wanted = oracle.sort(cube.values, 0, descending=k > 0)[: abs(k)]
        np.testing.assert_array_equal(found.values, wanted)
        assert found.dims == cube.dims
        assert set(found.coords) == {"y", "area", "run"}
        assert (found.name, found.attrs) == (cube.name, cube.attrs)
    assert found.chunksizes["y"] == (4, 1)


def ranked(values, axis, pct):
    """Ranks by comparing all pairs, NaN left out."""
    lanes = np.moveaxis(values, axis, -1)
    other = lanes[..., None, :]
    ranks = (other < lanes[..., None]).sum(-1) + ((other == lanes[..., None]).sum(-1) + 1) / 2
    counts = (lanes == lanes).sum(-1, keepdims=True)
    ranks = np.where(lanes == lanes, ranks / np.maximum(counts, 1) if pct else ranks, np.nan)
    return np.moveaxis(ranks, -1, axis)


@pytest.mark.parametrize("pct", [False, True])
@pytest.mark.parametrize("dim", ["time", "y"])
def test_rank(dim, pct, raise_if_computes):
    ds = make_dataset().assign_attrs(title="maps")
    own = [name for name, variable in ds.data_vars.items() if dim in variable.dims and name != "name"]
    ds = ds.drop_vars("name")
    arrays = {
        name: ds[name].variable._replace(data=ranked(ds[name].values, ds[name].get_axis_num(dim), pct)) for name in own
    }
    wanted = ds[own].assign(arrays)
    lazy = check(lambda x: x.gpusort.rank(dim, pct=pct), wanted, ds, raise_if_computes)
    assert lazy.t.chunks == ds.t.chunk(CHUNKS).chunks
    check(lambda x: x.gpusort.rank(dim, pct=pct), wanted.t.assign_coords(ds.t.coords), ds.t, raise_if_computes)
    assert ds.t.gpusort.rank(dim, keep_attrs=False).attrs == {}


def test_unique():
    months = make_cube().month
    for source in (months, months.chunk(time=7)):
        found = source.gpusort.unique()
        assert found.chunks == (None if source.chunks is None else found.chunks)
        assert (found.dims, found.name, found.attrs) == (("time",), "month", {"units": "month"})
        assert set(found.coords) == {"run"}
        assert found.values.tolist() == np.unique(months).tolist()
    table = xr.DataArray(np.arange(60).reshape(30, 2) % 5 // 2, dims=("row", "c"), coords={"c": [1, 2]})
    for source in (table, table.chunk(row=7, c=1)):
        found = source.gpusort.unique("row")
        assert set(found.coords) == {"c"}
        np.testing.assert_array_equal(found.values, np.unique(table.values, axis=0))
    with pytest.raises(ValueError, match="None"):
        table.gpusort.unique()


def test_unknown_dimensions():
    for source in (make_cube(), make_dataset().chunk(CHUNKS)):
        calls = (
            lambda x: x.gpusort.sort_values("z"),
            lambda x: x.gpusort.argsort("z"),
            lambda x: x.gpusort.topk(1, "z"),
            lambda x: x.gpusort.quantile(0.5, "z"),
            lambda x: x.gpusort.median("z"),
        )
        for call in calls:
            with pytest.raises(ValueError, match="'z'"):
                call(source)


def test_every_method_is_documented():
    for kind, accessor in ((xr.DataArray, accessors.DataArrayAccessor), (xr.Dataset, accessors.DatasetAccessor)):
        assert kind.gpusort is accessor  # as sphinx_autosummary_accessors finds it
        methods = [name for name in dir(accessor) if not name.startswith("_")]
        assert {"sort_values", "argsort", "sortby", "quantile", "median", "rank", "topk"} <= set(methods)
        assert all("Returns\n" in getattr(accessor, name).__doc__ for name in methods)


def test_names_that_look_like_ours():
    cube = make_cube()
    for name in (None, "time", 5):
        assert cube.rename(name).gpusort.sort_values("x").name == name


class Waiting:
    """A key that does something before it is compared: what happens while an array in memory is sorted."""

    def __init__(self, number, meanwhile):
        self.number, self.meanwhile = number, meanwhile

    def __lt__(self, other):
        self.meanwhile()
        return self.number < other.number


@pytest.fixture(params=["threads", "on_cluster"])
def kind(request):
    if request.param == "threads":
        return "threads"
    request.getfixturevalue(request.param)
    return "distributed"


def test_sorts_in_memory_leave_the_scheduler_of_other_threads(kind):
    """Of two sorts that overlap, the second ends last; before, between and after, others plan and compute as ever."""
    before = dask.config.get("scheduler", None)
    entered, both, first_left = (threading.Event() for _ in range(3))

    def check():
        assert dask.config.get("scheduler", None) == before
        found = da.ones(8, chunks=1).map_blocks(lambda block: np.full(1, threading.get_ident()), dtype=int)
        assert scheduler_in_use(found)[0] == kind
        assert threading.get_ident() not in found.compute()

    def run(first, last):
        keys = np.array([Waiting(number, lambda: (first.set(), last.wait(30))) for number in (2, 0, 1)], object)
        return [key.number for key in xr.DataArray(keys, dims="x").gpusort.sort_values("x").values]

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(run, entered, both)
        assert entered.wait(30)
        check()
        two = pool.submit(run, both, first_left)
        assert one.result(30) == [0, 1, 2]
        check()
        first_left.set()
        assert two.result(30) == [0, 1, 2]
    check()
