"""Tests of the accessor of xarray's objects: xarray's own methods of arrays in memory are the oracle."""

from __future__ import annotations

import functools
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import pytest
from packaging.version import Version
from support import oracle
from support.labelled import CHUNKS, SOURCES, check, make_cube, make_dataset, methods_of_numpy
from support.marks import grid
from support.ranks import ranks_of_lanes

from dask_gpusort.graph.runtime import scheduler_in_use

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")
accessors = pytest.importorskip("dask_gpusort.xarray")
LazyLabels = pytest.importorskip("dask_gpusort.adapters.lazy_labels").LazyLabels

pytestmark = pytest.mark.skipif(da.array_expr_enabled(), reason="xarray's functions need dispatch of NumPy functions")


@pytest.fixture(autouse=True)
def only_numpy():
    with methods_of_numpy():
        yield


@pytest.mark.parametrize("keep", [True, False])
def test_attributes(keep):
    cube = make_cube().chunk(CHUNKS)
    for found in (cube.gpusort.median("time", keep_attrs=keep), cube.gpusort.quantile([0.5], "y", keep_attrs=keep)):
        assert found.attrs == (cube.attrs if keep else {})
    with xr.set_options(keep_attrs=keep):
        ds = make_dataset().assign_attrs(title="maps").gpusort.quantile(0.5, "time", numeric_only=True)
    assert (ds.attrs, ds.t.attrs) == (({"title": "maps"}, cube.attrs) if keep else ({}, {}))


def test_numeric_variables_are_those_of_xarray():
    dtypes = {"b": bool, "i": "i4", "f": "f4", "m": "m8[ns]", "M": "M8[ns]"}
    ds = xr.Dataset({name: ("x", np.array([3, 1, 2]).astype(dtype)) for name, dtype in dtypes.items()})
    found = ds.chunk(x=2).gpusort.quantile(0.5, "x", method="lower", numeric_only=True)
    xr.testing.assert_identical(found.compute(), ds.quantile(0.5, "x", method="lower", numeric_only=True))


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("key", ["time", "month", "depth", ["month", "time"], ["month", "y"], "twice"])
def test_sortby(make, ascending, key):
    source = make()
    by = (lambda x: x["month"] * 2) if key == "twice" else key
    held = key == "time"
    lazy = check(lambda x: x.gpusort.sortby(by, ascending), source, source.sortby(by, ascending), indexes=held)
    variables = lazy.variables if isinstance(lazy, xr.Dataset) else {"t": lazy}
    for name in set(variables) & {"t", "rounded"}:
        assert dict(variables[name].chunksizes) == {"time": (7, 7, 7, 7, 2), "y": (4, 1), "x": (3, 3, 2)}
    assert isinstance(lazy.xindexes["time"], LazyLabels) is not held


def test_sortby_a_variable_and_an_array_of_another_object():
    ds = make_dataset()
    key = xr.DataArray(da.from_array(np.arange(30)[::-1], chunks=4), dims="time")
    for by, wanted in ((key, ds.sortby(key.compute())), ("name", ds.sortby("name"))):
        found = ds.chunk(CHUNKS).gpusort.sortby(by)
        assert found.name.chunks is not None
        xr.testing.assert_identical(found.compute().set_xindex("time"), wanted)
    with pytest.raises(ValueError, match=r"not 1-D.*'t'"):
        ds.gpusort.sortby("t")


@pytest.mark.parametrize("chunks", [(3, 0, 1), (1, 0, 0, 1), (0, 2, 0, 0, 6, 0, 1), (4, 4), (0, 0)], ids=str)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("key", ["a", ["a", "b"], "in memory"])
def test_sortby_of_empty_chunks(chunks, ascending, key):
    size, rng = sum(chunks), np.random.default_rng(0)
    variables = {"a": rng.integers(0, 3, size), "b": rng.integers(0, 2, size)}
    table = xr.Dataset({name: ("obs", keys) for name, keys in variables.items()}).assign(
        rows=(("y", "obs"), np.arange(2 * size).reshape(2, size))
    )
    by = xr.DataArray(rng.integers(0, 3, size), dims="obs") if key == "in memory" else key
    found = table.chunk(obs=chunks).gpusort.sortby(by, ascending)
    assert found.chunks["obs"] == chunks
    xr.testing.assert_identical(found.compute(scheduler="synchronous"), table.sortby(by, ascending))


