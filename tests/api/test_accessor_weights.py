"""Weights of the accessor of xarray's objects: `numpy.quantile` of the loaded arrays is the oracle."""

from __future__ import annotations

import pickle
import warnings

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sorting import check_sizes, no_computation
from support.weights import weights_of

xr = pytest.importorskip("xarray")
pytest.importorskip("dask_gpusort.xarray")

pytestmark = pytest.mark.skipif(da.array_expr_enabled(), reason="xarray's functions need dispatch of NumPy functions")

SIZES = {"time": 7, "y": 3, "x": 4}
COORDS = {
    "time": np.arange(7) * 10,
    "y": [5, 3, 4],
    "area": (("y", "x"), np.arange(12).reshape(3, 4), {"units": "m2"}),
    "run": 3,
}
dims_of = st.lists(st.sampled_from(list(SIZES)), min_size=1, unique=True)


def make_cube(dtype, dims=("time", "y", "x")):
    """A cube with labels along two dimensions; floats have NaN, and one series nothing else."""
    keys = np.random.default_rng(0).integers(0, 9, tuple(SIZES.values())).astype(dtype)
    if keys.dtype.kind == "f":
        keys[::3, 1] = np.nan
        keys[:, 2, 3] = np.nan
    attrs = {"units": "K"}
    return xr.DataArray(keys, COORDS, tuple(SIZES), "t", attrs).transpose(*dims)


def labelled(values, dims):
    """Weights with the labels of the cube."""
    return xr.DataArray(values, {dim: COORDS[dim] for dim in dims if dim in COORDS}, dims)


def quantile_of(variable, q, dims, weights, skipna):
    """NumPy's quantiles of a variable along its last dimensions, with weights of the whole shape."""
    name = "nanquantile" if skipna or (skipna is None and variable.dtype.kind == "f") else "quantile"
    last = variable.transpose(..., *dims)
    whole = weights.variable.set_dims(dict(last.sizes)).transpose(*last.dims).values
    axis = tuple(range(-len(dims), 0))
    with np.errstate(all="ignore"):
        return getattr(np, name)(last.values, q, axis, weights=whole, method="inverted_cdf")


@st.composite
def chunked(draw, obj):
    """An array in memory, or in chunks of its own."""
    if draw(st.booleans()):
        return obj
    return obj.chunk({dim: draw(st.integers(1, size)) for dim, size in obj.sizes.items()})


@given(st.data())
def test_quantiles_and_medians(data):
    """Weights of some dimensions, in any order and chunks; labels are those without weights."""
    draw = data.draw
    cube = make_cube(draw(st.sampled_from(["f4", "f8", "i2"])), draw(st.permutations(list(SIZES))))
    dims, over = draw(st.just(None) | dims_of), draw(dims_of)
    reduced = list(SIZES) if dims is None else dims
    values = draw(weights_of([SIZES[dim] for dim in over]))
    weights = labelled(values if set(over) & set(reduced) else values + 1, over)
    q = draw(st.sampled_from([None, 0.3, 1, [0.25, 0.5, 0], []]))
    options = {"skipna": draw(st.sampled_from([None, True, False])), "keep_attrs": draw(st.booleans())}
    more = {"method": "inverted_cdf"} if q is not None and draw(st.booleans()) else {}
    own, own_weights = draw(chunked(cube)), draw(chunked(weights))

    def call(array, **given):
        return array.gpusort.median(dims, **given) if q is None else array.gpusort.quantile(q, dims, **given)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # series of NaN alone
        wanted = quantile_of(cube, 0.5 if q is None else q, reduced, weights, options["skipna"])
        expected = call(cube, **options).copy(data=wanted)
        with no_computation():
            found = call(own, weights=own_weights, **options, **more)
        assert (found.chunks is None) is (own.chunks is own_weights.chunks is None)
        if found.chunks is not None:
            check_sizes(found.data)
        done = found.compute(scheduler="synchronous")
    xr.testing.assert_identical(done, expected)
    assert found.dtype == done.dtype == wanted.dtype
    assert done.encoding == expected.encoding


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("chunks", [None, 2])
@pytest.mark.parametrize("over", [["time"], ["x"], ["y", "time"]])
def test_variables_of_a_dataset(over, chunks, keep):
    """Weights are for the variables with a reduced dimension; the others are as without weights."""
    ds = make_cube("f4").to_dataset()
    ds = ds.assign(
        name=("x", list("abcd")),
        day=("time", np.arange(7), {"units": "d"}),
        height=("y", [1, 2, 3], {"units": "m"}),
        one=1,
    )
    shape = [SIZES[dim] for dim in over]
    weights = labelled(np.arange(np.prod(shape)).reshape(shape) % 4 + 1, over)
    own = ds if chunks is None else ds.chunk(dict.fromkeys(SIZES, chunks))
    number = {"numeric_only": True, "keep_attrs": keep}
    calls = {
        0.5: lambda obj, **given: obj.gpusort.median(["time", "x"], keep_attrs=keep, **given),
        (0.2, 0.7): lambda obj, **given: obj.gpusort.quantile([0.2, 0.7], ["time", "x"], **number, **given),
    }
    for q, call in calls.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # series of NaN alone
            expected, found = call(ds), call(own, weights=weights)
            for name in ("t", "day"):
                sizes = {**ds[name].sizes, **weights.sizes}
                kept = ["quantile"] * np.ndim(q) + [dim for dim in sizes if dim not in ("time", "x")]
                wider = ds[name].variable.set_dims(sizes)
                wanted = quantile_of(wider, q, [dim for dim in sizes if dim in ("time", "x")], weights, None)
                expected[name] = (kept, wanted, ds[name].attrs if keep else {})
            xr.testing.assert_identical(found.compute(scheduler="synchronous"), expected)


