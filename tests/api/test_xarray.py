"""Medians and quantiles by xarray's own methods after `register`, against the same methods of NumPy arrays."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version
from support.marks import grid
from support.sorting import own_functions

import dask_gpusort

xr = pytest.importorskip("xarray")
pytestmark = pytest.mark.skipif(da.array_expr_enabled(), reason="xarray's functions need dispatch of NumPy functions")

CHUNKS = {"time": 7, "y": 4, "x": 3}
DIMS = ["time", ["x", "time"], ["time", "y", "x"], None]
NEW = Version(xr.__version__) >= Version("2026.9")
flox_has_medians = pytest.mark.skipif(not NEW, reason="xarray computes medians of groups by flox since 2026.9")


@pytest.fixture(autouse=True)
def registered():
    dask_gpusort.register()
    yield
    dask_gpusort.unregister()


def make_cube(dtype="f4", times=60):
    """Daily maps with coordinates of one and two dimensions; floats have NaN, and one pixel has nothing else."""
    rng = np.random.default_rng(0)
    keys = rng.normal(280, 10, (times, 6, 8)).astype(dtype)
    if keys.dtype.kind == "f":
        keys[rng.random(keys.shape) < 0.1] = np.nan
        keys[:, 2, 3] = np.nan
    coords = {
        "time": pd.date_range("2020-01-20", periods=times),
        "y": np.arange(6) * 2.0,
        "area": (("y", "x"), rng.integers(0, 9, (6, 8))),
        "run": 3,
    }
    attrs = {"units": "K", "long_name": "temperature"}
    return xr.DataArray(keys, dims=("time", "y", "x"), coords=coords, attrs=attrs, name="t")


def make_dataset():
    """The cube with variables that have other dtypes and lack dimensions."""
    cube = make_cube()
    count = ("x", np.arange(8), {"units": "1"})
    return cube.to_dataset().assign(rounded=make_cube("i2"), count=count)


SOURCES = [make_cube, make_dataset, lambda: make_cube("i4"), lambda: make_cube().variable]


def same_but_last_bits(found, expected):
    xr.testing.assert_identical(xr.full_like(found, 0), xr.full_like(expected, 0))
    xr.testing.assert_allclose(found, expected, rtol=1e-6)


def check(call, source, no_computation, chunks=CHUNKS, same=xr.testing.assert_identical):
    """Compare the values, dtypes, coordinates, names and attributes that `call` gives for NumPy and Dask arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # empty slices
        with xr.set_options(use_bottleneck=False, use_numbagg=False):  # which have other dtypes and roundings
            expected = call(source)
        chunked = source.chunk(chunks)
        with no_computation():
            lazy = call(chunked)
        assert own_functions(lazy)
        found = lazy.compute(scheduler="synchronous")
    same(found, expected)
    if isinstance(found, xr.Dataset):
        assert found.dtypes == expected.dtypes
    else:
        assert found.dtype == expected.dtype


@pytest.mark.parametrize(("make", "dim", "skipna"), grid(SOURCES, DIMS, [True, False, None]))
def test_median(make, dim, skipna, raise_if_computes):
    check(lambda x: x.median(dim, skipna=skipna), make(), raise_if_computes)


@pytest.mark.parametrize(("make", "dim", "skipna"), grid(SOURCES, DIMS, [True, False, None]))
def test_quantile(make, dim, skipna, raise_if_computes):
    source = make()
    check(lambda x: x.quantile(0.3, dim, skipna=skipna), source, raise_if_computes)
    check(lambda x: x.quantile([0.05, 0.5, 1], dim, skipna=skipna, method="lower"), source, raise_if_computes)


@pytest.mark.parametrize("keep", [True, False])
def test_attributes(keep, raise_if_computes):
    for source in (make_cube(), make_dataset()):
        check(lambda x: x.median("time", keep_attrs=keep), source, raise_if_computes)
        check(lambda x: x.quantile(0.3, "time", keep_attrs=keep), source, raise_if_computes)
    assert make_cube().chunk(CHUNKS).median("time", keep_attrs=keep).attrs == (make_cube().attrs if keep else {})


@given(st.data())
def test_any_chunks_and_dimensions(data):
    cube = make_cube(data.draw(st.sampled_from(["f2", "f4", "f8", "u1", "i8"])), times=20)
    chunks = {name: data.draw(st.integers(1, size)) for name, size in cube.sizes.items()}
    dim = data.draw(st.lists(st.sampled_from(cube.dims), min_size=1, unique=True))
    skipna = data.draw(st.sampled_from([True, False, None]))
    method = data.draw(st.sampled_from(["linear", "midpoint", "higher", "hazen"]))
    # Small chunks as the limit: lanes in many chunks are searched by samples.
    with dask.config.set({"array.chunk-size": data.draw(st.sampled_from(["128MiB", "1kiB", "100B"]))}):
        for call in (
            lambda x: x.median(dim, skipna=skipna),
            lambda x: x.quantile([0.2, 0.9], dim, skipna=skipna, method=method),
        ):
            check(call, cube, warnings.catch_warnings, chunks)


