"""Medians and quantiles by xarray's own methods after `register`, against the same methods of NumPy arrays."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version
from support.labelled import CHUNKS, SOURCES, check, make_cube, make_dataset, methods_of_numpy
from support.marks import grid
from support.sorting import own_functions

import dask_gpusort

xr = pytest.importorskip("xarray")
pytest.importorskip("dask_gpusort.xarray")
pytestmark = pytest.mark.skipif(da.array_expr_enabled(), reason="xarray's functions need dispatch of NumPy functions")

SKIPNA = [True, False, None]
DIMS = ["time", ["x", "time"], ["time", "y", "x"], None, ...]
NEW = Version(xr.__version__) >= Version("2026.9")
flox_has_medians = pytest.mark.skipif(not NEW, reason="xarray computes medians of groups by flox since 2026.9")


@pytest.fixture(autouse=True)
def registered():
    with methods_of_numpy(), dask_gpusort.register():
        yield
    dask_gpusort.unregister()


def same_but_last_bits(found, expected):
    xr.testing.assert_identical(xr.full_like(found, 0), xr.full_like(expected, 0))
    xr.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("make", "dim", "skipna"), grid([*SOURCES, lambda: make_cube().variable], DIMS, SKIPNA))
def test_medians_and_quantiles(make, dim, skipna):
    """By xarray's own methods, and by those of the accessor."""
    source = make()
    options = {"skipna": skipna, **({"numeric_only": True} if isinstance(source, xr.Dataset) else {})}
    dim = source.dims if isinstance(source, xr.Variable) and dim is ... else dim
    calls = [
        lambda x: x.median(dim, skipna=skipna),
        lambda x: x.quantile(0.3, dim, **options),
        lambda x: x.quantile([0.05, 0.5, 1], dim, method="lower", **options),
    ]
    for call in calls:
        assert own_functions(check(call, source))
        if not isinstance(source, xr.Variable):
            check(lambda x, call=call: call(x.gpusort), source, call(source))


@pytest.mark.parametrize("keep", [True, False])
def test_attributes(keep):
    for source in (make_cube(), make_dataset().drop_vars("name")):
        check(lambda x: x.median("time", keep_attrs=keep), source)
        check(lambda x: x.quantile(0.3, "time", keep_attrs=keep), source)
    assert make_cube().chunk(CHUNKS).median("time", keep_attrs=keep).attrs == (make_cube().attrs if keep else {})


@given(st.data())
def test_any_chunks_and_dimensions(data):
    cube = make_cube(data.draw(st.sampled_from(["f2", "f4", "f8", "u1", "i8"])), times=20)
    chunks = {name: data.draw(st.integers(1, size)) for name, size in cube.sizes.items()}
    dim = data.draw(st.lists(st.sampled_from(cube.dims), min_size=1, unique=True))
    skipna = data.draw(st.sampled_from(SKIPNA))
    method = data.draw(st.sampled_from(["linear", "midpoint", "higher", "hazen"]))
    own = data.draw(st.sampled_from([lambda x: x, lambda x: x.gpusort]))
    # Small chunks as the limit: lanes in many chunks are searched by samples.
    with dask.config.set({"array.chunk-size": data.draw(st.sampled_from(["128MiB", "1kiB", "100B"]))}):
        for call in (
            lambda x: x.median(dim, skipna=skipna),
            lambda x: x.quantile([0.2, 0.9], dim, skipna=skipna, method=method),
        ):
            assert own_functions(check(lambda x, call=call: call(own(x)), cube, call(cube), chunks=chunks))


@pytest.mark.parametrize("use_flox", [True, False])
@pytest.mark.parametrize("of_groups", [lambda groups: groups.median("y"), lambda groups: groups.quantile(0.2)])
def test_groups_of_bins(of_groups, use_flox):
    """Also where flox, which xarray prefers, is installed; it rounds otherwise. See `test_xarray_groups` for others."""
    same = same_but_last_bits if use_flox else xr.testing.assert_identical
    with xr.set_options(use_flox=use_flox):
        for source in (make_cube(), make_cube().to_dataset()):
            assert own_functions(check(lambda x: of_groups(x.groupby_bins("y", [0, 3, 11])), source, same=same))


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
        lambda x: x.reduce(np.nanpercentile, "time", q=25),  # whose bits older NumPy has too
        lambda x: xr.apply_ufunc(
            np.nanmedian, x, input_core_dims=[["time"]], kwargs={"axis": -1}, dask="allowed", keep_attrs=True
        ),
    ],
)
def test_other_methods_that_call_numpy(call):
    assert own_functions(check(call, make_cube().drop_vars("area")))


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