@pytest.mark.parametrize("by", [0, ("name", "k"), "missing", np.arange(3), xr.DataArray(np.arange(3), dims="other")])
def test_sortby_refuses_what_xarray_refuses(by):
    array = xr.DataArray(np.arange(6).reshape(2, 3), dims=("y", "x"))
    for obj in (array, array.to_dataset(name="k")):
        with pytest.raises((KeyError, ValueError)) as expected:
            obj.sortby(by)
        for lazily in (obj, obj.chunk(x=2)):
            with pytest.raises(expected.type) as found:
                lazily.gpusort.sortby(by)
            assert "this array" not in str(found.value)


def test_unknown_keys_are_told_from_the_names_that_there_are():
    array = xr.DataArray(da.arange(4, chunks=2), {"time": [1, 2, 3, 4]}, "time")
    for obj in (array, array.to_dataset(name="k")):
        with pytest.raises(KeyError) as found:
            obj.gpusort.sortby("stn")
        names = [*obj.coords] if obj is array else [*obj.variables]
        assert found.value.args == (f"variables has 'stn': give one of {names}, or a DataArray",)


@pytest.mark.parametrize("chunked", [False, True])
def test_quantiles_are_a_scalar_or_a_sequence(chunked):
    array = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("y", "x"))
    with pytest.raises(ValueError, match="q must be a scalar or 1d, not an array of 2 dimensions"):
        (array.chunk(y=1) if chunked else array).gpusort.quantile([[0.5]], "y")
    with pytest.raises(TypeError, match="numeric_only is for the variables of a Dataset"):
        array.gpusort.quantile(0.5, numeric_only=True)
    with pytest.raises(TypeError, match="q is masked"):
        (array.chunk(y=1) if chunked else array).gpusort.quantile(np.ma.masked_equal([0.5, 1], 1), "y")


def test_the_old_name_of_a_method_of_quantiles_is_refused():
    x = xr.DataArray(da.arange(4, chunks=2), dims="x", coords={"kind": ("x", list("abab"))})
    for each in (x.gpusort, x.to_dataset(name="t").gpusort, x.gpusort.groupby("kind")):
        with pytest.raises(TypeError, match="interpolation was renamed .* give method="):
            each.quantile(0.5, interpolation="lower")


@pytest.mark.parametrize("chunked", [False, True])
def test_the_remedy_for_medians_of_words_is_a_method_of_the_accessor(chunked):
    words = xr.DataArray(list("cab"), dims="time")
    words = words.chunk(time=2) if chunked else words
    with pytest.raises(TypeError, match=r'use quantile with q=0\.5, method="lower"'):
        words.gpusort.median("time")
    assert words.gpusort.quantile(q=0.5, dim="time", method="lower").values == "b"


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


def make_table():
    """Rows with eager labels, other labels, and a key that sorts them in reverse."""
    rows = np.arange(10)
    coords = {"obs": rows + 100, "station": ("obs", rows % 3)}
    return xr.Dataset({"a": ("obs", rows), "b": ("obs", rows[::-1] * 1.0), "c": ("obs", rows % 4)}, coords)


BOTH = {
    "sum": lambda y, x: y.a + x.a,
    "sum of datasets": lambda y, x: y + x,
    "the other way": lambda y, x: x - y,
    "a part of the other": lambda y, x: y.a + x.a[:5],
    "after arithmetic": lambda y, x: (2 * y + 1) * x,
    "rows": lambda y, x: y.isel(obs=slice(2, 7)) + x.isel(obs=slice(2, 7)),
    "rows by steps": lambda y, x: y.a[::3] + x.a[:4],
    "rows at positions": lambda y, x: y.isel(obs=[4, 1]).a + x.isel(obs=[4, 1]).a,
    "rows turned round": lambda y, x: y.a[3::-1] + x.a[:4],
    "condition": lambda y, x: y.where(x.a > 4),
    "assignment": lambda y, x: y.assign(z=x.a),
    "to the other": lambda y, x: x.assign(z=y.a),
    "function": lambda y, x: xr.apply_ufunc(np.add, y.a, x.a, dask="allowed", join="inner"),
    "merge": lambda y, x: xr.merge([y[["a"]], x[["b"]]], join="inner"),
    "in memory": lambda y, x: y.compute() + x,
    "another name": lambda y, x: y.rename(obs="o").isel(o=slice(3)) + x.rename(obs="o").isel(o=slice(3)),
    "sorted again": lambda y, x: y.gpusort.sortby("c").a + x.a,
    "sorted again by labels in memory": lambda y, x: y.gpusort.sortby(xr.DataArray(np.arange(10) % 3, dims="obs")) + x,
    "two parts": lambda y, x: y.a[:5] + y.a[3:8],
    "two orders": lambda y, x: y.a + x.chunk(obs=3).gpusort.sortby("c").a,
    "one after another": lambda y, x: xr.concat([y, x.assign_coords(obs=np.arange(10))], "obs"),
    "both sorted, one after another": lambda y, x: xr.concat([y[["a"]], y[["a"]]], "obs"),
    "ranks": lambda y, x: y.gpusort.rank("obs").a + x.a,
}


