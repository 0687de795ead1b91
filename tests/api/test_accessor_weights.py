"""Weights of the accessor of xarray's objects: `numpy.quantile` of the loaded arrays is the oracle."""

from __future__ import annotations

import pickle

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sorting import check_sizes, no_computation
from support.weights import weights_of

xr = pytest.importorskip("xarray")
pytest.importorskip("dask_gpusort.xarray")

pytestmark = [
    pytest.mark.skipif(da.array_expr_enabled(), reason="xarray's functions need dispatch of NumPy functions"),
    pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning"),
]

SIZES = {"time": 7, "y": 3, "x": 4}
LABELS = {"time": np.arange(7) * 10, "y": [5, 3, 4]}
dims_of = st.lists(st.sampled_from(list(SIZES)), min_size=1, unique=True)


def make_cube(dtype, dims=("time", "y", "x")):
    """A cube with labels along two dimensions; floats have NaN, and one series nothing else."""
    keys = np.random.default_rng(0).integers(0, 9, tuple(SIZES.values())).astype(dtype)
    if keys.dtype.kind == "f":
        keys[::3, 1] = np.nan
        keys[:, 2, 3] = np.nan
    coords = {**LABELS, "area": (("y", "x"), np.arange(12).reshape(3, 4), {"units": "m2"}), "run": 3}
    return xr.DataArray(keys, coords, tuple(SIZES), "t", {"units": "K"}).transpose(*dims)


def labelled(values, dims):
    """Weights with the labels of the cube."""
    return xr.DataArray(values, {dim: LABELS[dim] for dim in dims if dim in LABELS}, dims)


def quantile_of(variable, q, dims, weights, skipna=None):
    """NumPy's quantiles of a variable along dimensions, with weights of the whole shape."""
    name = "nanquantile" if skipna or (skipna is None and variable.dtype.kind == "f") else "quantile"
    last = variable.transpose(..., *dims)
    whole = weights.variable.set_dims(dict(last.sizes)).transpose(*last.dims).values
    # Before 2.4 NumPy takes one axis.
    shape = (*last.shape[: last.ndim - len(dims)], -1)
    return getattr(np, name)(last.values.reshape(shape), q, -1, weights=whole.reshape(shape), method="inverted_cdf")


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

    def chunked(array):
        sizes = {dim: draw(st.integers(1, size)) for dim, size in array.sizes.items()}
        return array.chunk(sizes) if draw(st.booleans()) else array

    def call(array, **given):
        return array.gpusort.median(dims, **given) if q is None else array.gpusort.quantile(q, dims, **given)

    wanted = quantile_of(cube, 0.5 if q is None else q, reduced, weights, options["skipna"])
    own, own_weights = chunked(cube), chunked(weights)
    with no_computation():
        found = call(own, weights=own_weights, **options, **more)
    assert (found.chunks is None) is (own.chunks is own_weights.chunks is None)
    if found.chunks is not None:
        check_sizes(found.data)
    done = found.compute(scheduler="synchronous")
    xr.testing.assert_identical(done, call(cube, **options).copy(data=wanted))
    assert found.dtype == done.dtype == wanted.dtype


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("chunks", [None, 2])
@pytest.mark.parametrize("over", [["time"], ["x"], ["y", "time"]])
def test_variables_of_a_dataset(over, chunks, keep):
    """Weights are for the variables with a reduced dimension; the others are as without weights."""
    ds = make_cube("f4").to_dataset().assign(name=("x", list("abcd")), one=1)
    ds = ds.assign(day=("time", np.arange(7), {"units": "d"}), height=("y", [1, 2, 3], {"units": "m"}))
    shape = [SIZES[dim] for dim in over]
    weights = labelled(np.arange(np.prod(shape)).reshape(shape) % 4 + 1, over)
    own = ds if chunks is None else ds.chunk(dict.fromkeys(SIZES, chunks))
    number = {"numeric_only": True, "keep_attrs": keep}
    calls = {
        0.5: lambda obj, **given: obj.gpusort.median(["time", "x"], keep_attrs=keep, **given),
        (0.2, 0.7): lambda obj, **given: obj.gpusort.quantile([0.2, 0.7], ["time", "x"], **number, **given),
    }
    for q, call in calls.items():
        expected = call(ds)
        for name in ("t", "day"):
            wider = ds[name].variable.set_dims({**ds[name].sizes, **weights.sizes})
            kept = ["quantile"] * np.ndim(q) + [dim for dim in wider.dims if dim == "y"]
            wanted = quantile_of(wider, q, [dim for dim in wider.dims if dim != "y"], weights)
            expected[name] = (kept, wanted, ds[name].attrs if keep else {})
        xr.testing.assert_identical(call(own, weights=weights).compute(scheduler="synchronous"), expected)