@pytest.mark.parametrize("kind", [list, np.asarray, lambda values: da.from_array(np.asarray(values), chunks=2)])
def test_weights_without_names_are_along_the_dimensions_in_their_order(kind):
    cube = make_cube("f8").fillna(3)
    for dims, shape in ((["x"], (4,)), (["x", "time"], (4, 7)), (["time"], cube.shape)):
        values = np.arange(np.prod(shape)).reshape(shape) % 5 + 1
        named = labelled(values, dims if values.ndim < 3 else cube.dims)
        for own in (cube, cube.chunk(time=3, x=3)):
            found = own.gpusort.quantile([0.2, 0.6], dims, weights=kind(values.tolist()))
            np.testing.assert_array_equal(found, quantile_of(cube, [0.2, 0.6], dims, named, None))


def wrong(dim, labels):
    return xr.DataArray(np.ones(len(labels)), {dim: labels}, [dim])


WRONG = {
    "other labels": (wrong("time", np.arange(7)), "reindex_like"),
    "another order": (wrong("time", COORDS["time"][::-1]), "reindex_like"),
    "some labels": (wrong("time", COORDS["time"][:4]), "reindex_like"),
    "labels that are not reduced": (wrong("y", [3, 4, 5]), "reindex_like"),
    "another size": (xr.DataArray(np.ones(3), dims="x"), "reindex_like"),
    "another dimension": (xr.DataArray(np.ones(3), dims="z"), "weights has dimensions .*'z'"),
    "another shape": (np.ones(3), r"weights has shape \(3,\).*give weights as a DataArray"),
}


@pytest.mark.parametrize("name", WRONG)
def test_weights_that_do_not_fit(name):
    weights, message = WRONG[name]
    for obj in (make_cube("f4"), make_cube("f4").chunk(time=3), make_cube("f4").to_dataset().chunk(time=3)):
        with pytest.raises(ValueError, match=message), no_computation():
            obj.gpusort.quantile(0.5, "time", weights=weights)
        with pytest.raises(ValueError, match=message), no_computation():
            obj.gpusort.median(weights=weights)


def test_other_methods_have_no_weights():
    for obj in (make_cube("f4"), make_cube("f4").to_dataset().chunk(time=3)):
        with pytest.raises(ValueError, match="Give method='inverted_cdf'"), no_computation():
            obj.gpusort.quantile(0.5, "time", method="linear", weights=wrong("time", COORDS["time"]))


def test_a_graph_does_not_hold_broadcast_weights():
    cube = xr.DataArray(da.zeros((10**5, 3, 10**4), chunks=(10**4, 3, 100)), dims=("time", "y", "x"))
    found = cube.gpusort.quantile(0.5, ["time", "y"], weights=xr.DataArray(np.arange(3) + 1, dims="y"))
    assert len(pickle.dumps(found.__dask_graph__())) < 10**7


@pytest.mark.parametrize(
    ("weights", "interpolated", "picked"),
    [([1, 1, 1, 1], [1.75, 2.5, 3.25], [1, 2, 3]), ([0, 1, 1, 2], [17 / 6, 3.5, 47 / 12], [2, 3, 4])],
)
def test_weighted_quantiles_of_xarray_are_of_another_method(weights, interpolated, picked):
    """With weights of one xarray's are linear quantiles; ours are elements."""
    keys, q = xr.DataArray([1.0, 2, 3, 4], dims="time"), [0.25, 0.5, 0.75]
    weights = xr.DataArray(weights, dims="time")
    np.testing.assert_allclose(keys.weighted(weights).quantile(q, dim="time"), interpolated)
    assert keys.gpusort.quantile(q, "time", weights=weights).values.tolist() == picked
    if (weights == 1).all():
        with xr.set_options(use_numbagg=False):  # which is compiled first
            assert keys.quantile(q, "time").values.tolist() == interpolated
    with pytest.raises(ValueError, match="multiple chunks"):
        keys.chunk(time=2).weighted(weights).quantile(q, dim="time")
