"""Tests of what is found of xarray's groups: its own of arrays in memory are the oracle.

Its values are NumPy's without flox; dimensions, labels, attributes and dtypes are those by flox, where it is taken.
"""

from __future__ import annotations

import contextlib
import sys
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.marks import grid
from support.sorting import no_computation, own_functions

import dask_gpusort

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")
groupers = pytest.importorskip("xarray.groupers")
pytest.importorskip("dask_gpusort.xarray")
labelled = pytest.importorskip("dask_gpusort.adapters.labelled")
labelled_groups = pytest.importorskip("dask_gpusort.adapters.labelled_groups")

pytestmark = [
    pytest.mark.skipif(da.array_expr_enabled(), reason="xarray's functions need dispatch of NumPy functions"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # empty slices
]

SIZES = {"time": 30, "y": 3, "x": 4}
FIVE_DAYS = (None, {"time": groupers.TimeResampler("5D")})
#: What `groupby` is called with.
BY = [
    FIVE_DAYS,
    ("time.month", {}),
    ("time", {}),
    ("kind", {}),
    ("word", {}),
    ("x", {}),
    ("area", {}),
    (["kind", "word"], {}),
    (["kind", "side"], {}),
    (xr.DataArray(np.arange(30) % 4, dims="time", name="given", attrs={"of": "given"}), {}),
    (None, {"time": groupers.SeasonGrouper(["DJ", "FMA"])}),
    (None, {"time": groupers.SeasonGrouper(["DJF", "FMA"])}),
    (None, {"time": groupers.TimeResampler("1MS"), "x": groupers.BinGrouper([0, 1, 2, 8])}),
    (None, {"area": groupers.BinGrouper([-1, 0, 5, 8])}),
    (None, {"kind": groupers.BinGrouper([0, 2, 9, 10], labels=["low", "high", "none"])}),
    (None, {"kind": groupers.UniqueGrouper(), "area": groupers.UniqueGrouper()}),
]
#: Groups of an object, or of its accessor.
MAKERS = [
    *(lambda x, by=by, named=named: x.groupby(by, **named) for by, named in BY),
    lambda x: x.resample(time="4D"),
    lambda x: x.resample(time="1MS", label="right"),
    lambda x: x.resample(time="7h"),  # most groups are empty
]


def make_array(dtype="f8", order=("time", "y", "x"), seed=0):
    """Maps with labels of one and two dimensions, some of which are missing; floats have NaN."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 200, tuple(SIZES.values())).astype(dtype)
    if keys.dtype.kind == "f":
        keys = np.where(rng.random(keys.shape) < 0.2, np.nan, keys / 7).astype(dtype)
    coords = {
        "time": ("time", pd.date_range("2020-01-20", periods=30), {"axis": "T"}),
        "y": [10.0, 20.0, 30.0],
        "run": 3,
        "kind": ("time", np.where(rng.random(30) < 0.2, np.nan, rng.integers(0, 4, 30)), {"units": "1"}),
        "word": ("time", np.array(["b", "a", "cc"])[rng.integers(0, 3, 30)]),
        "side": ("x", [1, 0, 1, 1]),
        "x": [3, 1, 2, 8],
        "area": (("y", "x"), rng.integers(0, 3, (3, 4)), {"long_name": "area"}),
    }
    array = xr.DataArray(keys, coords, list(SIZES), "t", {"units": "K"}).transpose(*order)
    array.encoding = {"scale_factor": 0.5}
    return array


def make_dataset(*args):
    """The array with variables of another dtype, without dimensions of groups, in memory, and of words."""
    array = make_array(*args)
    others = {"series": ("time", np.arange(30.0)), "count": ("x", np.arange(4), {"units": "1"}), "scalar": 7.0}
    others["late"] = ("time", np.arange(40, 10, -1).astype("m8[h]").astype("m8[ns]"))
    return array.to_dataset().assign(rounded=make_array("i2", ("y", "x", "time")), **others)


def chunked(obj, chunks):
    """Dask arrays for all arrays in memory but those of coordinates."""
    if isinstance(obj, xr.Dataset):
        lazy = {name: array for name, array in obj.items() if name != "series" and isinstance(array.dtype, np.dtype)}
        return obj.assign({name: chunked(array, chunks) for name, array in lazy.items()})
    return obj.copy(data=obj.variable.chunk({dim: size for dim, size in chunks.items() if dim in obj.dims}).data)


def assert_same(found, expected):
    """Compare also dtypes and encodings, and the order of dimensions of all variables."""
    xr.testing.assert_identical(found, expected)
    for name in expected.variables if isinstance(expected, xr.Dataset) else [None, *expected.coords]:
        one, other = (found, expected) if name is None else (found[name], expected[name])
        assert (one.dtype, one.dims, one.encoding) == (other.dtype, other.dims, other.encoding), name


def by_numpy(function, obj, use_flox=False):
    """What xarray gives in memory, by NumPy's functions, or by flox where it is taken."""
    with xr.set_options(use_flox=use_flox, use_numbagg=False, use_bottleneck=False):
        return function(obj)


def without_values(obj):
    """The object with zeros for all values but those of coordinates."""
    if isinstance(obj, xr.Dataset):
        return obj.copy(data={name: np.zeros(array.shape, array.dtype) for name, array in obj.items()})
    return obj.copy(data=np.zeros(obj.shape, obj.dtype))


def assert_same_form(found, function, source):
    """Compare all but values with what xarray gives by flox, which refuses some groups of arrays in memory."""
    try:
        expected = by_numpy(function, source, use_flox=True)
    except (AssertionError, ValueError):
        expected = by_numpy(function, source)
        assert (found.sizes, found.attrs) == (expected.sizes, expected.attrs)
    else:
        assert_same(without_values(found), without_values(expected))


def check(function, source, chunks, *, accessor=False, use_flox=True) -> None:
    """Compare a function of an object after `register`, or of its accessor, with that of the object in memory."""
    lazy = chunked(source, chunks)
    with xr.set_options(use_flox=use_flox), no_computation():
        if accessor:
            found = function(lazy.gpusort)
        else:
            with dask_gpusort.register():
                found = function(lazy)
    assert {"reduce_chunk", "take_bundle"} & own_functions(found)
    expected, lazy = by_numpy(function, source), labelled.as_dataset(found)
    found = found.compute(scheduler="synchronous")
    if not use_flox:
        assert_same(found, expected)
        return
    assert_same_form(found, function, source)
    for name in lazy:
        if dask.is_dask_collection(lazy[name]) and own_functions(lazy[name]):  # flox repeats others
            want = labelled.as_dataset(expected)[name]
            np.testing.assert_array_equal(labelled.as_dataset(found)[name].transpose(*want.dims), want)


@given(st.data())
def test_any_groups(data):
    draw = data.draw
    order = draw(st.permutations(list(SIZES)))
    source = draw(st.sampled_from([make_array, make_dataset]))(draw(st.sampled_from(["f4", "f8", "i4", "u1"])), order)
    if isinstance(source, xr.DataArray):
        source = source.rename(draw(st.sampled_from(["t", None])))
    chunks = {dim: draw(st.integers(1, size)) for dim, size in SIZES.items()}
    make = draw(st.sampled_from(MAKERS))
    options = {"skipna": draw(st.sampled_from([None, True, False])), "keep_attrs": draw(st.sampled_from([None, False]))}
    (own, *others) = make(source).encoded.codes.dims
    dims = [own, *draw(st.lists(st.sampled_from([dim for dim in SIZES if dim != own]), unique=True))]
    options["dim"] = draw(st.sampled_from([None, ...] if others else [None, ..., own, dims]))
    if draw(st.booleans()):
        name = "median"
    else:
        name = "quantile"
        options["q"] = draw(st.sampled_from([0.3, [0.25, 0.5, 1]]))
        options["method"] = draw(st.sampled_from(["linear", "lower", "median_unbiased"]))

    def call(x):
        return getattr(make(x), name)(**options)

    # xarray takes the old labels of a dimension for those of groups of the same name then.
    assume(name == "quantile" or options["dim"] is not ... or make is not MAKERS[0])
    # Small chunks as the limit: groups of long lanes are sorted.
    with dask.config.set({"array.chunk-size": draw(st.sampled_from(["128MiB", "100B"]))}):
        check(call, source, chunks, accessor=draw(st.booleans()), use_flox=draw(st.booleans()))


CHUNKS = {"time": 7, "y": 2, "x": 3}


@pytest.mark.parametrize(
    ("number", "make", "accessor"), grid(range(len(MAKERS)), [make_array, make_dataset], [True, False])
)
def test_each_kind_of_groups(number, make, accessor):
    check(lambda x: MAKERS[number](x).median(), make(), CHUNKS, accessor=accessor, use_flox=number % 2 == 0)
    dim = None if accessor else ...
    check(lambda x: MAKERS[number](x).quantile([0.1, 0.9], dim), make(), CHUNKS, accessor=accessor)


@pytest.mark.parametrize(
    ("call", "lazy", "use_flox"),
    grid(
        [lambda g: g.median(), lambda g: g.quantile([0.2, 0.5], skipna=False), lambda g: g.median(...)],
        [True, False],
        [True, False],
    ),
)
def test_labels_that_are_given(call, lazy, use_flox):
    """Also lazy ones; there are none of some groups, and others that are not asked for."""
    source, labels = make_array(), groupers.UniqueGrouper(labels=[3, 9, 0])
    bins = {"kind": groupers.BinGrouper([0, 2, 9, 10]), "side": groupers.UniqueGrouper(labels=[1, 0])}
    found = []
    groups = [{"kind": labels}, {"area": labels}, {"kind": bins["kind"]}, bins]
    for by in groups:
        chunks = {name: source[name].chunk(dict.fromkeys(source[name].dims, 2)) for name in by if lazy}
        with xr.set_options(use_flox=use_flox), no_computation(), dask_gpusort.register():
            found.append(call(chunked(source, CHUNKS).assign_coords(chunks).groupby(by)))
    expected = [
        by_numpy(lambda x: call(x.groupby("kind")).reindex(kind=labels.labels), source),
        by_numpy(lambda x: call(x.groupby("area")).reindex(area=labels.labels), source),
        by_numpy(lambda x: call(x.groupby(kind=bins["kind"])), source),
        by_numpy(lambda x: call(x.groupby(bins)), source),
    ]
    for one, other, by in zip(found, expected, groups, strict=True):
        one = one.compute(scheduler="synchronous")
        if use_flox:
            np.testing.assert_array_equal(one.transpose(*other.dims), other)
            if not lazy:  # of which flox has no medians
                assert_same_form(one, lambda x, by=by: call(x.groupby(by)), source)
        else:
            # Labels of bins are objects or intervals, as some or none of them are empty.
            xr.testing.assert_identical(one, other)


@pytest.mark.parametrize("use_flox", [False, True])
@pytest.mark.parametrize("dim", [None, "y", ...])
@pytest.mark.parametrize("call", [lambda g, dim: g.median(dim), lambda g, dim: g.quantile([0.2, 0.5], dim)])
@pytest.mark.parametrize("by", ["kind", "side"])
def test_one_element_beside_an_empty_chunk(by, call, dim, use_flox):
    """Dask's `broadcast_to` fails there."""
    whole = make_dataset().isel(y=[1])[["t", "rounded", "count"]]
    source = whole.assign(level=("y", [2.5]))
    lazy = chunked(source, {**CHUNKS, "y": (0, 1)})
    dims = [source[by].dims[0], dim] if dim == "y" else dim
    with xr.set_options(use_flox=use_flox), no_computation():
        found = call(lazy.gpusort.groupby(by), dims)
    expected = by_numpy(lambda x: call(x.groupby(by), dims), source)
    for name in source:
        want = expected[name].broadcast_like(found[name])  # flox repeats what is not reduced for each quantile
        np.testing.assert_array_equal(found[name], want.transpose(*found[name].dims))


@pytest.mark.parametrize("dim", [None, ...])
@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("name", ["median", "quantile", "mode"])
def test_what_does_not_vary_along_groups_is_nan_where_they_are_empty(name, lazy, dim):
    """Also where labels are lazy; dtypes are those that are declared."""
    options = {"q": [0.5], "method": "lower"} if name == "quantile" else {}
    least = np.array(7, ">i4")
    swapped = {"least": ((), least), "small": ("x", np.arange(4, dtype=">i2")), "flags": ("x", np.arange(4) > 1)}
    source = make_dataset().drop_vars("late").assign(swapped).assign(whole=make_array("i8").isel(x=0))
    labels, bins = groupers.UniqueGrouper(labels=[3, 9, 0]), groupers.BinGrouper([0, 2, 9, 10])
    chunks = {"kind": source.kind.chunk(time=4)} if lazy else {}
    with no_computation(), xr.set_options(use_flox=False):
        given = chunked(source, CHUNKS).assign_coords(chunks).gpusort
        found = [getattr(given.groupby(kind=by), name)(dim=dim, **options) for by in (labels, bins)]

    def expect(groups):
        return (
            groups.reduce(of_lanes(most_common), dim) if name == "mode" else getattr(groups, name)(dim=dim, **options)
        )

    expected = [
        by_numpy(lambda x: expect(x.groupby("kind")).reindex(kind=labels.labels), source),
        by_numpy(lambda x: expect(x.groupby(kind=bins)), source),
    ]
    for one, other in zip(found, expected, strict=True):
        for each in source:
            np.testing.assert_array_equal(one[each].transpose(*other[each].dims), other[each])
            assert one[each].dtype == one[each].compute().dtype


@pytest.mark.parametrize("by", ["days", "kinds", "words", "areas", "side", ["words", "days"], ["kinds", "side"]])
@pytest.mark.parametrize("call", [lambda g: g.median(...), lambda g: g.quantile([0.2, 0.5], method="lower")])
def test_groups_by_variables_of_a_dataset(by, call):
    """They become coordinates, and are neither reduced nor in the way if they are words."""
    source = make_dataset()
    names = {"days": source.time.dt.day % 4, "kinds": source.kind, "words": source.word, "areas": source.area}
    by = [by] if isinstance(by, str) else by
    own = {name: one.drop_vars(source.coords, errors="ignore") for name, one in names.items() if name in by}
    source, lazy = source.assign(own), chunked(source, CHUNKS).assign(own)
    with no_computation(), dask_gpusort.register():
        found = call(lazy.groupby(by))
    # xarray refuses these with flox, and several quantiles, unless they are coordinates.
    expected = by_numpy(lambda x: call(x.groupby(by)), source.set_coords(list(own)))
    assert_same(found.compute(scheduler="synchronous"), expected)
    assert dask.is_dask_collection(found.t)
    assert not any(map(dask.is_dask_collection, found.coords.values()))


@pytest.mark.parametrize("call", [lambda g: g.median(), lambda g: g.quantile(0.5), lambda g: g.quantile([0.2], ...)])
def test_labels_are_not_made_for_each_group(call):
    """As many Python functions are called for many groups as for few."""

    def called(count):
        labels = np.arange(400) % count
        source = xr.DataArray(da.arange(400, chunks=400), {"kind": ("x", labels)}, dims="x", name="t")
        calls = []
        groups = source.to_dataset().groupby("kind")
        sys.setprofile(lambda frame, event, arg: calls.append(event) if event == "call" else None)
        try:
            call(groups)
        finally:
            sys.setprofile(None)
        return len(calls)

    with dask_gpusort.register():
        called(2)
        assert called(400) < 1.5 * called(2)


@pytest.mark.parametrize("make", [*(MAKERS[at] for at in (0, 1, 3, 4, 5, 7, 9, 14)), *MAKERS[-3:-1]])
@pytest.mark.parametrize("pct", [False, True])
@pytest.mark.parametrize("window", [1, 3])
def test_ranks_in_groups(make, pct, window):
    source = make_array()
    groups, wanted = make(source), xr.full_like(source, np.nan, "f8")
    (dim,) = groups.encoded.codes.dims
    for at in groups.groups.values():
        own = np.arange(source.sizes[dim])[at]
        near = np.ravel(np.add.outer(own, np.arange(-(window // 2), window // 2 + 1)))
        near = near[(near >= 0) & (near < source.sizes[dim])]
        ranks = source.isel({dim: near}).drop_vars(dim).rank(dim, pct=pct)
        wanted[{dim: own}] = ranks.isel({dim: [near.tolist().index(one) for one in own]}).values
    for lazy in (source, chunked(source, {"time": 7, "x": 3})):
        found = make(lazy.gpusort).rank(pct=pct, window=window)
        assert found.chunks == lazy.chunks
        assert_same(found.compute(), wanted.drop_encoding())
    both = make(source.to_dataset().assign(scalar=3, rounded=source.fillna(5)).gpusort).rank(ascending=False)
    assert set(both.data_vars) == {"t", "rounded"}


def test_ranks_in_groups_by_lazy_labels():
    source = make_array()
    groups = {"kind": groupers.UniqueGrouper(labels=[2, 0])}
    lazy = source.assign_coords(kind=source.kind.chunk(time=4)).chunk(time=11)
    found = lazy.gpusort.groupby(groups).rank()
    wanted = source.gpusort.groupby(groups).rank()
    assert wanted.isnull().values[~source.kind.isin([0, 2])].all()
    assert_same(found.compute(), wanted)


def test_ranks_in_groups_of_two_dimensions_are_refused():
    for make in (MAKERS[6], MAKERS[8]):
        with pytest.raises(ValueError, match=r"groups must be along one dimension of .*'time'.*stack"):
            make(make_array().gpusort).rank()


@pytest.mark.parametrize("make", [MAKERS[at] for at in (1, 3, 4, 7, 9, 10, 14)])
@pytest.mark.parametrize("source", [make_array(), make_dataset().drop_vars("late")])
@pytest.mark.parametrize("k", [2, -9])
def test_largest_values_of_groups(make, source, k):
    """As xarray's `map` of groups by the method of the accessor, whose results have a dimension of another name."""

    def of_group(group):
        group = group.astype("f8", keep_attrs=True).gpusort.topk(k, "time")
        return group.pad(time=(0, abs(k) - group.sizes["time"])).rename(time="largest")

    wanted = by_numpy(lambda x: make(x).map(of_group), source)
    for one in (source, chunked(source, {"time": 7, "x": 3})):
        with no_computation() if one is not source else contextlib.nullcontext():
            found = make(one.gpusort).topk(k)
        assert found.sizes["time"] == abs(k)
        found = found.rename(time="largest").compute(scheduler="synchronous")
        if isinstance(source, xr.Dataset):
            left = [name for name in source if "time" not in source[name].dims]
            xr.testing.assert_identical(
                found[left].reset_coords(drop=True).drop_vars(["x"]),
                source[left].reset_coords(drop=True).drop_vars(["x"]),
            )
            found, wanted = found.drop_vars(left), wanted.drop_vars(left, errors="ignore")
        for name in wanted if isinstance(source, xr.Dataset) else ():
            wanted[name] = wanted[name].transpose(*found[name].dims)
        wanted = wanted if isinstance(source, xr.Dataset) else wanted.transpose(*found.dims)
        xr.testing.assert_identical(found.astype("f8", keep_attrs=True), wanted)


def test_largest_values_of_groups_by_lazy_labels():
    source, groups = make_array("i4"), {"kind": groupers.UniqueGrouper(labels=[2, 0])}
    lazy = source.assign_coords(kind=source.kind.chunk(time=4)).chunk(time=11)
    with no_computation():
        found = lazy.gpusort.groupby(groups).topk(3)
    xr.testing.assert_identical(found.compute(), source.astype("f8").gpusort.groupby(groups).topk(3))


def test_largest_values_of_what_groups_are_refused():
    source = make_array()
    with pytest.raises(
        ValueError, match="topk has the dimension 'time', as groups have: give groupby another coordinate"
    ):
        source.gpusort.resample(time="4D").topk(2)
    with pytest.raises(ValueError, match="groups must be along one dimension"):
        source.gpusort.groupby("area").topk(2)


def most_common_with_nan(lane):
    values, counts = np.unique(lane, return_counts=True)
    return values[counts.argmax()] if len(values) else np.nan


def most_common(lane):
    return most_common_with_nan(lane[lane == lane])


def of_lanes(function):
    """A function of one lane as one of arrays and axes."""

    def reduce(array, axis):
        axes = tuple(range(array.ndim)) if axis is None else tuple(np.atleast_1d(axis))
        lanes = np.moveaxis(array, axes, range(-len(axes), 0))
        lanes = lanes.reshape(*lanes.shape[: array.ndim - len(axes)], -1)
        found = [function(lane) for lane in lanes.reshape(-1, lanes.shape[-1])]
        return np.array(found, object if array.dtype == object else None).reshape(lanes.shape[:-1])

    return lambda array, axis=None: array if axis == () else reduce(array, axis)


def with_zeros(counts, source, dims):
    """Counts of what varies along dimensions, of which those of no elements are 0 and not NaN."""
    if isinstance(counts, xr.DataArray):
        return counts.fillna(0).astype(np.int64) if counts.isnull().any() else counts
    return counts.assign({n: with_zeros(one, one, dims) for n, one in counts.items() if dims & {*source[n].dims}})


@pytest.mark.parametrize("make", [*(MAKERS[at] for at in (1, 3, 4, 6, 7, 8, 11, 13, 14)), MAKERS[-1]])
@pytest.mark.parametrize("source", [make_array(), make_dataset()])
def test_modes_and_distinct_counts_of_groups(make, source):
    """As xarray's `reduce` of groups by a function of NumPy."""
    for dim in (None, ...):
        modes = by_numpy(lambda x, dim=dim: make(x).reduce(of_lanes(most_common), dim), source)
        counts = by_numpy(lambda x, dim=dim: make(x).reduce(of_lanes(lambda lane: len(np.unique(lane))), dim), source)
        counts = with_zeros(counts, source, set(make(source).encoded.codes.dims))
        for one in (source, chunked(source, {"time": 7, "x": 3})):
            with no_computation() if one is not source else contextlib.nullcontext():
                found = make(one.gpusort).mode(dim), make(one.gpusort).nunique(dim, keep_attrs=True)
            assert_same(found[0].compute(scheduler="synchronous"), modes)
            assert_same(found[1].compute(scheduler="synchronous"), counts)
    modes = by_numpy(lambda x: make(x).reduce(of_lanes(most_common_with_nan), keep_attrs=False), source)
    assert_same(make(one.gpusort).mode(skipna=False, keep_attrs=False).compute(scheduler="synchronous"), modes)


def test_modes_of_words():
    array = make_array()
    words = array.word.astype(object).drop_vars("word").variable.to_base_variable()
    source = xr.DataArray(words, {"kind": ("time", np.arange(30) % 4)}, name="words")
    expected = by_numpy(lambda x: x.groupby("kind").reduce(of_lanes(most_common)), source)
    lazy = source.copy(data=da.from_array(source.data, chunks=7))
    assert_same(lazy.gpusort.groupby("kind").mode().compute(scheduler="synchronous"), expected)


@pytest.mark.parametrize("source", [make_array(), make_dataset()])
def test_nothing_is_compiled_for_labels(source, monkeypatch):
    numbagg = pytest.importorskip("numbagg")
    calls = []
    for name in ("nanquantile", "nanmedian"):
        monkeypatch.setattr(numbagg, name, lambda *args, **options: calls.append(args))
    with dask_gpusort.register("flox"):
        groups = chunked(source, CHUNKS).groupby("word")
        assert all(map(dask.is_dask_collection, (groups.median(), groups.quantile(0.5), groups.quantile([0.5], ...))))
    assert not calls


def test_groups_of_the_name_of_a_dimension():
    """xarray refuses these medians."""
    with dask_gpusort.register():
        found = chunked(make_array(), CHUNKS).groupby(**FIVE_DAYS[1]).median(...)
    expected = by_numpy(lambda x: x.groupby(**FIVE_DAYS[1]).quantile(0.5, ...), make_array())
    xr.testing.assert_identical(found.compute().drop_vars("run"), expected.drop_vars("quantile"))


@pytest.mark.parametrize("make", [MAKERS[at] for at in (0, 3, 5, 7, 14)])
@pytest.mark.parametrize("q", [0.5, [0.1, 0.5]])
def test_coordinates_have_the_order_of_those_by_flox(make, q):
    with xr.set_options(use_flox=True):
        found, expected = make(chunked(make_array(), CHUNKS).gpusort).quantile(q), make(make_array()).quantile(q)
    assert [*found.coords] == [*expected.coords]


class CountedReads:
    """An array that counts how often each element is read."""

    def __init__(self, array):
        self.array, self.reads = array, np.zeros(array.shape, int)
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, key):
        self.reads[key] += 1
        return self.array[key]


@pytest.mark.parametrize("call", [lambda g: g.median(), lambda g: g.quantile([0.1, 0.9], ["time", "x"])])
def test_each_chunk_is_read_once(call):
    source = CountedReads(make_array().values)
    lazy = make_array().copy(data=da.from_array(source, chunks=(7, 2, 3), asarray=False))
    with dask_gpusort.register():
        call(lazy.groupby("word")).compute(scheduler="synchronous")
    assert (source.reads == 1).all()


def test_what_is_left_to_xarray():
    """Arrays in memory, complex numbers, words, and dimensions along which groups do not vary."""
    array, dataset = make_array(), make_dataset().assign(text=make_array().word)
    with dask_gpusort.register():
        assert not dask.is_dask_collection(array.groupby("kind").median())
        assert not dask.is_dask_collection(array.gpusort.resample(time="4D").quantile(0.5))
        for call in (lambda x: x.groupby("side").quantile(0.5, "y"), lambda x: x.groupby("word").median("x")):
            xr.testing.assert_identical(by_numpy(call, chunked(array, CHUNKS)).compute(), by_numpy(call, array))
        wave = {"wave": ("time", np.arange(30) * 1j)}
        found = by_numpy(lambda x: x.groupby("word").median(), chunked(dataset, CHUNKS).assign(wave)).compute()
        xr.testing.assert_identical(found, by_numpy(lambda x: x.groupby("word").median(), dataset.assign(wave)))
        assert "text" not in found
        with xr.set_options(use_flox=False):
            with pytest.raises(TypeError, match="real numbers"):
                chunked(array * 1j, CHUNKS).groupby("word").quantile(0.5)
            with pytest.raises(TypeError, match="unexpected keyword"):
                chunked(array, CHUNKS).groupby("word").median(depth=3)


@pytest.mark.parametrize("skipna", [None, True])
def test_dates(skipna):
    dates = make_array("i8").astype("M8[D]").astype("M8[ns]").drop_vars("area")
    check(lambda x: x.groupby("kind").quantile([0.1, 0.5], skipna=skipna), dates, CHUNKS)
    assert labelled_groups._reduced(None, chunked(dates, CHUNKS).groupby("kind"), skipna=skipna) is None  # no mean


@pytest.mark.parametrize("dtype", ["i2", "i8"])
def test_picked_integers(dtype):
    """Their dtype depends on whether groups are empty."""
    source = make_array(dtype)
    check(lambda x: x.resample(time="7h").quantile([0.1, 1], method="lower"), source, CHUNKS)
    check(lambda x: x.groupby("word").quantile(0.4, method="lower"), source, CHUNKS)
    check(lambda x: x.groupby("word").quantile(0.4, ..., method="lower"), source, CHUNKS)


@pytest.mark.parametrize("dim", ["time", "x"])
def test_arrays_of_pandas(dim):
    """xarray drops them from medians; it is left to its quantiles how they are reduced or expanded."""
    kinds = {"kinds": pd.Categorical(list("abba")), "counts": pd.array([1, 2, None, 4], dtype="Int64")}
    source = make_dataset().isel(time=slice(4)).drop_vars("late")
    source = source.assign({name: (dim, values) for name, values in kinds.items()})
    check(lambda x: x.groupby("word").median(...), source, CHUNKS)
    lazy = chunked(source, CHUNKS)
    with xr.set_options(use_flox=False), dask_gpusort.register():
        found = lazy.drop_vars("kinds").groupby("word").quantile([0.5], ..., method="lower")
        expected = by_numpy(lambda x: x.groupby("word").quantile([0.5], ..., method="lower"), source.drop_vars("kinds"))
        xr.testing.assert_allclose(found.compute(), expected)
        assert dim == "time" or "kinds" in lazy.groupby("word").quantile(0.5, method="lower")


def test_errors_are_those_of_xarray():
    lazy = chunked(make_array(), CHUNKS)
    with dask_gpusort.register():
        with pytest.raises(ValueError, match="depth"):
            lazy.groupby("word").median("depth")
        with pytest.raises(ValueError, match=r"Quantiles must be in the range \[0, 1\]"):
            lazy.groupby("word").quantile(1.5)
        with pytest.raises(ValueError, match="labels"):
            lazy.assign_coords(word=lazy.word.chunk()).groupby("word").median()


def test_unregister_restores_the_classes():
    groups, resample = (pytest.importorskip(f"xarray.core.{name}") for name in ("groupby", "resample"))
    classes = [groups.DataArrayGroupBy, groups.DatasetGroupBy, resample.DataArrayResample, resample.DatasetResample]
    before = [dict(vars(each)) for each in classes]
    with dask_gpusort.register("flox"):
        replaced = {each.name for each in dask_gpusort.registered()}
    names = [f"{each.__module__}.{each.__name__}.{name}" for each in classes for name in ("median", "quantile")]
    assert replaced == set(names)
    assert [dict(vars(each)) for each in classes] == before


def percentiles(array, window, per, method):
    """Percentiles of the days of the year as xclim finds them: windows, of which those of a day are stacked."""
    windows = array.drop_vars(["run", "side"]).rolling(time=window, center=True).construct("window")
    whole = windows.assign_coords(doy=array.time.dt.dayofyear, year=array.time.dt.year)
    days = whole.set_index(time=["year", "doy"]).unstack("time").stack(values=("year", "window"))
    found = by_numpy(lambda x: x.quantile(np.asarray(per) / 100, "values", method=method), days)
    found = found.assign_coords(quantile=per).rename(doy="dayofyear", quantile="percentiles")
    found = found.transpose(..., "dayofyear", "percentiles")
    first, last = found.dayofyear.values[[0, -1]]
    if last == 366:
        found = found[..., :-1, :].interpolate_na("dayofyear")
        found = found.assign_coords(dayofyear=np.linspace(first, 366, found.sizes["dayofyear"]))
        found = found.interp(dayofyear=range(first, 367))
    return found


@given(
    st.sampled_from(["f4", "f8", "i4"]),
    st.sampled_from([("2001-01-01", 800), ("2003-11-20", 500), ("2001-03-05", 3)]),
    st.sampled_from([1, 3, 7]),
    st.lists(st.sampled_from([0, 10.0, 50, 97.5, 100]), min_size=1, unique=True),
    st.sampled_from([(1 / 3, 1 / 3, "median_unbiased"), (1, 1, "linear"), (0.5, 0.5, "hazen")]),
    st.integers(2, 1000),
    st.booleans(),
)
def test_percentiles_of_days(dtype, days, window, per, estimator, chunk, lazy):
    begin, size = days
    rng = np.random.default_rng(0)
    keys = rng.normal(0, 50, (2, size)).astype(dtype)
    if dtype != "i4":
        keys[rng.random(keys.shape) < 0.3] = np.nan
    coords = {"time": pd.date_range(begin, periods=size), "x": [5, 7], "run": 3, "side": ("x", [1, 2])}
    array = xr.DataArray(keys, coords, ("x", "time"), "tas", {"units": "K"})
    alpha, beta, method = estimator
    source = array.chunk(time=chunk, x=1) if lazy else array
    with no_computation() if lazy else warnings.catch_warnings():
        found = source.gpusort.percentile_doy(window, per, alpha, beta)
    assert dask.is_dask_collection(found) == lazy
    found = found.compute(scheduler="synchronous")
    expected = percentiles(array, window, per, method)
    # The interpolation of NumPy's quantiles of lanes with NaN rounds otherwise than that of whole lanes.
    xr.testing.assert_allclose(found.drop_vars(["run", "side"]), expected, rtol=1e-5 if dtype == "f4" else 1e-12)
    assert (found.dims, found.name, found.run.item(), found.side.dims) == (expected.dims, "per", 3, ("x",))
    bounds = np.datetime_as_string(array.time.values[[0, -1]], "D").tolist()
    about = {"climatology_bounds": bounds, "window": window, "alpha": alpha, "beta": beta}
    assert found.attrs == {"units": "K", **about}


def test_arguments_of_percentiles_of_days():
    array = make_array().chunk(time=4)
    assert array.gpusort.percentile_doy().sizes == {"y": 3, "x": 4, "dayofyear": 30, "percentiles": 1}
    with pytest.raises(ValueError, match=r"alpha and beta must be one of .*got 0.1 and 1"):
        array.gpusort.percentile_doy(alpha=0.1, beta=1)
    with pytest.raises(ValueError, match="window must be an odd"):
        array.gpusort.percentile_doy(4)
    with pytest.raises(ValueError, match="time must be a dimension"):
        array.isel(time=0).gpusort.percentile_doy()
    with pytest.raises(ValueError, match="time has no elements"):
        array.isel(time=slice(0)).gpusort.percentile_doy()
    with pytest.raises(ValueError, match="at most one element a day"):
        array.assign_coords(time=pd.date_range("2020-01-01", periods=30, freq="6h")).gpusort.percentile_doy()