@pytest.mark.parametrize("kind", [list, np.asarray, lambda values: da.from_array(np.asarray(values), chunks=2)])
def test_weights_without_names_are_along_the_dimensions_in_their_order(kind):
    cube = make_cube("f8").fillna(3)
    for dims, shape in ((["x"], (4,)), (["x", "time"], (4, 7)), (["time"], cube.shape)):
        values = np.arange(np.prod(shape)).reshape(shape) % 5 + 1
        wanted = quantile_of(cube, [0.2, 0.6], dims, labelled(values, dims if values.ndim < 3 else cube.dims))
        for own in (cube, cube.chunk(time=3, x=3)):
            found = own.gpusort.quantile([0.2, 0.6], dims, weights=kind(values.tolist()))
            np.testing.assert_array_equal(found, wanted)


def ones(dim, labels):
    return xr.DataArray(np.ones(len(labels)), {dim: labels}, [dim])


WRONG = {
    "other labels": (ones("time", np.arange(7)), {}, "reindex_like"),
    "another order": (ones("time", LABELS["time"][::-1]), {}, "reindex_like"),
    "some labels": (ones("time", LABELS["time"][:4]), {}, "reindex_like"),
    "labels that are not reduced": (ones("y", [3, 4, 5]), {}, "reindex_like"),
    "another size": (xr.DataArray(np.ones(3), dims="x"), {}, "reindex_like"),
    "another dimension": (ones("z", [1, 2]), {}, "weights has dimensions .*'z'"),
    "another shape": (np.ones(3), {}, r"weights has shape \(3,\).*give weights as a DataArray"),
    "another method": (ones("time", LABELS["time"]), {"method": "linear"}, "Give method='inverted_cdf'"),
}


@pytest.mark.parametrize("dim", [["time"], ["time", "y"]])
@pytest.mark.parametrize("over", ["time", "y"])
def test_one_element_beside_an_empty_chunk(over, dim):
    """Dask's `broadcast_to` fails there."""
    cube = make_cube("f8").isel(y=[0])
    weights = xr.DataArray(np.arange(1.0, cube.sizes[over] + 1), dims=over)
    own, own_weights = cube.chunk(y=(0, 1)), weights.chunk({over: (0, weights.size)})
    found = own.gpusort.quantile(0.4, dim, weights=own_weights)
    np.testing.assert_array_equal(found, quantile_of(cube, 0.4, dim, weights))


@pytest.mark.parametrize("name", WRONG)
def test_weights_that_do_not_fit(name):
    weights, options, message = WRONG[name]
    for obj in (make_cube("f4"), make_cube("f4").chunk(time=3), make_cube("f4").to_dataset().chunk(time=3)):
        with pytest.raises(ValueError, match=message), no_computation():
            obj.gpusort.quantile(0.5, "time", weights=weights, **options)
        if not options:
            with pytest.raises(ValueError, match=message), no_computation():
                obj.gpusort.median(weights=weights)


def test_a_graph_does_not_hold_broadcast_weights():
    cube = xr.DataArray(da.zeros((1000, 3, 1000), chunks=(100, 3, 1000)), dims=("time", "y", "x"))
    found = cube.gpusort.quantile(0.5, ["time", "y"], weights=xr.DataArray([1, 2, 3], dims="y"))
    assert len(pickle.dumps(found.__dask_graph__())) < 10**6


@pytest.mark.parametrize(
    ("weights", "interpolated", "picked"),
    [([1, 1, 1, 1], [1.75, 2.5, 3.25], [1, 2, 3]), ([0, 1, 1, 2], [17 / 6, 3.5, 47 / 12], [2, 3, 4])],
)
def test_weighted_quantiles_of_xarray_are_of_another_method(weights, interpolated, picked):
    """What the guide says: with weights of one xarray's are linear quantiles; ours are elements, along chunks too."""
    keys, q, by = xr.DataArray([1.0, 2, 3, 4], dims="time"), [0.25, 0.5, 0.75], xr.DataArray(weights, dims="time")
    np.testing.assert_allclose(keys.weighted(by).quantile(q, dim="time"), interpolated)
    assert (np.quantile(keys, q).tolist() == interpolated) is (weights == [1] * 4)
    assert keys.chunk(time=2).gpusort.quantile(q, "time", weights=by).values.tolist() == picked
    with pytest.raises(ValueError, match="multiple chunks"):
        keys.chunk(time=2).weighted(by).quantile(q, dim="time")
