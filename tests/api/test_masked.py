"""Masked arrays: elements that are not masked decide each result, as in `numpy.ma`, and masked ones are last."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.ranks import ranks_of_lanes
from support.sorting import check_sizes, computed_in_chunks, no_computation
from support.statistics import given_to_numpy, without_extremes

import dask_gpusort
from dask_gpusort.builders import masked as builder
from dask_gpusort.chunk.tie_groups import METHODS as RANK_METHODS
from dask_gpusort.table import METHODS

#: Dask joins no masked chunks of timedelta64 without a unit.
TIMES = [name for name in ours.TIMES if name != "m8"]
NUMBERS = [np.dtype(name) for name in (*ours.INTEGERS, *ours.FLOATS, *TIMES)] + [np.dtype(np.longdouble)]
NUMBERS += [dtype for dtype in ours.SWAPPED if dtype in ours.EVERY and dtype.kind != "c"]
COMPLEX = [np.dtype("c8"), np.dtype("c16")]
ORDERED = [*NUMBERS, *COMPLEX, *(dtype for dtype in ours.FIXED_STRINGS if dtype in ours.EVERY)]
SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)
LONG = st.integers(1, 200).map(lambda size: (size,))


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    """Elements that overflow in means are drawn; nothing is told of lanes that are masked (see below)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@st.composite
def masked_arrays(draw: Any, dtypes: Any = NUMBERS, shapes: Any = SHAPES | LONG) -> np.ma.MaskedArray:
    """Masked arrays, some of whose lanes are masked, with hard masks and fill values."""
    data = draw(ours.arrays(dtypes, shape=shapes))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    if data.dtype.kind in "fmM" and draw(st.booleans()):
        data[rng.random(data.shape) < 0.1] = "NaT" if data.dtype.kind in "mM" else np.nan
    mask = rng.random(data.shape) < draw(st.sampled_from([0, 0.3, 0.9, 1]))
    lane = tuple(draw(st.sampled_from([0, slice(None)])) for _ in data.shape)
    if draw(st.booleans()):
        mask[lane] = True
    found = np.ma.MaskedArray(data, mask if mask.any() else draw(st.sampled_from([np.ma.nomask, mask])))
    if draw(st.booleans()):
        found.harden_mask()
    if draw(st.booleans()):
        found.fill_value = data.ravel()[0]
    return found


def source_of(draw: Any, array: np.ma.MaskedArray, unknown: bool = False) -> Any:
    """A Dask array of an array, in drawn chunks: of an array in memory, a slice, delayed calls, or persisted."""
    chunks = draw(ours.chunkings(array.shape))
    kind = draw(st.sampled_from(["memory", "transposed", "slice", "delayed", "persisted", "some plain"]))
    found = ours.dask_array(array, chunks)
    if kind == "transposed":
        found = ours.dask_array(array.T, chunks[::-1]).transpose()
    elif kind == "slice":
        found = ours.dask_array(array[[*range(len(array))] * 2], (chunks[0] * 2, *chunks[1:]))
        found = found[: len(array)]
    elif kind == "delayed":
        found = da.map_blocks(lambda block: block.copy(), found, dtype=array.dtype, meta=found._meta)
    elif kind == "persisted":
        found = found.persist(scheduler="sync")
    elif kind == "some plain":  # as what Dask makes of chunks in which nothing is masked
        found = found.map_blocks(lambda block: block if np.ma.is_masked(block) else np.asarray(block), meta=found._meta)
    return ours.forget_sizes(found) if unknown else found


def computed(lazy: Any) -> Any:
    """What is computed of a masked array, after a look at each chunk."""
    assert isinstance(lazy._meta, np.ma.MaskedArray)
    assert lazy._meta.dtype == lazy.dtype
    if da.array_expr_enabled():
        return lazy.compute(scheduler="sync")
    (found,), (blocks,) = computed_in_chunks([lazy])
    assert all(isinstance(block, np.ma.MaskedArray) for block in blocks)
    assert {block.dtype for block in blocks} == {lazy.dtype}
    if not np.isnan(lazy.shape).any():
        check_sizes(lazy, blocks=blocks)
    return found