@pytest.mark.parametrize("use_flox", [True, False])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.resample(time="1MS").median(),
        lambda x: x.resample(time="1MS").median("time", skipna=False),
        lambda x: x.resample(time="1MS").quantile(0.95),
        lambda x: x.resample(time="1MS").quantile([0.5, 0.95], skipna=False, keep_attrs=False),
        lambda x: x.groupby("time.month").median("time"),
        lambda x: x.groupby("time.month").median(..., keep_attrs=False),
        lambda x: x.groupby("time.month").quantile([0.1, 0.9], dim="time"),
        lambda x: x.groupby("time.month").quantile(0.1, dim=...),
        lambda x: x.groupby_bins("y", [0, 3, 11]).median("y"),
        lambda x: x.groupby_bins("y", [0, 3, 11]).quantile(0.2),
    ],
)
def test_groups(call, use_flox, raise_if_computes):
    """Also where flox, which xarray prefers, is installed; it rounds otherwise."""
    same = same_but_last_bits if use_flox else xr.testing.assert_identical
    with xr.set_options(use_flox=use_flox):
        check(call, make_cube(), raise_if_computes, same=same)
        check(call, make_cube().to_dataset(), raise_if_computes, same=same)


@flox_has_medians
def test_flox_has_other_reductions_and_arrays_in_memory(monkeypatch):
    pytest.importorskip("flox")
    import flox.xarray

    calls = []
    reduce = flox.xarray.xarray_reduce

    def counted(*args, **kwargs):
        calls.append(kwargs["func"])
        return reduce(*args, **kwargs)

    monkeypatch.setattr(flox.xarray, "xarray_reduce", counted)
    cube = make_cube()
    for name in ("mean", "sum", "count"):
        getattr(cube.chunk(CHUNKS).resample(time="1MS"), name)()
        getattr(cube.chunk(CHUNKS).groupby("time.month"), name)()
    cube.resample(time="1MS").median()
    cube.groupby("time.month").quantile(0.5)
    assert calls == ["mean", "mean", "sum", "sum", "count", "count", "median", "quantile"]
    cube.chunk(CHUNKS).groupby("time.month").quantile(0.5)
    assert calls[8:] == ["max"]  # of labels
    dask_gpusort.unregister()
    cube.chunk(time=-1).resample(time="1MS").median()
    assert len(calls) == 10
    with dask_gpusort.register("numpy"):
        cube.chunk(time=-1).resample(time="1MS").median()
    assert len(calls) == 11


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.coarsen(time=5, x=4).median(),
        pytest.param(
            lambda x: x.rolling(time=5).median(),
            marks=pytest.mark.skipif(not NEW, reason="before xarray 2026.9 bottleneck computes those of float32"),
        ),
        lambda x: x.rolling(time=5).construct("window").quantile(0.5, "window"),
        lambda x: x.stack(pixel=("y", "x")).quantile(0.5, "pixel"),
        lambda x: x.reduce(np.nanmedian, ("time", "x")),
        lambda x: x.reduce(np.nanpercentile, "time", q=30),
        lambda x: xr.apply_ufunc(
            np.nanmedian, x, input_core_dims=[["time"]], kwargs={"axis": -1}, dask="allowed", keep_attrs=True
        ),
    ],
)
def test_other_methods_that_call_numpy(call, raise_if_computes):
    check(call, make_cube().drop_vars("area"), raise_if_computes)


def test_no_dimensions():
    cube = make_cube().chunk(CHUNKS)
    xr.testing.assert_identical(cube.median(()).compute(scheduler="synchronous"), make_cube())


def test_errors_are_those_of_xarray():
    cube = make_cube().chunk(CHUNKS)
    with pytest.raises(ValueError, match=r"Quantiles must be in the range \[0, 1\]"):
        cube.quantile(1.5, "time")
    with pytest.raises(ValueError, match="depth"):
        cube.median("depth")


def test_unregister_restores_the_functions_of_dask():
    cube = make_cube().chunk(CHUNKS)
    dask_gpusort.unregister()
    # Where NaN are left out, Dask takes numbagg, which compiles for seconds.
    assert not own_functions(cube.median("time", skipna=False))
    assert not own_functions(cube.quantile(0.5, "time"))
    with pytest.raises(NotImplementedError):
        cube.median()
    dask_gpusort.register()
    assert own_functions(cube.median("time", skipna=False))
    assert own_functions(cube.median())


def test_the_source_is_read_once():
    reads = []

    def read(block):
        reads.append(block.shape)
        return block

    cube = make_cube().chunk(CHUNKS)
    counted = cube.copy(data=cube.data.map_blocks(read, dtype=cube.dtype, meta=cube.data._meta))
    for dim in ("time", None):
        reads.clear()
        counted.quantile([0.1, 0.5, 0.9], dim).compute(scheduler="synchronous")
        assert len(reads) == cube.data.npartitions