@pytest.mark.parametrize("name", BOTH)
def test_rows_in_a_lazy_order_are_never_paired_with_others_by_position(name):
    """An error, or what xarray gives for the same dataset in memory, whose labels it aligns."""
    table = make_table()
    lazily = table.chunk(obs=3).gpusort.sortby("b")
    if name != "two orders":
        assert BOTH[name](table.sortby("b"), table).sizes  # which xarray does
    with pytest.raises((xr.AlignmentError, NotImplementedError), match="set_xindex"):
        BOTH[name](lazily, table)
    # The remedy that the error names.
    labelled = lazily.set_xindex("obs")
    xr.testing.assert_identical((labelled + table).compute(), table.sortby("b") + table)


def test_rows_in_the_same_lazy_order_are_known_to_be_the_same(raise_if_computes):
    table = make_table()
    wanted = table.sortby("b")
    calls = [
        lambda y, again: y.a + again.b,
        lambda y, again: y.where(again.a > 4),
        lambda y, again: y.isel(obs=slice(2, 7)) + again.isel(obs=slice(2, 7)),
        lambda y, again: y.isel(obs=slice(None)).a[:4] + again.b[0:4],
        lambda y, again: y.isel(obs=[4, 1]) + again.isel(obs=np.array([4, 1])),
        lambda y, again: y.rename(obs="o")[["a"]] + again.rename(obs="o"),
        lambda y, again: y.isel(obs=xr.DataArray([1, 2], dims="p")) * 2,
        lambda y, again: y.rolling(obs=3).mean(),
        lambda y, again: y.expand_dims(k=2).transpose() - again,
        lambda y, again: y.copy(deep=True) + pickle.loads(pickle.dumps(again)),
    ]
    for call in calls:
        with raise_if_computes():
            y, again = (table.chunk(obs=3).gpusort.sortby("b") for _ in range(2))
            found = call(y, again)
        found = found.compute(scheduler="synchronous")
        expected = call(wanted, wanted)
        lazily = [name for name, index in found.xindexes.items() if isinstance(index, LazyLabels)]
        assert set(lazily) == set(expected.xindexes)
        xr.testing.assert_identical(found.drop_indexes(lazily), expected.drop_indexes(lazily))


def test_labels_that_turn_out_to_be_equal_are_aligned():
    table = make_table()
    lazily = table.chunk(obs=3).gpusort.sortby("a")
    if Version(xr.__version__) < Version("2026.9"):  # it compares no labels of two kinds of indexes
        with pytest.raises(xr.AlignmentError, match="set_xindex"):
            lazily.b + table.b
        return
    xr.testing.assert_equal((lazily.b + table.b).compute(), 2 * table.b)


def test_without_labels_there_is_nothing_to_align():
    table = make_table().drop_vars("obs")
    lazily = table.chunk(obs=3).gpusort.sortby("b")
    assert not lazily.xindexes
    again = lazily.drop_vars("station").gpusort.sortby(xr.DataArray(np.arange(10)[::-1], dims="obs"))
    assert again.a.values.tolist() == list(range(10))
    xr.testing.assert_identical((lazily.a + table.a).compute(), table.sortby("b").a + table.a)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("dim", ["time", "x"])