def assert_same(lazy: Any, wanted: Any) -> None:
    """Assert the dtype, the shape, the mask, and the elements that are not masked."""
    found, wanted = computed(lazy), np.ma.asanyarray(wanted)
    assert isinstance(found, np.ma.MaskedArray)
    assert found.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("=")  # NumPy's scalars are native
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(wanted))
    np.testing.assert_array_equal(found.compressed(), wanted.compressed())


def assert_same_fill_value(found: Any, array: Any) -> None:
    if array.fill_value != np.ma.default_fill_value(array.dtype):  # which need not be one of the dtype
        oracle.assert_same_values(np.asarray(found.fill_value), np.asarray(array.fill_value))


def lanes_of(array: Any, axes: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Lanes along the axes, as rows, and the shape of the others."""
    kept = [dim for dim in range(array.ndim) if dim not in axes]
    shape = tuple(array.shape[dim] for dim in kept)
    moved = array.transpose([*kept, *axes])
    return moved.reshape(math.prod(shape), math.prod(array.shape[dim] for dim in axes)), shape


def by_lanes(array: Any, axes: tuple[int, ...], keepdims: bool, function: Callable[[Any], Any]) -> Any:
    """What a function finds of the elements of each lane that are not masked."""
    rows, shape = lanes_of(array, axes)
    like = np.asarray(function(np.ones(1, array.dtype)))
    found = np.ma.masked_all((*like.shape, len(rows)), like.dtype)
    for number, row in enumerate(rows):
        if row.count():
            found[..., number] = function(row.compressed())
    kept = tuple(1 if dim in axes else size for dim, size in enumerate(array.shape)) if keepdims else shape
    return found.reshape((*like.shape, *kept))


def as_floats(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function, with which differences of integers do not overflow."""

    def found_of(values: Any) -> Any:
        found = np.asarray(function(values))
        if values.dtype.kind in "iu" and found.dtype.kind == "f":
            return np.asarray(function(values.astype(np.float64))).astype(found.dtype)
        return found

    return found_of


def limited(draw: Any) -> Any:
    """A limit of chunks; a small one divides those that are made of whole lanes in other places than the array's."""
    return dask.config.set({"array.chunk-size": draw(st.sampled_from(["128MiB", "8B"]))})


@st.composite
def axes_of(draw: Any, ndim: int) -> Any:
    """An argument for axes, and the axes."""
    several = st.lists(st.sampled_from(range(ndim)), min_size=1, unique=True).map(tuple)
    axis = draw(st.none() | st.integers(-ndim, ndim - 1) | several)
    chosen = range(ndim) if axis is None else np.atleast_1d(axis) % ndim
    return axis, tuple(sorted(int(dim) for dim in chosen))


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@settings(max_examples=40)
@given(data=st.data(), array=masked_arrays([dtype for dtype in NUMBERS if dtype.kind != "M"] + COMPLEX))
def test_medians(name: str, data: Any, array: Any) -> None:
    array = np.ma.MaskedArray(without_extremes(array.data), array.mask)
    axis, axes = data.draw(axes_of(array.ndim))
    keepdims, unknown = data.draw(st.booleans()), may_be_unknown(data.draw, array)
    x = source_of(data.draw, array, unknown)
    if unknown and x.numblocks[0] > 1:
        x = x.compute_chunk_sizes()  # as for plain arrays
    strategy = data.draw(st.sampled_from(["auto", "auto", "rechunk"] + ["samples"] * (array.dtype.kind in "biufm")))
    assume(strategy == "auto" or not unknown)
    with no_computation(), limited(data.draw):
        found = getattr(dask_gpusort, name)(x, axis, keepdims=keepdims, strategy=strategy)
    assert_same(found, by_lanes(array, axes, keepdims, getattr(np, name)))
    if name == "median" and not (array != array).any():  # it may fail where it finds NaN
        theirs = np.ma.asanyarray(np.ma.median(array, axis=axis)).reshape(found.shape)
        assert_same(found, theirs.astype(found.dtype))  # `numpy.ma.masked` is of float64


@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile", "nanpercentile"])
@settings(max_examples=40)
@given(data=st.data(), array=masked_arrays())
def test_quantiles(name: str, data: Any, array: Any) -> None:
    array = np.ma.MaskedArray(without_extremes(array.data), array.mask)
    axis, axes = data.draw(axes_of(array.ndim))
    method, keepdims = data.draw(st.sampled_from(list(METHODS))), data.draw(st.booleans())
    q = data.draw(st.sampled_from([0.5, 0, [0.1, 0.9, 0.5], np.array([[0.2], [1]]), [0.25], np.array(0.7)]))
    q = np.multiply(q, 100) if name.endswith("percentile") else q

    def wanted(values: Any) -> Any:
        return getattr(np, name)(values, given_to_numpy(q), method=method)

    try:
        wanted(np.ones(1, array.dtype))
    except TypeError:
        with pytest.raises(TypeError):
            getattr(dask_gpusort, name)(source_of(data.draw, array), q, axis, method=method)
        return
    with no_computation(), limited(data.draw):
        found = getattr(dask_gpusort, name)(source_of(data.draw, array), q, axis, method=method, keepdims=keepdims)
    assert_same(found, by_lanes(array, axes, keepdims, as_floats(wanted)))


def in_rows(array: Any, axis: int | None, dtype: Any, function: Callable[[Any], Any]) -> Any:
    """What a function makes of each row, of the shape of the array."""
    array, axis = (array.ravel(), 0) if axis is None else (array, axis)
    found = np.ma.masked_all(array.shape, dtype)
    rows, to_fill = np.moveaxis(array, axis, -1), np.moveaxis(found, axis, -1)
    for index in np.ndindex(rows.shape[:-1]):
        to_fill[index] = function(rows[index])
    return found


def sorted_row(row: Any, descending: bool) -> Any:
    found = np.ma.masked_all(row.shape, row.dtype)
    found[: row.count()] = oracle.sort(row.compressed(), descending=descending)
    return found


def argsorted_row(row: Any, descending: bool) -> Any:
    mask = np.ma.getmaskarray(row)
    held = np.flatnonzero(~mask)
    return np.concatenate([held[oracle.argsort(row.compressed(), descending=descending)], np.flatnonzero(mask)])


def any_axis(draw: Any, array: Any) -> int | None:
    return draw(st.none() | st.integers(-array.ndim, array.ndim - 1))


def may_be_unknown(draw: Any, array: Any) -> bool:
    return array.ndim == 1 and not da.array_expr_enabled() and draw(st.booleans())


@settings(max_examples=40)
@given(data=st.data(), array=masked_arrays(ORDERED))
def test_sort_and_argsort(data: Any, array: Any) -> None:
    axis, descending, stable = any_axis(data.draw, array), data.draw(st.booleans()), data.draw(st.booleans())
    unknown = may_be_unknown(data.draw, array)
    method = data.draw(st.sampled_from(["auto", "merge"]))
    options = {"descending": descending, "stable": stable, "exchange": data.draw(ours.exchanges), "method": method}
    x = source_of(data.draw, array, unknown)
    with no_computation():
        found, positions = dask_gpusort.sort(x, axis, **options), dask_gpusort.argsort(x, axis, **options)
    assert found.chunks == x.chunks or axis is None or unknown
    wanted = in_rows(array, axis, array.dtype, lambda row: sorted_row(row, descending))
    assert_same(found, wanted)
    assert_same_fill_value(computed(found), array)
    wanted = in_rows(array, axis, np.int64, lambda row: argsorted_row(row, descending))
    oracle.assert_same_bits(positions.compute(scheduler="sync"), wanted.data)


@settings(max_examples=60)
@given(data=st.data(), array=masked_arrays())
def test_rank(data: Any, array: Any) -> None:
    axis, unknown = any_axis(data.draw, array), may_be_unknown(data.draw, array)
    options = {
        "method": data.draw(st.sampled_from(RANK_METHODS)),
        "nan_policy": data.draw(st.sampled_from(["propagate", "omit", "raise"])),
        "pct": data.draw(st.booleans()),
        "descending": data.draw(st.booleans()),
    }
    with no_computation():
        x = source_of(data.draw, array, unknown)
        found = dask_gpusort.rank(x, axis, **options)
    if options["nan_policy"] == "raise" and (array.compressed() != array.compressed()).any():
        with pytest.raises(ValueError, match="contains nan"):
            found.compute(scheduler="sync")
        return

    def ranks_of_row(row: Any) -> Any:
        ranks = np.ma.masked_all(row.shape, np.float64)
        ranks[~np.ma.getmaskarray(row)] = ranks_of_lanes(row.compressed(), None, *options.values())
        return ranks

    wanted = in_rows(array, axis, np.float64, ranks_of_row)
    dtype = dask_gpusort.rank(da.zeros(1, dtype=array.dtype, chunks=1), **options).dtype
    assert_same(found, np.ma.MaskedArray(wanted.filled(0).astype(dtype), wanted.mask))


@given(array=masked_arrays([np.dtype("f4"), np.dtype("f8")], LONG))
def test_ranks_are_those_of_scipy(array: Any) -> None:
    """Of floats: of integers, it ranks masked elements among those of the greatest value."""
    array = np.ma.masked_invalid(array)
    assume(array.count())  # SciPy fails
    found = computed(dask_gpusort.rank(da.from_array(array, chunks=7)))
    np.testing.assert_array_equal(found.filled(0), scipy.stats.mstats.rankdata(array))


@pytest.mark.skipif(da.array_expr_enabled(), reason="chunks of unknown sizes cannot be computed")
@settings(max_examples=60)
@given(data=st.data(), array=masked_arrays(ORDERED))
def test_unique(data: Any, array: Any) -> None:
    equal_nan = data.draw(st.booleans())
    x = source_of(data.draw, array, data.draw(st.booleans()))
    with no_computation(), dask.config.set({"gpusort.groups": data.draw(ours.groups)}):
        values, counts = dask_gpusort.unique(x, return_counts=True, equal_nan=equal_nan)
        alone = dask_gpusort.unique(x, equal_nan=equal_nan)
    some = np.ma.is_masked(array)
    held, number = np.unique(array.compressed(), return_counts=True, equal_nan=equal_nan)
    wanted = np.ma.concatenate([np.ma.MaskedArray(held), np.ma.masked_all(int(some), array.dtype)])
    for found in (values, alone):
        assert_same(found, wanted)
        assert_same_fill_value(computed(found), array)
    expected = np.append(number, np.full(int(some), np.ma.getmaskarray(array).sum()))
    oracle.assert_same_bits(counts.compute(scheduler="sync"), expected)


@given(data=st.data(), array=masked_arrays(ORDERED))
def test_searchsorted(data: Any, array: Any) -> None:
    held = np.sort(ours.make(array.dtype, data.draw(st.integers(0, 50)), "few", 1))
    side = data.draw(st.sampled_from(["left", "right"]))
    unknown = may_be_unknown(data.draw, array)
    with no_computation():
        x = source_of(data.draw, array, unknown)
        found = dask_gpusort.searchsorted(ours.dask_array(held, data.draw(ours.chunkings(held.shape))), x, side)
    wanted = np.searchsorted(held, array.data, side)
    assert_same(found, np.ma.MaskedArray(wanted, array.mask))


@settings(max_examples=40)
@given(data=st.data(), array=masked_arrays([*NUMBERS, *COMPLEX]))
def test_topk(data: Any, array: Any) -> None:
    axis, unknown = data.draw(st.integers(-array.ndim, array.ndim - 1)), may_be_unknown(data.draw, array)
    k = data.draw(st.integers(-12, 12))
    with no_computation():
        found = dask_gpusort.topk(source_of(data.draw, array, unknown), k, axis)
    wanted = in_rows(array, axis, array.dtype, lambda row: sorted_row(row, k > 0))
    assert_same(found, np.moveaxis(np.moveaxis(wanted, axis, 0)[: abs(k)], 0, axis))


MASK = np.array([[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0]], bool)
SMALL = np.ma.MaskedArray(np.arange(12.0).reshape(3, 4)[::-1], MASK)
X = da.from_array(SMALL, chunks=2)


@pytest.mark.parametrize(("great", "small"), [(np.nan, 2.0), (np.int8(127), np.int8(5))])
def test_masked_elements_are_last_where_numpy_mixes_them_with_the_greatest(great: Any, small: Any) -> None:
    array = np.ma.MaskedArray([great, great, great, small], [0, 1, 0, 0])
    x, wanted = da.from_array(array, chunks=2), np.ma.MaskedArray([small, great, great, great], [0, 0, 0, 1])
    assert_same(dask_gpusort.sort(x), wanted)
    assert dask_gpusort.argsort(x).compute().tolist() == [3, 0, 2, 1]
    assert np.ma.getmaskarray(np.ma.sort(array)).tolist() == [False, False, True, False]
    assert np.ma.argsort(array).tolist() == [3, 0, 1, 2]
    if great == great and not da.array_expr_enabled():
        assert computed(dask_gpusort.unique(x)).tolist() == [5, 127, None]
        assert np.ma.unique(array).tolist() == [5, 127, None, 127]


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_integers_of_64_bits_are_exact(dtype: str) -> None:
    most = int(np.iinfo(dtype).max)
    array = np.ma.MaskedArray(np.array([most, most - 1, most - 2, most - 3, 0], dtype), [0, 0, 0, 0, 1])
    x = da.from_array(array, chunks=2)
    assert int(computed(dask_gpusort.quantile(x, 0.5, method="lower"))) == most - 2
    assert computed(dask_gpusort.rank(x)).tolist() == [4, 3, 2, 1, None]
    assert_same(dask_gpusort.median(x), np.ma.median(array))


def test_integers_of_64_bits_need_a_float_of_as_many(monkeypatch: Any) -> None:
    monkeypatch.setattr(builder, "EXACT", False)
    array = np.ma.MaskedArray(np.arange(4), [0, 0, 0, 1])
    x = da.from_array(array, chunks=2)
    for call in (dask_gpusort.rank, lambda x: dask_gpusort.quantile(x, 0.5, method="lower")):
        with pytest.raises(TypeError, match=r"int64.*longdouble.*astype"):
            call(x)
    assert_same(dask_gpusort.median(x), np.ma.median(array))
    assert computed(dask_gpusort.rank(x.astype("i4"))).tolist() == [1, 2, 3, None]


#: Functions of masked arrays.
CALLS: dict[str, Callable[[Any], Any]] = {
    "median": lambda x: dask_gpusort.median(x, 0),
    "quantile": lambda x: dask_gpusort.quantile(x, [0.2, 0.5], 1),
    "sort": dask_gpusort.sort,
    "argsort": dask_gpusort.argsort,
    "rank": lambda x: dask_gpusort.rank(x, 0),
    "searchsorted": lambda x: dask_gpusort.searchsorted(da.arange(9, chunks=2), x),
    "topk": lambda x: dask_gpusort.topk(x, 2),
    "unique": dask_gpusort.unique,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_warn_of_nothing(name: str) -> None:
    if name == "unique" and da.array_expr_enabled():
        pytest.skip("chunks of unknown sizes cannot be computed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[name](X).compute(scheduler="sync")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("meta", ["plain", "masked"])
def test_chunks_that_are_not_what_their_array_says(name: str, meta: str) -> None:
    if name == "unique" and da.array_expr_enabled():
        pytest.skip("chunks of unknown sizes cannot be computed")
    if meta == "plain":
        x = X.map_blocks(lambda block: block, meta=np.empty((0, 0)))
        with pytest.raises(TypeError, match="is a masked array where its array says it is not"):
            CALLS[name](x).compute(scheduler="sync")
    else:
        x = X.map_blocks(lambda block: block.astype("f4"), meta=X._meta)
        with pytest.raises(TypeError, match="has dtype float32 where its array says float64"):
            CALLS[name](x).compute(scheduler="sync")


@pytest.mark.parametrize("scheduler", ["threads", "processes", "distributed"])
def test_on_other_schedulers(scheduler: str, request: Any) -> None:
    calls = [call for name, call in CALLS.items() if name != "unique" or not da.array_expr_enabled()]
    wanted = dask.compute(*(call(X) for call in calls), scheduler="sync")
    if scheduler == "distributed":
        request.getfixturevalue("on_cluster")
    for found, other in zip(dask.compute(*(call(X) for call in calls), scheduler=scheduler), wanted, strict=True):
        assert type(found) is type(other)
        np.testing.assert_array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(other))
        np.testing.assert_array_equal(np.ma.compressed(found), np.ma.compressed(other))


@pytest.mark.parametrize(
    ("strategy", "held_share", "reads"), [("rechunk", 0.5, 1), ("samples", 0.5, 1), ("samples", 0, 2)]
)
def test_sources_are_read_as_often_as_plain_ones(strategy: str, held_share: float, reads: int) -> None:
    if held_share == 0 and da.array_expr_enabled():
        pytest.skip("sources are always held")
    array, calls = np.ma.masked_less(np.random.default_rng(1).random((4, 4000)), 0.3), []
    x = ours.dask_array(array, (4, 1000)).map_blocks(lambda block: calls.append(0) or block, meta=np.ma.empty((0, 0)))
    with dask.config.set({"gpusort.held_share": held_share}):
        found = dask_gpusort.quantile(x, [0.1, 0.5], 1, strategy=strategy)
        assert_same(found, by_lanes(array, (1,), False, lambda values: np.quantile(values, [0.1, 0.5])))
    assert len(calls) == 4 * reads


def test_what_dask_makes_of_results_is_masked() -> None:
    sums = dask_gpusort.sort(X).sum(axis=0)
    assert sums.compute(scheduler="sync").tolist() == np.ma.sort(SMALL).sum(axis=0).tolist()
    spread = dask_gpusort.median(X, 1) - X.mean(axis=1)
    assert np.ma.getmaskarray(spread.compute(scheduler="sync")).tolist() == [False, True, False]


@pytest.mark.parametrize("index", [(0, 0), (0, 3)])
def test_one_element(index: tuple[int, int]) -> None:
    """Dask gives elements of chunks bare, masked ones as the constant of NumPy."""
    for dtype in (np.float64, np.int32):
        array = SMALL.astype(dtype)
        x = da.from_array(array, chunks=2)[index]
        wanted = np.ma.MaskedArray(array.data[index], array.mask[index])
        assert_same(dask_gpusort.median(x), wanted.astype(np.float64))
        assert_same(dask_gpusort.sort(x, None), wanted.reshape(1))


def test_a_quantile_of_big_endian_dates() -> None:
    dates = np.ma.MaskedArray(np.array([3, 1, 2], ">M8[s]"), [0, 1, 0])
    found = dask_gpusort.quantile(da.from_array(dates, chunks=2, asarray=False), 0.5, method="lower")
    assert computed(found) == np.datetime64(2, "s")


def test_arrays_in_memory_are_taken() -> None:
    assert_same(dask_gpusort.median(SMALL, 0), np.ma.median(SMALL, 0))


def test_the_plan_is_explained() -> None:
    assert "0" in str(dask_gpusort.explain_quantile(X, 0.5, axis=0).detail)


TEXT = np.ma.MaskedArray(["b", "a"], [0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dask_gpusort.sort(X, key=np.abs), "key is not for masked arrays.*dask.array.ma.filled"),
        (lambda: dask_gpusort.argsort(X, less=np.less), "less is not for masked arrays"),
        (lambda: dask_gpusort.median(X, 0, by=[1, 1, 2]), "by is not for masked arrays"),
        (lambda: dask_gpusort.rank(X, 0, by=[1, 1, 2]), "by is not for masked arrays"),
        (lambda: dask_gpusort.topk(X, 1, 0, by=[1, 1, 2]), "by is not for masked arrays"),
        (lambda: dask_gpusort.topk(X, 1, values=X), "values 0 is masked"),
        (lambda: dask_gpusort.topk(X, 1, values=da.ones((3, 4), chunks=2)), "values is not for masked arrays"),
        (lambda: dask_gpusort.quantile(X, 0.5, method="inverted_cdf", weights=np.ones((3, 4))), "weights is not for"),
        (lambda: dask_gpusort.unique(X, return_index=True), "return_index is not for masked"),
        (lambda: dask_gpusort.unique(X, return_inverse=True), "return_inverse is not for masked"),
        (lambda: dask_gpusort.unique(X, axis=0), "axis is not for masked"),
        (lambda: dask_gpusort.searchsorted(X[0], X), "a is masked.*fill them first"),
        (lambda: dask_gpusort.median(X.astype(object)), "a is masked.*fill them first"),
        (lambda: dask_gpusort.quantile(X, [Fraction(1, 2)]), "a is masked.*fill them first"),
        (lambda: dask_gpusort.quantile(da.from_array(TEXT), 0.5, method="lower"), "a is masked.*fill them first"),
        (lambda: dask_gpusort.sort(da.from_array(np.ma.zeros(3, [("a", "i4")]))), "a is masked.*fill them first"),
        (lambda: dask_gpusort.median(X, out=np.empty(3)), "out= is for arrays in memory"),
        (lambda: dask_gpusort.quantile(X > 1, 0.5), "computes between keys"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_lanes_without_elements() -> None:
    empty = da.from_array(np.ma.masked_all((0, 3)), chunks=2)
    assert computed(dask_gpusort.median(empty, 0)).tolist() == [None] * 3
    assert computed(dask_gpusort.median(empty, 1)).shape == (0,)
    assert computed(dask_gpusort.sort(empty, 0)).shape == (0, 3)
    assert computed(dask_gpusort.rank(empty, 1)).shape == (0, 3)
    with pytest.raises(IndexError, match="no elements along the reduced axes"):
        dask_gpusort.quantile(empty, 0.5, 0)


def test_registered_functions_take_masked_arrays() -> None:
    with dask_gpusort.register("numpy"):
        assert_same(da.sort(X), np.ma.sort(SMALL))
        assert_same(np.median(X, axis=0), np.ma.median(SMALL, axis=0))
        assert_same(da.median(X, axis=0), np.ma.median(SMALL, axis=0))
        assert_same(np.sort(X, axis=0), np.ma.sort(SMALL, axis=0))


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["f4", ">f8", "c16"])
def test_distinct_zeros_keep_their_sign(dtype, chunks):
    array = np.ma.MaskedArray(np.array([5, -0.0, 0.0, 1], dtype), [True, False, False, False])
    found = dask_gpusort.unique(da.from_array(array, chunks=chunks, asarray=False)).compute()
    wanted = np.ma.unique(array)
    assert found.tolist() == wanted.tolist()
    assert np.signbit(found.data.real[:2]).tolist() == np.signbit(wanted.data.real[:2]).tolist() == [True, False]
