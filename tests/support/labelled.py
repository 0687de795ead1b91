"""Objects of xarray, and comparisons of what methods give for them in memory and lazily."""

from __future__ import annotations

import warnings

import dask
import numpy as np
import pytest

from support.sorting import no_computation

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")

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
    cube = xr.DataArray(keys, dims=("time", "y", "x"), coords=coords, attrs=attrs, name="t")
    cube.encoding = {"dtype": "int16", "scale_factor": 0.5, "chunks": (7, 4, 3)}
    cube.time.encoding = {"units": "days since 2000-01-01"}
    cube.depth.encoding = {"dtype": "int16"}
    return cube


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


def methods_of_numpy():
    """Xarray's methods of arrays in memory are NumPy's; those of other libraries have other dtypes and roundings."""
    return xr.set_options(use_bottleneck=False, use_numbagg=False)


def check(ours, source, expected=None, *, chunks=CHUNKS, same=xr.testing.assert_identical, indexes=True):
    """Compare what `ours` gives lazily for Dask arrays with what is expected, or what it gives for arrays in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # empty slices
        in_memory = ours(source)
        assert not dask.is_dask_collection(in_memory)
        expected = in_memory if expected is None else expected
        xr.testing.assert_identical(in_memory, expected)
        with no_computation():
            lazy = ours(source.chunk(chunks))
        found = lazy.compute(scheduler="synchronous")
    if not indexes:
        found = found.set_xindex("time")
    same(found, expected)
    one, other = (
        obj.variables if isinstance(obj, xr.Dataset) else {None: obj, **getattr(obj, "coords", {})}
        for obj in (found, expected)
    )
    for name, variable in one.items():
        wanted = other[name]
        assert (variable.dtype, variable.dims, variable.encoding) == (wanted.dtype, wanted.dims, wanted.encoding)
    return lazy