def test_sort_values_and_argsort(dim, ascending):
    for make in SOURCES:
        source = make()
        ds = source if isinstance(source, xr.Dataset) else source.to_dataset(name="t")
        own = [name for name, variable in ds.data_vars.items() if dim in variable.dims]
        labels = [name for name, coord in ds.coords.items() if dim in coord.dims]
        wanted = {}
        for function in (oracle.sort, oracle.argsort):
            arrays = {
                name: xr.Variable(
                    ds[name].dims,
                    function(ds[name].values, ds[name].get_axis_num(dim), descending=not ascending),
                    ds[name].attrs,
                    ds[name].encoding if function is oracle.sort else {},
                )
                for name in own
            }
            wanted[function] = ds.drop_vars(labels).assign(arrays)
            if isinstance(source, xr.DataArray):
                wanted[function] = wanted[function]["t"].rename(source.name)
        check(lambda x: x.gpusort.sort_values(dim, ascending=ascending), source, wanted[oracle.sort])
        lazy = check(lambda x: x.gpusort.argsort(dim, ascending=ascending), source, wanted[oracle.argsort])
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


@pytest.mark.parametrize("pct", [False, True])
@pytest.mark.parametrize("dim", ["time", "y"])
@pytest.mark.parametrize("ascending", [True, False])
def test_rank(dim, pct, ascending):
    ds = make_dataset().assign_attrs(title="maps")
    own = [name for name, variable in ds.data_vars.items() if dim in variable.dims and name != "name"]
    ds = ds.drop_vars("name")
    arrays = {
        name: (
            ds[name].dims,
            ranks_of_lanes(ds[name].values, ds[name].get_axis_num(dim), "average", "omit", pct, not ascending),
            ds[name].attrs,
        )
        for name in own
    }
    wanted = ds[own].assign(arrays)
    lazy = check(lambda x: x.gpusort.rank(dim, ascending=ascending, pct=pct), ds, wanted)
    assert lazy.t.chunks == ds.t.chunk(CHUNKS).chunks
    check(lambda x: x.gpusort.rank(dim, ascending=ascending, pct=pct), ds.t, wanted.t.assign_coords(ds.t.coords))
    assert ds.t.gpusort.rank(dim, keep_attrs=False).attrs == {}


@pytest.mark.parametrize("dim", ["time", ["x", "time"], None])
@pytest.mark.parametrize("skipna", [None, False])
def test_modes_and_numbers_of_distinct_values(dim, skipna):
    ds = make_dataset()
    ds["t"] = (ds.t / 30).round()

    def most_common(keys, axis):
        skips = keys.dtype.kind == "f" and skipna is None
        return np.apply_along_axis(lambda lane: mode_of(lane[~np.isnan(lane)] if skips else lane), axis, keys)

    def along_last(function, array, axis=None):
        axes = range(array.ndim) if axis is None else np.atleast_1d(axis)
        kept = [size for at, size in enumerate(array.shape) if at not in axes]
        return function(np.moveaxis(array, axes, range(-len(axes), 0)).reshape(*kept, -1), -1)

    def distinct(keys, axis):
        return np.apply_along_axis(lambda lane: len(np.unique(lane)), axis, keys)

    numbers = ds[["t", "rounded"]]
    for one, call in (
        (most_common, lambda x, **options: x.gpusort.mode(dim, skipna=skipna, **options)),
        (distinct, lambda x, **options: x.gpusort.nunique(dim, **options)),
    ):
        check(call, numbers, numbers.reduce(functools.partial(along_last, one), dim, keep_attrs=True))
        assert call(ds.t, keep_attrs=False).attrs == {}
    words = ds.gpusort.nunique("time")["name"]
    assert int(words) == len(np.unique(ds.name))


def mode_of(lane):
    keys, counts = np.unique(lane, return_counts=True)
    return keys[counts.argmax()] if len(keys) else np.nan


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
    for source in (table, table.chunk(row=7), table[0, 0]):
        with pytest.raises(ValueError, match=re.escape(f"dim must be one of {source.dims}: give it")):
            source.gpusort.unique()


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


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A dataset read from Zarr: numbers and other labels as small integers, and dates as hours."""
    pytest.importorskip("zarr")
    rng, rows = np.random.default_rng(0), 2000
    source = xr.Dataset(
        {
            "t": (("time", "y"), rng.integers(-3000, 3000, (rows, 2)) / 100),
            "seen": ("time", pd.date_range("2020-01-01", periods=rows, freq="h").values[rng.permutation(rows)]),
        },
        {
            "time": pd.date_range("2020-01-01", periods=rows),
            "depth": ("time", rng.integers(0, 99, rows) / 10),
            "y": [1, 2],
        },
    )
    source.t.encoding = {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -9999}
    source.depth.encoding = {"dtype": "int16", "scale_factor": 0.1, "_FillValue": -9999}
    source.seen.encoding = {"units": "hours since 2000-01-01", "dtype": "int32"}
    path = tmp_path_factory.mktemp("packed") / "source.zarr"
    source.chunk(time=500).to_zarr(path)
    return xr.open_zarr(path)


WRITTEN = {
    "sort_values": lambda x: x.gpusort.sort_values("time"),
    "argsort": lambda x: x.gpusort.argsort("time"),
    "rank": lambda x: x.gpusort.rank("time"),
    "share": lambda x: x.gpusort.rank("time", pct=True),
    "topk": lambda x: x.gpusort.topk(7, "time"),
    "median": lambda x: x.gpusort.median("time"),
    "quantile": lambda x: x.gpusort.quantile([0.2, 0.5], "time"),
    "sortby": lambda x: x.gpusort.sortby("depth"),
    "sortby eager": lambda x: x.gpusort.sortby("time"),
    "unique": lambda x: x.gpusort.unique("time").chunk(time=-1),
}
#: Of which values are those of the source, which its encoding holds.
OF_THE_SOURCE = {"sort_values", "topk", "sortby", "sortby eager", "unique"}


@pytest.mark.parametrize(("name", "in_memory"), grid(list(WRITTEN), [False, True]))
def test_results_of_packed_variables_are_read_back_from_zarr(packed, name, in_memory, tmp_path):
    numbers = [packed[["t"]], packed.t, packed.depth]
    dates = [packed[["seen"]], packed.seen]
    sources = numbers + (dates if name not in ("median", "quantile") else [])  # which NumPy has not of dates
    for number, source in enumerate(sources):
        if name == "unique" and isinstance(source, xr.Dataset):
            continue
        found = WRITTEN[name](source.compute() if in_memory else source)
        written = found if isinstance(found, xr.Dataset) else found.rename("found").to_dataset()
        written.to_zarr(tmp_path / f"{number}.zarr")
        xr.testing.assert_equal(xr.open_zarr(tmp_path / f"{number}.zarr").compute(), written.compute())
        for variable in written.data_vars.values():
            assert ("dtype" in variable.encoding) is (name in OF_THE_SOURCE)


def make_tree():
    cube = make_dataset()[["t"]].chunk(CHUNKS)
    table = xr.Dataset(
        {"v": (("time", "z"), da.arange(12, chunks=5).reshape(3, 4)), "s": 3.0}, attrs={"title": "table"}
    )
    both = {"/": xr.Dataset(coords={"z": [1, 2, 3, 4]}), "/cube": cube, "/table": table, "/empty/below": xr.Dataset()}
    return xr.DataTree.from_dict(both, name="tree")


@pytest.mark.parametrize("dim", [None, ..., "time", "z", ["z", "time"]])
def test_trees(dim):
    """xarray has medians of these; others are of each Dataset along those dimensions that it has."""
    lazy = make_tree()
    tree = lazy.map_over_datasets(lambda ds: ds.compute())
    xr.testing.assert_identical(lazy.gpusort.median(dim).compute(), tree.median(dim))
    calls = {"quantile": ([0.2, 0.5],), "mode": (), "nunique": ()}
    for name, args in calls.items():
        found = getattr(lazy.gpusort, name)(*args, dim)
        assert dask.is_dask_collection(found["cube"].to_dataset())
        for path, node in tree.subtree_with_keys:
            own = node.to_dataset(inherit=False).dims
            dims = [each for each in own if dim in (None, ...) or each in dim]
            wanted = getattr(node.to_dataset().gpusort, name)(*args, dims)
            if node.has_data:
                xr.testing.assert_identical(
                    found[path].to_dataset().drop_attrs().compute(), wanted.drop_attrs().compute()
                )
    with pytest.raises(ValueError, match="Dimensions {'depths'} not found in those of the tree: give dim some of"):
        lazy.gpusort.quantile(0.5, "depths")
